import assert from 'node:assert/strict'
import type { PartitionsStatus } from '../../src/base/cluster-status.ts'
import { statusOf } from '../support/cluster-status.ts'
import { until, waitFor } from '../support/until.ts'
import type { NodeProcess } from './cluster-processes.ts'
import { metricOf, settled } from './parts.ts'

/** A node in a process of its own or in this one. */
type AnyNode = Pick<NodeProcess, 'name' | 'url'>

/** Draws one of the values at random. */
export function drawn<Value>(values: readonly Value[], random: () => number): Value {
  return values[Math.floor(random() * values.length)]!
}

/** Starts moves: drains a node, or ends the drain of a drained one. Moves can continue after this resolves. */
export async function beginMove(nodes: readonly NodeProcess[], random: () => number): Promise<void> {
  const drained = await drainedOf(nodes)
  if (drained === undefined) await drain(nodes, drawn(nodes, random))
  else await undrain(nodes, drained)
}

/** Ends all drains and waits until every partition is on its owners. */
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

/** Resolves when the node has dropped its partitions and begins to fetch them again. */
export async function refetch(nodes: readonly AnyNode[], node: AnyNode): Promise<void> {
  const before = await metricOf(node, 'vicinal_cluster_fetches')
  await ask(nodes, 'POST', `${node.name}/refetch`)
  await until(async () => {
    const fetches = await metricOf(node, 'vicinal_cluster_fetches').catch(() => before)
    return fetches > before
  }, `${node.name} has dropped its partitions`)
}

/** Waits until every node reports that all partitions have all copies, so that a fault may destroy one of them. */
export async function allCopies(nodes: readonly NodeProcess[]): Promise<void> {
  await until(async () => {
    const all = await partitionsSeenBy(nodes)
    return all.every((partitions) => partitions?.incoming === 0)
  }, 'every partition has all its copies')
}

/** Whether any node reports partitions with too few copies. */
export async function lacksCopies(nodes: readonly NodeProcess[]): Promise<boolean> {
  const all = await partitionsSeenBy(nodes)
  return all.some((partitions) => partitions !== undefined && partitions.under_replicated > 0)
}

/** The partitions in the view of each node; undefined for a node that does not answer. */
async function partitionsSeenBy(
  nodes: readonly NodeProcess[],
): Promise<readonly (PartitionsStatus | undefined)[]> {
  return await Promise.all(
    nodes.map(async (node) => (await statusOf(node).catch(() => undefined))?.partitions),
  )
}

/** The two nodes of a move in progress. */
export interface Move {
  readonly to: NodeProcess
  readonly from: NodeProcess
}

/** Starts a move and returns one in progress; undefined if all of them end before they are seen. */
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

/** How many partitions a node owns, in the view of another node. */
export async function ownedBy(nodes: readonly NodeProcess[], { name }: NodeProcess): Promise<number> {
  const status = await statusOf(nodes.find((node) => node.name !== name)!)
  return status.nodes.find((node) => node.name === name)?.partitions?.owned ?? 0
}

async function moveTo(to: NodeProcess, nodes: readonly NodeProcess[]): Promise<Move | undefined> {
  const status = await statusOf(to)
  const sender = status.nodes.find(({ name }) => name === to.name)?.partitions?.from
  const from = nodes.find(({ name }) => name === sender)
  return from && { to, from }
}

/** The node that is drained, if any. */
export async function drainedOf(nodes: readonly NodeProcess[]): Promise<NodeProcess | undefined> {
  const status = await waitFor(
    async () => await statusOf(nodes[0]!).catch(() => undefined),
    'a node reports the status',
  )
  const name = status.nodes.find(({ state }) => state === 'draining')?.name
  return nodes.find((node) => node.name === name)
}

/** Sends a request to the nodes in turn until one of them has carried it out. */
async function ask(nodes: readonly AnyNode[], method: string, path: string): Promise<void> {
  await until(async () => {
    for (const { url } of nodes) {
      const signal = AbortSignal.timeout(5_000)
      const answer = await fetch(`${url}/cluster/nodes/${path}`, { method, signal }).catch(() => undefined)
      // 404: an earlier attempt succeeded, but its answer was lost.
      if (answer?.ok || answer?.status === 404) return true
      assert.ok(answer?.status !== 400, await answer?.text())
    }
    return false
  }, `${method} ${path}`)
}

/** After this time, a move has probably ended already. */
const moveMs = 3_000
