import assert from 'node:assert/strict'
import { setTimeout as pause } from 'node:timers/promises'
import type { Division, FaultyProxy } from '../support/faulty-proxy.ts'
import { discard } from '../support/nats-log.ts'
import { until } from '../support/until.ts'
import type { ClusterProcesses, NodeProcess } from './cluster-processes.ts'
import { drain, drainedOf, drawn, moveUnderWay, ownedBy, refetch, remove } from './moves.ts'
import { metricOf } from './parts.ts'

export type Strike = (cluster: ClusterProcesses, random: () => number) => Promise<void>

/** Faults of a cluster. Each resolves when every process runs again, which may be before it is ready. */
export const faults: Readonly<Record<string, Strike>> = {
  'kill -9 of a node': async ({ nodes }, random) => {
    const node = nodes[below(random, nodes.length)]!
    await node.kill()
    await pause(1_000 * random())
    await node.start()
  },
  "kill -9 of the log's leader": async ({ servers }, random) => {
    const leader = (await servers.leaderOf('VDB-test')) ?? 0
    await servers.kill(leader)
    await pause(3_000 * random())
    await servers.startOne(leader)
  },
  'kill -9 of a node with its log server': async ({ nodes, servers }, random) => {
    const index = below(random, Math.min(nodes.length, servers.count))
    await Promise.all([nodes[index]!.kill(), servers.kill(index)])
    await pause(1_000 * random())
    await Promise.all([nodes[index]!.start(), servers.startOne(index)])
  },
  'kill -9 of everything': async ({ nodes, servers }) => {
    await Promise.all([...nodes.map((node) => node.kill()), servers.killAll()])
    await Promise.all([...nodes.map((node) => node.start()), servers.startAll()])
  },
  'a restart of a node': async ({ nodes }, random) => {
    const node = nodes[below(random, nodes.length)]!
    await node.stop()
    await node.start()
  },
  'kill -9 of all log servers': async ({ servers }) => {
    await servers.killAll()
    await servers.startAll()
  },
  'all log servers stopped': async ({ nodes, servers, hasParts }, random) => {
    await servers.killAll()
    await pause(cutMs(random))
    // Only requests that need neither the log nor other nodes succeed.
    await Promise.all(
      nodes.map(async (node) => {
        if (hasParts) assert.notEqual(await countAt(node, 'available'), 200)
        else
          await until(
            async () => (await countAt(node, 'available')) === 200,
            'reads continue without log servers',
          )
        assert.notEqual(await countAt(node, 'latest'), 200)
      }),
    )
    await servers.startAll()
  },
  'SIGSTOP of a node': async ({ nodes }, random) => {
    const node = nodes[below(random, nodes.length)]!
    node.pause()
    await pause(stopMs(random))
    node.resume()
  },
  'a store emptied': async ({ nodes }, random) => {
    const node = nodes[below(random, nodes.length)]!
    await node.kill()
    node.emptyStore()
    await node.start()
  },
  'a store with flipped bits': async ({ nodes }, random) => {
    const node = nodes[below(random, nodes.length)]!
    await node.kill()
    node.flipBits()
    await node.start()
  },
  'a store cut short': async ({ nodes }, random) => {
    const node = nodes[below(random, nodes.length)]!
    await node.kill()
    node.truncateStore(random())
    await node.start()
  },
  'an empty node that joins after the log has discarded records': async ({ nodes, servers }, random) => {
    const node = nodes[below(random, nodes.length)]!
    const others = nodes.filter((each) => each !== node)
    await node.kill()
    node.emptyStore()
    await until(async () => {
      const path = `${others[0]!.url}/cluster/nodes/${node.name}`
      const { status } = await fetch(path, { method: 'DELETE' })
      return status === 204 || status === 404
    }, 'the node is no longer a member')
    // Never discard records that a serving node does not have on disk: the next fault can kill all of them.
    const floors = await Promise.all(others.map((each) => metricOf(each, 'vicinal_cluster_durable_position')))
    await discard(servers, 'test', Math.min(...floors) + 1)
    await node.start()
  },
  'SIGSTOP of a log server': async ({ servers }, random) => {
    const index = below(random, servers.count)
    await servers.pause(index)
    await pause(stopMs(random))
    servers.resume(index)
  },
  'a node cut off from all log servers': cutOff('hold', 'hold'),
  'a node that receives from the log servers but cannot send to them': cutOff('hold', 'pass'),
  'a node that sends to the log servers but cannot receive from them': cutOff('pass', 'hold'),
  'connections of a node to the log servers that break': async ({ links }, random) => {
    const own = links[below(random, links.length)]!
    for (const link of own) link.break()
    await pause(3_000 * random())
    for (const link of own) link.heal()
  },
  'slow connections of all nodes': async ({ links }, random) => {
    for (const link of links.flat()) link.delay(10 + 200 * random())
    await pause(cutMs(random))
    for (const link of links.flat()) link.heal()
  },
  'a log server cut off from the others': logServerCutOff({ sends: 'hold', receives: 'hold' }),
  'a log server that receives from the others but cannot send to them': logServerCutOff({
    sends: 'hold',
    receives: 'pass',
  }),
  'a log server that sends to the others but cannot receive from them': logServerCutOff({
    sends: 'pass',
    receives: 'hold',
  }),
  "the log's leader cut off from the others": async ({ servers }, random) => {
    servers.isolate((await servers.leaderOf('VDB-test')) ?? 0)
    await pause(cutMs(random))
    servers.rejoin()
  },
  'a node whose clock is hours off': async ({ nodes }, random) => {
    const node = nodes[below(random, nodes.length)]!
    await node.kill()
    node.clockAheadMs = Math.round((random() - 0.5) * 24 * 3_600_000)
    await node.start()
  },
  'a store of a log server that was emptied': async ({ servers }, random) => {
    const index = below(random, servers.count)
    await servers.kill(index)
    servers.emptyStore(index)
    await servers.startOne(index)
    await until(() => servers.isCurrent(index), 'the log server has everything again')
  },
  'a store of a log server that was cut short': async ({ servers }, random) => {
    const index = below(random, servers.count)
    await servers.kill(index)
    servers.truncateStore(index, 'VDB-test', random())
    await servers.startOne(index)
    await until(() => servers.isCurrent(index), 'the log server has everything again')
  },
  'a flipped bit in a store of a log server': async ({ servers }, random) => {
    const index = below(random, servers.count)
    await servers.kill(index, 'SIGTERM')
    servers.flipBit(index, 'VDB-test', random())
    await servers.startOne(index)
    await until(() => servers.isCurrent(index), 'the log server has everything again')
  },
  'a full volume of a node': async ({ nodes }, random) => {
    const node = nodes[below(random, nodes.length)]!
    const { volume } = node
    if (volume === undefined) return
    volume.fill()
    await pause(cutMs(random))
    volume.empty()
  },
  'a full volume of a log server': async ({ servers }, random) => {
    const index = below(random, servers.count)
    const volume = servers.volumes[index]
    if (volume === undefined) return
    volume.fill()
    await pause(cutMs(random))
    volume.empty()
    // A server that could not write does not recover automatically.
    await servers.kill(index)
    await servers.startOne(index)
    await until(() => servers.isCurrent(index), 'the log server has everything again')
  },
}

/**
 * Faults before which all copies of points must exist: they destroy those of a node, or a node has to answer alone. A
 * node that is still copying its points gets what it lacks from others, through the log servers.
 */
const ofWholeNodes: ReadonlySet<string> = new Set([
  'all log servers stopped',
  'a store emptied',
  'a store with flipped bits',
  'a store cut short',
  'an empty node that joins after the log has discarded records',
])

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
    const drained = await drainedOf(nodes)
    const chosen = nodes.filter((node) => node !== drained)
    await refetch(nodes, drawn(chosen, random))
  },
}

/** The same, of nodes that have a part of the points each. */
const ofWholeNodesWithParts: ReadonlySet<string> = new Set([
  'a node that is removed while it is stopped, then comes back',
  'a node that is told to fetch everything again',
])

export interface Fault {
  readonly strike: Strike
  /** Whether all copies of points must exist before. */
  readonly needsCopies: boolean
}

/**
 * All faults of a cluster, by name.
 *
 * @param replicas copies of each point; absent: every node has all points
 */
export function kindsOf(replicas?: number): Readonly<Record<string, Fault>> {
  const all = { ...faults, ...(replicas === undefined ? {} : faultsOfParts) }
  for (const name of ofWholeNodes) assert.ok(name in faults, name)
  for (const name of ofWholeNodesWithParts) assert.ok(name in faultsOfParts, name)
  return Object.fromEntries(
    Object.entries(all).map(([name, strike]) => [
      name,
      { strike, needsCopies: ofWholeNodes.has(name) || ofWholeNodesWithParts.has(name) },
    ]),
  )
}

/** Draws `count` faults: all kinds in random order, then all again in another order, and so on. */
export function drawFaults(kinds: readonly string[], count: number, random: () => number): readonly string[] {
  const chosen: string[] = []
  while (chosen.length < count) {
    const rest = [...kinds]
    while (rest.length > 0) chosen.push(...rest.splice(Math.floor(random() * rest.length), 1))
  }
  return chosen.slice(0, count)
}

/** From 0.1 s to 30 s, mostly short. */
export function stopMs(random: () => number): number {
  return 100 + 30_000 * random() ** 4
}

function logServerCutOff(division: Division): Strike {
  return async ({ servers }, random) => {
    servers.isolate(below(random, servers.count), division)
    await pause(cutMs(random))
    servers.rejoin()
  }
}

/** Holds the bytes between a node and the log servers, in one direction or both. */
function cutOff(...passages: Parameters<FaultyProxy['set']>): Strike {
  return async ({ links }, random) => {
    const own = links[below(random, links.length)]!
    for (const link of own) link.set(...passages)
    await pause(cutMs(random))
    for (const link of own) link.heal()
  }
}

/** From 0.5 s to 10 s, mostly short. */
export function cutMs(random: () => number): number {
  return 500 + 10_000 * random() ** 2
}

export function below(random: () => number, count: number): number {
  return Math.floor(random() * count)
}

/** The HTTP status of a count; 0 if there is no answer within a second. */
async function countAt({ url }: NodeProcess, consistency: string): Promise<number> {
  const headers = { 'content-type': 'application/json', 'vicinal-consistency': consistency }
  const signal = AbortSignal.timeout(1_000)
  return await fetch(`${url}/points/count`, { method: 'POST', headers, body: '{}', signal }).then(
    ({ status }) => status,
    () => 0,
  )
}
