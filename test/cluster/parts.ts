import { statusOf } from '../support/cluster-status.ts'
import { until } from '../support/until.ts'
import type { NodeProcess } from './cluster-processes.ts'

/** Settings of a cluster whose nodes have a part of the points each. */
export function settingsOfParts(replicas: number, dimension: number): Readonly<Record<string, string>> {
  return {
    CLUSTER_REPLICAS: String(replicas),
    DIMENSION: String(dimension),
  }
}

/** Resolves when all nodes are ready and every partition is on its owners and nowhere else. */
export async function settled(nodes: readonly Pick<NodeProcess, 'url' | 'name'>[]): Promise<void> {
  await until(async () => {
    // One after the other: usually the first one already says that something is missing.
    for (const node of nodes) {
      if (!(await isSettled(node, nodes.length).catch(() => false))) return false
    }
    return true
  }, 'all partitions are where they should be')
}

async function isSettled(node: Pick<NodeProcess, 'url' | 'name'>, count: number): Promise<boolean> {
  const { partitions, nodes, is_ready: isReady } = await statusOf(node)
  if (!isReady || partitions === undefined || nodes.filter((each) => each.is_ready).length !== count)
    return false
  if (partitions.incoming !== 0 || partitions.surplus !== 0 || partitions.under_replicated !== 0) return false
  // The status is read from the log servers. The node's own view, by which it asks the others, is up to seconds older.
  const metrics = await metricsOf(node)
  if (valueIn(metrics, 'vicinal_cluster_partitions_under_replicated') !== 0) return false
  // A node drops partitions that it no longer owns only when all nodes know that. Until then it still serves them.
  const owned = nodes.find(({ name }) => name === node.name)!.partitions!.owned
  return valueIn(metrics, 'vicinal_cluster_partitions') === owned
}

/** The value of a metric of a node. */
export async function metricOf(node: Pick<NodeProcess, 'url'>, name: string): Promise<number> {
  return valueIn(await metricsOf(node), name)
}

async function metricsOf({ url }: Pick<NodeProcess, 'url'>): Promise<string> {
  return await (await fetch(`${url}/metrics`, { signal: AbortSignal.timeout(5_000) })).text()
}

function valueIn(metrics: string, name: string): number {
  return Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(metrics)![1])
}

/** How many partitions each node has, in the view of the first node. */
export async function sharesOf({
  nodes,
}: {
  readonly nodes: readonly Pick<NodeProcess, 'url'>[]
}): Promise<Record<string, number>> {
  const status = await statusOf(nodes[0]!)
  return Object.fromEntries(status.nodes.map(({ name, partitions }) => [name, partitions.owned]))
}
