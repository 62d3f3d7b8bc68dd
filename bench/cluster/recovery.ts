import { availableParallelism } from 'node:os'
import { createHttpClient, type HttpClient } from '../../src/client/http-client.ts'
import { ClusterProcesses, type NodeProcess } from '../../test/cluster/cluster-processes.ts'
import { fill, ingest, vectorOf } from './load.ts'
import type { Options } from './options.ts'
import { pause, ready, settled } from './throughput.ts'

export interface Recovery {
  readonly fault: string
  /** The longest time without an answer. A caller tries the next node after one second. */
  readonly readsMs: number
  readonly writesMs: number
  /** From the restart of the killed processes until all nodes are ready. */
  readonly backMs: number
}

interface Fault {
  readonly name: string
  readonly kill: (cluster: ClusterProcesses) => Promise<() => Promise<void>>
}

const faults: readonly Fault[] = [
  { name: 'a node', kill: async ({ nodes }) => await killNode(nodes[1]!) },
  { name: "the log's leader", kill: killLeader },
  {
    name: "a node and the log's leader",
    async kill(cluster) {
      const [startNode, startServer] = [await killNode(cluster.nodes[1]!), await killLeader(cluster)]
      return async () => {
        await Promise.all([startNode(), startServer()])
      }
    },
  },
  {
    name: 'all nodes and log servers',
    async kill({ nodes, servers }) {
      await Promise.all([...nodes.map((node) => node.kill()), servers.killAll()])
      return async () => {
        await Promise.all([...nodes.map((node) => node.start()), servers.startAll()])
      }
    },
  },
]

async function killNode(node: NodeProcess): Promise<() => Promise<void>> {
  await node.kill()
  return () => node.start()
}

async function killLeader({ servers }: ClusterProcesses): Promise<() => Promise<void>> {
  const leader = await servers.leaderOf('VDB-test')
  if (leader === undefined) throw new Error('no log server is the leader')
  await servers.kill(leader)
  return () => servers.startOne(leader)
}

export interface Join {
  readonly points: number
  /** From the start of the node until it is ready. */
  readonly seconds: number
  /** From the start of the node until its graph contains all points. */
  readonly linkedSeconds: number
}

/** Injects faults while callers read and write. */
export async function measureFaults(
  options: Options,
  onMeasured: (recovery: Recovery) => void,
): Promise<void> {
  await using cluster = await ClusterProcesses.start({ logServers: 3, nodes: 3 })
  const { nodes } = cluster
  for (const node of nodes) await ready(node)
  const clients = nodes.map(({ url }) => createHttpClient({ baseUrl: url, retries: 0 }))
  await ingest(clients, options.points, options.dimension)
  for (const fault of faults) onMeasured(await measureFault(fault, cluster, clients, options))
}

async function measureFault(
  { name, kill }: Fault,
  cluster: ClusterProcesses,
  clients: readonly HttpClient[],
  { seconds, dimension }: Options,
): Promise<Recovery> {
  const vector = vectorOf(3_000_000, dimension)
  const payload = { contentType: 'Text' as const, content: name }
  const reads = new Caller(clients, (client, signal) =>
    client.search({ vector, metric: 'Cosine', limit: 1 }, { signal, consistency: 'available' }),
  )
  const writes = new Caller(clients, (client, signal) => client.insert({ vector, payload }, { signal }))
  await pause(seconds * 1000)
  const killedMs = performance.now()
  const start = await kill(cluster)
  // The interruption is measured while the killed processes are down, so that only the others answer. If everything was
  // killed, it must restart before anything can answer.
  if (!name.startsWith('all'))
    await Promise.all([reads.answeredAfter(killedMs), writes.answeredAfter(killedMs)])
  const startedMs = performance.now()
  await start()
  for (const node of cluster.nodes) await ready(node)
  const backMs = performance.now() - startedMs
  await Promise.all([reads.answeredAfter(performance.now()), writes.answeredAfter(performance.now())])
  await pause(seconds * 1000)
  return { fault: name, readsMs: await reads.stop(killedMs), writesMs: await writes.stop(killedMs), backMs }
}

/** Calls continuously. If a node does not answer within a second, calls the next node. */
class Caller {
  readonly #clients: readonly HttpClient[]
  readonly #call: (client: HttpClient, signal: AbortSignal) => Promise<unknown>
  readonly #answeredMs: number[] = []
  readonly #running: Promise<void>
  #isStopped = false

  constructor(
    clients: readonly HttpClient[],
    call: (client: HttpClient, signal: AbortSignal) => Promise<unknown>,
  ) {
    this.#clients = clients
    this.#call = call
    this.#running = this.#run()
  }

  async answeredAfter(timeMs: number): Promise<void> {
    while (!((this.#answeredMs.at(-1) ?? 0) > timeMs)) await pause(5)
  }

  /** @returns the longest time between two answers, starting shortly before a moment */
  async stop(sinceMs: number): Promise<number> {
    this.#isStopped = true
    await this.#running
    const gaps = this.#answeredMs.map((timeMs, index) => [
      timeMs,
      timeMs - (this.#answeredMs[index - 1] ?? timeMs),
    ])
    return Math.max(...gaps.filter(([timeMs]) => timeMs! >= sinceMs).map(([, gapMs]) => gapMs!))
  }

  async #run(): Promise<void> {
    for (let turn = 0; !this.#isStopped; turn++) {
      const client = this.#clients[turn % this.#clients.length]!
      // Failed calls need no handling: they lengthen the time between two answers, which is measured.
      await this.#call(client, AbortSignal.timeout(1_000)).then(
        () => this.#answeredMs.push(performance.now()),
        () => pause(5),
      )
    }
  }
}

/** Measures how a second node joins one that has all points. Throws as `ready` does. */
export async function measureJoin({ joinPoints: points, dimension }: Options): Promise<Join> {
  const environment = { THREADS: String(availableParallelism()) }
  await using cluster = await ClusterProcesses.start({ logServers: 1, nodes: 2, started: 1, environment })
  const [first, second] = cluster.nodes as [NodeProcess, NodeProcess]
  await ready(first)
  await fill(createHttpClient({ baseUrl: first.url }), points, dimension)
  await settled(first, points)
  const startedMs = performance.now()
  const seconds = (): number => (performance.now() - startedMs) / 1000
  await second.start()
  await ready(second, joinMaxSeconds)
  const readySeconds = seconds()
  await settled(second, points)
  return { points, seconds: readySeconds, linkedSeconds: seconds() }
}

const joinMaxSeconds = 3_600
