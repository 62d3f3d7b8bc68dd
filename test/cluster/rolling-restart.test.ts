import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { createHttpClient, type HttpClient } from '../../src/client/http-client.ts'
import { natsMissing } from '../support/nats-servers.ts'
import { until } from '../support/until.ts'
import { ClusterServices, type NodeService } from './cluster-services.ts'
import { settled } from './parts.ts'

describe('a cluster whose nodes are restarted one after the other', { skip: natsMissing() }, () => {
  it('shows no error to clients that retry once on another node', async () => {
    await restartAll()
  })

  it('shows no error if each node has a part of the points and each point is on two nodes', async () => {
    const environment = { CLUSTER_REPLICAS: '2', DIMENSION: '2' }
    await restartAll(environment, settled)
  })
})

/** Restarts one node after the other while clients continue. */
async function restartAll(
  environment: Readonly<Record<string, string>> = {},
  ready: (nodes: readonly NodeService[]) => Promise<void> = allReady,
): Promise<void> {
  await using cluster = await ClusterServices.start({ logServers: 3, nodes: 3, environment })
  const { nodes } = cluster
  await ready(nodes)
  const clients = nodes.map(({ url }) => createHttpClient({ baseUrl: url, retries: 0 }))
  const first = await clients[0]!.insert(pointOf(0))
  // Each answer also gives the client's session a position, so that no node may answer without the first point.
  for (const client of clients) assert.equal(await client.count(undefined, { consistency: 'latest' }), 1)
  const stop = new AbortController()
  const errors: string[] = []
  const counts = { writes: 0, reads: 0 }
  const callers = Array.from({ length: 4 }, (_, caller) =>
    call(caller, new RepeatingCaller(clients, caller), { stop: stop.signal, errors, counts, first }),
  )
  for (const node of nodes) {
    const before = { ...counts }
    await until(async () => counts.writes > before.writes && counts.reads > before.reads)
    await node.stop()
    await node.start()
    await ready(nodes)
  }
  stop.abort()
  const stored = (await Promise.all(callers)).flat()
  assert.deepEqual(errors, [])
  assert.ok(stored.length > 0)
  // Each point was stored once, although some were sent twice.
  for (const client of clients) {
    await until(async () => (await client.count()) >= stored.length + 1)
    assert.equal(await client.count(), stored.length + 1)
  }
}

async function allReady(nodes: readonly NodeService[]): Promise<void> {
  await until(async () => (await Promise.all(nodes.map((node) => node.isReady()))).every((is) => is))
}

/** Sends a request to a node and, if it fails, retries once on the next node. */
class RepeatingCaller {
  readonly #clients: readonly HttpClient[]
  #turn: number

  constructor(clients: readonly HttpClient[], turn: number) {
    this.#clients = clients
    this.#turn = turn
  }

  async send<Value>(request: (client: HttpClient) => Promise<Value>): Promise<Value> {
    const client = this.#clients[this.#turn++ % this.#clients.length]!
    try {
      return await request(client)
    } catch {
      return await request(this.#clients[this.#turn++ % this.#clients.length]!)
    }
  }
}

interface Watch {
  readonly stop: AbortSignal
  readonly errors: string[]
  readonly counts: { writes: number; reads: number }
  readonly first: string
}

/** Alternates writes and reads until it is stopped. Returns the ids of the stored points. */
async function call(
  caller: number,
  repeating: RepeatingCaller,
  { stop, errors, counts, first }: Watch,
): Promise<string[]> {
  const stored: string[] = []
  for (let turn = 1; !stop.aborted; turn++) {
    try {
      const idempotencyKey = `caller-${caller}-${turn}`
      stored.push(await repeating.send((client) => client.insert(pointOf(turn), { idempotencyKey })))
      counts.writes++
      const nearest = await repeating.send((client) =>
        client.search({ vector: [0, 1], metric: 'Euclidean', limit: 1 }),
      )
      assert.deepEqual(nearest, [first])
      counts.reads++
    } catch (error) {
      errors.push((error as Error).message)
    }
    await pause(50)
  }
  return stored
}

function pointOf(x: number) {
  return { vector: [x, 1], payload: { contentType: 'Text' as const, content: `${x}` } }
}
