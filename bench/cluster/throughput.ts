import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createHttpClient } from '../../src/client/http-client.ts'
import { ClusterProcesses, NodeProcess } from '../../test/cluster/cluster-processes.ts'
import { settled as partsSettled, settingsOfParts } from '../../test/cluster/parts.ts'
import { freePorts } from '../../test/support/free-ports.ts'
import { ControlGroups, processorSeconds } from '../shared/control-groups.ts'
import { acknowledge, ingest, type Rate, search } from './load.ts'
import type { Options } from './options.ts'

export interface Throughput {
  readonly nodes: number
  /** The number of nodes that hold each point. */
  readonly replicas: number
  readonly ingest: Rate
  readonly search: Rate
  readonly acknowledge: Rate
  /** The CPU time of all nodes together per search. */
  readonly processorMsPerSearch: number
}

/** Measures a single service, without log servers. */
export async function measureOneNode(options: Options): Promise<Throughput> {
  const directory = mkdtempSync(join(tmpdir(), 'vicinal-bench-'))
  const [http, grpc] = (await freePorts(2)) as [number, number]
  const place = { name: 'alone', directory, port: http, volume: undefined }
  const node = new NodeProcess(place, { GRPC_PORT: String(grpc) })
  try {
    await node.start()
    return await measure([node], 1, options)
  } finally {
    await node.kill()
    rmSync(directory, { recursive: true, force: true })
  }
}

/** Measures three nodes. Their log servers have no quota. */
export async function measureCluster(options: Options, replicas: number): Promise<Throughput> {
  const nodes = 3
  const isInParts = replicas < nodes
  const environment = isInParts ? settingsOfParts(replicas, options.dimension) : {}
  await using cluster = await ClusterProcesses.start({ logServers: 3, nodes, environment })
  if (isInParts) await partsSettled(cluster.nodes)
  return await measure(cluster.nodes, replicas, options)
}

async function measure(
  nodes: readonly NodeProcess[],
  replicas: number,
  options: Options,
): Promise<Throughput> {
  const { points, dimension, seconds, clients: clientsPerNode, quota } = options
  using groups = new ControlGroups()
  for (const node of nodes) await ready(node)
  for (const node of nodes) groups.limit(node.pid!, { cores: quota === 0 ? undefined : quota })
  const clients = Array.from({ length: clientsPerNode * nodes.length }, (_, index) =>
    createHttpClient({ baseUrl: nodes[index % nodes.length]!.url, retries: 0 }),
  )
  const ingested = await ingest(clients, points, dimension)
  for (const node of nodes) await settled(node, points)
  // Warms up the search code on each node, so that it is compiled.
  await search(clients, seconds / 2, dimension)
  const used = (): number => nodes.reduce((sum, node) => sum + processorSeconds(node.pid!), 0)
  const before = used()
  const searched = await search(clients, seconds, dimension)
  const processorMsPerSearch = ((used() - before) * 1000) / searched.count
  const acknowledged = await acknowledge(clients[0]!, seconds, dimension)
  const result = {
    nodes: nodes.length,
    replicas,
    ingest: ingested,
    search: searched,
    acknowledge: acknowledged,
  }
  await Promise.all(nodes.map((node) => node.kill()))
  return { ...result, processorMsPerSearch }
}

/** Waits until a node is ready. @throws Error with the node's log if it exits or is not ready in time */
export async function ready(node: NodeProcess, maxSeconds: number = Number.POSITIVE_INFINITY): Promise<void> {
  const endMs = performance.now() + maxSeconds * 1000
  while (!(await node.isReady())) {
    if (!node.isRunning) throw new Error(`${node.name} has ended:\n${node.log}`)
    if (performance.now() > endMs) throw new Error(`${node.name} was not ready after ${maxSeconds} s`)
    await pause(50)
  }
}

/** Waits until a node knows all points and graphs contain them. */
export async function settled({ url }: NodeProcess, points: number): Promise<void> {
  for (;;) {
    const stats = (await (await fetch(`${url}/stats`)).json()) as {
      readonly points: number
      readonly waiting: number
      readonly settling: boolean
    }
    if (stats.points >= points && stats.waiting === 0 && !stats.settling) return
    await pause(200)
  }
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
