import assert from 'node:assert/strict'
import type { PartitionsStatus } from '../../src/base/cluster-status.ts'
import { statusOf } from '../support/cluster-status.ts'
import { until, waitFor } from '../support/until.ts'
import type { NodeProcess } from './cluster-processes.ts'
import { metricOf, settled } from './parts.ts'

/** A node by its place among those of a cluster, as faults draw it. */
export function drawn<Value>(values: readonly Value[], random: () => number): Value {
  return values[Math.floor(random() * values.length)]!
}

/** Makes partitions move: a node is drained or, if one is, comes back. They may go on moving for a while. */
export async function beginMove(nodes: readonly NodeProcess[], random: () => number): Promise<void> {
  const drained = await drainedOf(nodes)
  if (drained === undefined) await drain(nodes, drawn(nodes, random))
  else await undrain(nodes, drained)
}

/** All nodes take part again, and every partition is where it should be. */
export async function endMoves(nodes: readonly NodeProcess[]): Promise<void> {
  const drained = await drainedOf(nodes)
  if (drained !== undefined) await undrain(nodes, drained)
  await settled(nodes)
}

export async function drain(nodes: readonly NodeProcess[], node: NodeProcess): Promise<void> {
  await ask(nodes, 'POST', `${node.name}/drain`)
}

export async function undrain(nodes: readonly NodeProcess[], node: NodeProcess): Promise<void> {
  await ask(nodes, 'DELETE', `${node.name}/drain`)
}

export async function remove(nodes: readonly NodeProcess[], node: NodeProcess): Promise<void> {
  await ask(nodes, 'DELETE', node.name)
}

/** Resolves when the node has left its partitions, and begins to take them anew. */
export async function refetch(nodes: readonly NodeProcess[], node: NodeProcess): Promise<void> {
  const before = await metricOf(node, 'vicinal_cluster_fetches')
  await ask(nodes, 'POST', `${node.name}/refetch`)
  await until(async () => {
    const fetches = await metricOf(node, 'vicinal_cluster_fetches').catch(() => before)
    return fetches > before
  }, `${node.name} has left its partitions`)
}

/** Every partition has all its copies, so that one of them may go. Every node says so, those included that began last. */
export async function allCopies(nodes: readonly NodeProcess[]): Promise<void> {
  await until(async () => {
    const all = await partitionsSeenBy(nodes)
    return all.every((partitions) => partitions?.to_come === 0)
  }, 'every partition has all its copies')
}

/** Whether some partitions have fewer copies than they should, as far as some node knows. */
export async function lacksCopies(nodes: readonly NodeProcess[]): Promise<boolean> {
  const all = await partitionsSeenBy(nodes)
  return all.some((partitions) => partitions !== undefined && partitions.under_replicated > 0)
}

/** As each of the nodes sees it; undefined of one that does not answer. */
async function partitionsSeenBy(
  nodes: readonly NodeProcess[],
): Promise<readonly (PartitionsStatus | undefined)[]> {
  return await Promise.all(
    nodes.map(async (node) => (await statusOf(node).catch(() => undefined))?.partitions),
  )
}

/** The ends of a move that is under way. */
export interface Move {
  readonly to: NodeProcess
  readonly from: NodeProcess
}

/** A move that is under way; begun, if there is none. Undefined when all of them end before they are seen. */
export async function moveUnderWay(
  nodes: readonly NodeProcess[],
  random: () => number,
): Promise<Move | undefined> {
  await beginMove(nodes, random)
  const endMs = performance.now() + moveMs
  return await waitFor(async () => {
    const moves = await Promise.all(nodes.map((node) => moveTo(node, nodes).catch(() => undefined)))
    const found = moves.find((move) => move !== undefined)
    return found ?? (performance.now() > endMs ? 'none' : undefined)
  }, 'partitions move').then((move) => (move === 'none' ? undefined : move))
}

/** How many partitions a node owns, as another one sees it. */
export async function ownedBy(nodes: readonly NodeProcess[], { name }: NodeProcess): Promise<number> {
  const status = await statusOf(nodes.find((node) => node.name !== name)!)
  return status.nodes.find((node) => node.name === name)?.partitions?.owned ?? 0
}

async function moveTo(to: NodeProcess, nodes: readonly NodeProcess[]): Promise<Move | undefined> {
  const status = await statusOf(to)
  const giver = status.nodes.find(({ name }) => name === to.name)?.partitions?.from
  const from = nodes.find(({ name }) => name === giver)
  return from && { to, from }
}

async function drainedOf(nodes: readonly NodeProcess[]): Promise<NodeProcess | undefined> {
  const status = await waitFor(
    async () => await statusOf(nodes[0]!).catch(() => undefined),
    'a node tells the status',
  )
  const name = status.nodes.find(({ state }) => state === 'draining')?.name
  return nodes.find((node) => node.name === name)
}

/** Until some node has done it. */
async function ask(nodes: readonly NodeProcess[], method: string, path: string): Promise<void> {
  await until(async () => {
    for (const { url } of nodes) {
      const signal = AbortSignal.timeout(5_000)
      const answer = await fetch(`${url}/cluster/nodes/${path}`, { method, signal }).catch(() => undefined)
      // It had an answer that got lost.
      if (answer?.ok || answer?.status === 404) return true
      assert.ok(answer?.status !== 400, await answer?.text())
    }
    return false
  }, `${method} ${path}`)
}

/** After which a move has probably ended already. */
const moveMs = 3_000
