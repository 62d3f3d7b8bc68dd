import { setTimeout as pause } from 'node:timers/promises'
import type { Division } from '../support/faulty-proxy.ts'
import { until } from '../support/until.ts'
import { below, cutMs, type Strike } from './faults.ts'
import { drain, drawn, moveUnderWay, ownedBy, refetch, remove } from './moves.ts'

/** Additional faults of a cluster whose nodes have a part of the points each and call each other. */
export const faultsOfParts: Readonly<Record<string, Strike>> = {
  'a node cut off from the other nodes': nodeCutOff({ sends: 'hold', receives: 'hold' }),
  'a node that receives from the other nodes but cannot send to them': nodeCutOff({
    sends: 'hold',
    receives: 'pass',
  }),
  'a node that sends to the other nodes but cannot receive from them': nodeCutOff({
    sends: 'pass',
    receives: 'hold',
  }),
  'links between nodes that break': async ({ peerLinks }, random) => {
    const link = drawn(peerLinks, random)
    link.break()
    await pause(cutMs(random))
    link.heal()
  },
  'slow links between nodes': async ({ peerLinks }, random) => {
    for (const link of peerLinks) link.delay(10 + 200 * random())
    await pause(cutMs(random))
    for (const link of peerLinks) link.heal()
  },
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

function nodeCutOff(division: Division): Strike {
  return async (cluster, random) => {
    cluster.divideNode(below(random, cluster.nodes.length), division)
    await pause(cutMs(random))
    for (const link of cluster.peerLinks) link.heal()
  }
}
