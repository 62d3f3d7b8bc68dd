import assert from 'node:assert/strict'
import { openLog } from '../support/nats-log.ts'
import { seededRandom } from '../support/random.ts'
import { until } from '../support/until.ts'
import { ClusterProcesses } from './cluster-processes.ts'
import { anomaliesAtRest, anomaliesOf } from './history.ts'
import { contentOf, Workload } from './workload.ts'

/** What can happen to a cluster. Each resolves when everything runs again; it may not be ready yet. */
export const faults: Readonly<
  Record<string, (cluster: ClusterProcesses, random: () => number) => Promise<void>>
> = {
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
  'kill -9 of all log servers': async ({ servers }) => {
    await servers.killAll()
    await servers.startAll()
  },
  'SIGSTOP of a node': async ({ nodes }, random) => {
    const node = nodes[below(random, nodes.length)]!
    node.pause()
    await pause(100 + 5_000 * random())
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
  'an empty node that joins after the log was trimmed': async ({ nodes, servers }, random) => {
    const node = nodes[below(random, nodes.length)]!
    const others = nodes.filter((each) => each !== node)
    await node.kill()
    node.emptyStore()
    await until(async () => {
      const path = `${others[0]!.url}/cluster/nodes/${node.name}`
      const { status } = await fetch(path, { method: 'DELETE' })
      return status === 204 || status === 404
    }, 'the node is no member any more')
    // Never beyond what those that serve have on disk: all of them can be killed next.
    const floors = await Promise.all(others.map(durablePositionOf))
    await using connection = await openLog(servers, 'test', { logBytesMax: 2 ** 30 })
    await connection.log.trim(Math.min(...floors) + 1)
    await node.start()
  },
  'SIGSTOP of a log server': async ({ servers }, random) => {
    const index = below(random, servers.count)
    await servers.pause(index)
    await pause(100 + 5_000 * random())
    servers.resume(index)
  },
}

export interface CampaignOptions {
  readonly seed: number
  readonly report?: (line: string) => void
  readonly environment?: Readonly<Record<string, string>>
}

/** Faults, one after the other, while clients write and read; then everything that they saw is checked. */
export async function runCampaign(
  names: readonly string[],
  { seed, report = () => {}, environment = {} }: CampaignOptions,
): Promise<{ readonly writes: number; readonly reads: number }> {
  const random = seededRandom(seed)
  await using cluster = await ClusterProcesses.start({ logServers: 3, nodes: 3, environment })
  const workload = new Workload(cluster.nodes, seededRandom(seed + 1))
  try {
    await allReady(cluster)
    workload.start()
    await progress(workload)
    for (const name of names) {
      report(`${name}; ${workload.acknowledged} inserts acknowledged`)
      await faults[name]!(cluster, random)
      await allReady(cluster)
      await progress(workload)
    }
    await workload.stop()
    assert.deepEqual(anomaliesOf(workload.history), [])
    await atRest(cluster, workload)
  } catch (error) {
    await workload.stop()
    for (const node of cluster.nodes) report(`${node.name}:\n${node.log.split('\n').slice(-30).join('\n')}`)
    throw error
  }
  return { writes: workload.acknowledged, reads: workload.history.reads.length }
}

/** All nodes come to have the same, and that is what was acknowledged. */
async function atRest({ nodes }: ClusterProcesses, { history }: Workload): Promise<void> {
  await until(async () => {
    const positions = await Promise.all(nodes.map(positionOf))
    return positions.every((position) => position === positions[0])
  }, 'all nodes have applied the same')
  const contents = await Promise.all(nodes.map(async (node) => [node.name, await contentOf(node)] as const))
  assert.deepEqual(anomaliesAtRest(history, new Map(contents)), [])
}

async function positionOf({ url }: { readonly url: string }): Promise<number> {
  const response = await fetch(`${url}/cluster`)
  return ((await response.json()) as { position: number }).position
}

async function durablePositionOf({ url }: { readonly url: string }): Promise<number> {
  const metrics = await (await fetch(`${url}/metrics`)).text()
  return Number(/^vicinal_cluster_durable_position (\d+)$/m.exec(metrics)![1])
}

async function allReady({ nodes }: ClusterProcesses): Promise<void> {
  await until(async () => {
    for (const node of nodes) assert.ok(node.isRunning, `${node.name} has ended`)
    return (await Promise.all(nodes.map((node) => node.isReady()))).every((isReady) => isReady)
  }, 'all nodes are ready')
}

/** Writes are acknowledged, and reads of the latest answered. */
async function progress(workload: Workload): Promise<void> {
  const before = { writes: workload.acknowledged, reads: workload.latestReads }
  await until(
    async () => workload.acknowledged > before.writes + 10 && workload.latestReads > before.reads + 10,
    'clients get on',
  )
}

function below(random: () => number, count: number): number {
  return Math.floor(random() * count)
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
