import assert from 'node:assert/strict'
import type { ClusterStatus } from '../../src/base/cluster-status.ts'
import { until } from '../support/until.ts'
import type { ClusterProcesses, NodeProcess } from './cluster-processes.ts'

/** Resolves when all nodes are ready and every partition is where it should be. */
export async function settled(nodes: readonly Pick<NodeProcess, 'url'>[]): Promise<void> {
  const { length: count } = nodes
  await until(async () => {
    const all = await Promise.all(nodes.map((node) => statusOf(node).catch(() => undefined)))
    return all.every((status) => isSettled(status, count))
  })
}

function isSettled(status: ClusterStatus | undefined, count: number): boolean {
  const { partitions, nodes = [], is_ready: isReady } = status ?? {}
  if (!isReady || partitions === undefined || nodes.filter((node) => node.is_ready).length !== count)
    return false
  return partitions.to_come === 0 && partitions.to_go === 0 && partitions.without_node === 0
}

export async function statusOf({ url }: Pick<NodeProcess, 'url'>): Promise<ClusterStatus> {
  const response = await fetch(`${url}/cluster`, { signal: AbortSignal.timeout(5_000) })
  assert.equal(response.status, 200)
  return (await response.json()) as ClusterStatus
}

/** How many partitions each node has, as the first node sees it. */
export async function sharesOf({ nodes }: Pick<ClusterProcesses, 'nodes'>): Promise<Record<string, number>> {
  const status = await statusOf(nodes[0]!)
  return Object.fromEntries(status.nodes.map(({ name, partitions }) => [name, partitions!.owned]))
}
