import { setTimeout as pause } from 'node:timers/promises'
import { until } from '../support/until.ts'
import type { Strike } from './faults.ts'
import { drain, drawn, moveUnderWay, ownedBy, refetch, remove } from './moves.ts'

/** Additional faults of a cluster whose nodes have a part of the points each. */
export const faultsOfParts: Readonly<Record<string, Strike>> = {
  'kill -9 of a node that receives partitions': async ({ nodes }, random) => {
    const node = (await moveUnderWay(nodes, random))?.to ?? drawn(nodes, random)
    await node.kill()
    await pause(1_000 * random())
    await node.start()
  },
  'kill -9 of a node that sends partitions': async ({ nodes }, random) => {
    const node = (await moveUnderWay(nodes, random))?.from ?? drawn(nodes, random)
    await node.kill()
    await pause(1_000 * random())
    await node.start()
  },
  'kill -9 of both ends of a move': async ({ nodes }, random) => {
    const move = await moveUnderWay(nodes, random)
    const ends = move === undefined ? [drawn(nodes, random)] : [move.to, move.from]
    await Promise.all(ends.map((node) => node.kill()))
    await pause(1_000 * random())
    await Promise.all(ends.map((node) => node.start()))
  },
  'a node that is drained and removed, then joins again': async ({ nodes }, random) => {
    const node = drawn(nodes, random)
    const others = nodes.filter((each) => each !== node)
    await drain(others, node)
    await until(
      async () => (await ownedBy(nodes, node).catch(() => 1)) === 0,
      'the drained node has no partitions',
    )
    await node.stop()
    await remove(others, node)
    node.emptyStore()
    await node.start()
  },
  'a node that is removed while it is stopped, then comes back': async ({ nodes }, random) => {
    const node = drawn(nodes, random)
    await node.kill()
    await remove(
      nodes.filter((each) => each !== node),
      node,
    )
    await pause(3_000 * random())
    await node.start()
  },
  'a node that is told to fetch everything again': async ({ nodes }, random) => {
    await refetch(nodes, drawn(nodes, random))
  },
}

/** Faults that destroy a copy of partitions. */
export const destructiveOfParts: ReadonlySet<string> = new Set([
  'a node that is removed while it is stopped, then comes back',
  'a node that is told to fetch everything again',
])
