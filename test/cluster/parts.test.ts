import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Hit, Query, VectorClient } from '../../src/client/client.ts'
import { createGrpcClient } from '../../src/client/grpc-client.ts'
import { createHttpClient, type HttpClient } from '../../src/client/http-client.ts'
import { statusOf } from '../support/cluster-status.ts'
import { figureIn } from '../support/metrics.ts'
import { natsMissing } from '../support/nats-servers.ts'
import { assertEnded, run } from '../support/process.ts'
import { randomVector, seededRandom } from '../support/random.ts'
import { startTestService } from '../support/service.ts'
import { until } from '../support/until.ts'
import { grpcKey } from './cluster-processes.ts'
import { ClusterServices, type NodeService } from './cluster-services.ts'
import { refetch } from './moves.ts'
import { metricOf, settingsOfParts, settled, sharesOf } from './parts.ts'

const dimension = 4
const latest = { consistency: 'latest' } as const
const everything = { distance: true, payload: true, vector: true } as const

describe('a cluster whose nodes have a part of the points each', { skip: natsMissing() }, () => {
  describe('2 of each point on 3 nodes', () => {
    const written = writtenCluster(2)

    it('answers as one node does', () => assertAnswersAsOne(written, 2))

    it('continues without a node whose points others have, and refuses requests for points that no node has', async () => {
      const { cluster, nodes, clients } = written
      const [first] = clients as [HttpClient]
      const before = await first.searchHitsBatch(queries(seededRandom(5)), latest)
      const shares = await sharesOf(cluster)
      nodes[2]!.kill()
      assert.deepEqual(await first.searchHitsBatch(queries(seededRandom(5)), latest), before)
      assert.equal((await first.insert(pointOf(7000))).length, 36)
      const isShort = async (): Promise<boolean> => {
        const { under_replicated, unowned } = (await statusOf(nodes[0]!)).partitions
        const metric = await metricOf(nodes[0]!, 'vicinal_cluster_partitions_under_replicated').catch(
          () => -1,
        )
        return under_replicated === shares['node-2'] && metric === under_replicated && unowned === 0
      }
      await until(isShort, 'the status and the metrics report that partitions have fewer copies')
      const { stdout } = await run(['cluster', 'status', '--http', nodes[0]!.url])
      assert.match(stdout, new RegExp(`; ${shares['node-2']} on fewer reachable nodes`))
      nodes[1]!.kill()
      await assert.rejects(first.count(undefined, { consistency: 'available' }), { reason: 'not_ready' })
      await nodes[1]!.start()
      await nodes[2]!.start()
      await settled(nodes)
      assert.deepEqual(await clients[2]!.searchHitsBatch(queries(seededRandom(5)), latest), before)
    })
  })

  describe('1 of each point on 3 nodes', () => {
    const written = writtenCluster(1)

    it('answers as one node does', () => assertAnswersAsOne(written, 1))

    it('refuses reads of partitions for which no node answers, and reports the figures of the others', async () => {
      const { cluster, nodes, clients } = written
      const [first, , third] = nodes as [NodeService, NodeService, NodeService]
      const [http] = clients as [HttpClient]
      await using grpc = closing(
        createGrpcClient({ address: first.grpcAddress, apiKey: grpcKey, retries: 0, timeoutMs: 60_000 }),
      )
      const all = await pages(http, undefined)
      const gone = { partitions: (await sharesOf(cluster))['node-2']!, of: 256 }
      third.kill()
      const before = await unansweredOf(first)
      const near = { vector: [1, 2, 3, 4], metric: 'Euclidean', limit: 300, exact: true } as const
      for (const client of [http, grpc]) {
        const refused = [() => client.count(), () => client.search(near), () => client.list()]
        for (const ask of refused) await assert.rejects(ask, { reason: 'not_ready' })
      }
      for (const way of [
        ['--http', first.url],
        ['--grpc', first.grpcAddress, '--api-key', grpcKey],
      ]) {
        assertEnded(await run(['count', ...way]), 1, /no node answers for/)
      }
      assert.ok((await unansweredOf(first)) >= before + 8)

      let there = 0
      await eventually(async () => {
        const stats = await http.stats()
        there = stats.points
        assert.ok(there > 0 && there < all.length)
        assert.deepEqual(stats.parts!.missing, gone)
        assert.deepEqual(
          stats.parts!.nodes.map((node) => node.stats !== undefined),
          [true, true, false],
        )
        const shown = await run(['stats', '--http', first.url])
        assertEnded(shown, 0)
        assert.match(shown.stdout, new RegExp(`^collection_points +${there}$`, 'm'))
        assert.match(shown.stdout, /^collection_nodes_node-2_answers +false$/m)
        const listed = await fetch(`${first.url}/collections`)
        const { collections } = (await listed.json()) as { collections: readonly object[] }
        assert.deepEqual(collections, [
          {
            name: 'default',
            dimension,
            points: there,
            aliases: [],
            hnsw: { m: 16, ef_construction: 128 },
            partitions: { total: 256, missing: gone.partitions },
          },
        ])
        assert.deepEqual(await (await fetch(`${first.url}/collections/default`)).json(), collections[0])
        for (const client of [http, grpc]) assert.equal((await client.collections.list())[0]!.points, there)
        const names = await run(['collections', 'list', '--http', first.url])
        assert.match(names.stdout, new RegExp(`^default +${there} `, 'm'))
      })

      await third.start()
      await settled(nodes)
      await until(async () => (await http.count().catch(() => 0)) === all.length)
      assert.deepEqual(await pages(grpc, undefined), all)
      await eventually(async () => {
        for (const client of [http, grpc])
          assert.equal((await client.collections.get('default')).points, all.length)
      })
    })

    it('changes the number of copies of each point on request while clients continue', async () => {
      const { cluster, nodes, clients } = written
      const asked = queries(seededRandom(5))
      const before = await clients[0]!.searchHitsBatch(asked, latest)
      const replicas = async (count: string, ...more: string[]): Promise<void> =>
        assertEnded(await run(['cluster', 'replicas', count, '--http', nodes[1]!.url, ...more]), 0)
      await replicas('2')
      await until(async () => (await statusOf(nodes[0]!)).partitions.replicas === 2)
      await settled(nodes)
      assert.equal(sumOf(Object.values(await sharesOf(cluster))), 512)
      // A node with the old number in its settings still comes back, and nothing is missing meanwhile.
      nodes[2]!.kill()
      assert.deepEqual(await clients[0]!.searchHitsBatch(asked, latest), before)
      await nodes[2]!.start()
      await settled(nodes)
      const refused = await run(['cluster', 'replicas', '1', '--http', nodes[0]!.url])
      assertEnded(refused, 2, /each point is on 2 nodes; with 1, 1 fewer nodes may fail/)
      await replicas('1', '--yes')
      await until(async () => (await statusOf(nodes[0]!)).partitions.replicas === 1)
      await settled(nodes)
      assert.equal(sumOf(Object.values(await sharesOf(cluster))), 256)
      for (const client of clients) assert.deepEqual(await client.searchHitsBatch(asked, latest), before)
      const none = await fetch(`${nodes[0]!.url}/cluster/replicas?count=0`, { method: 'PUT' })
      assert.equal(none.status, 400)
    })
  })

  it('moves partitions to joining nodes and from leaving ones while clients continue', async () => {
    await using cluster = await started(4, 2, 2)
    const { nodes } = cluster
    await settled(nodes.slice(0, 2))
    const clients = nodes.map(({ url }) => createHttpClient({ baseUrl: url, retries: 0 }))
    await writeTo(clients.slice(0, 2))
    const [first] = clients as [HttpClient]
    const stop = new AbortController()
    const going = goOn(first, stop.signal)
    await nodes[2]!.start()
    await settled(nodes.slice(0, 3))
    await nodes[3]!.start()
    await settled(nodes)
    const shares = Object.values(await sharesOf(cluster))
    assert.deepEqual(shares, [128, 128, 128, 128])
    const drain = await fetch(`${nodes[0]!.url}/cluster/nodes/node-1/drain`, { method: 'POST' })
    assert.equal(drain.status, 204)
    await until(async () => (await sharesOf(cluster))['node-1'] === 0)
    await nodes[1]!.stop()
    await until(
      async () => !(await statusOf(nodes[0]!)).nodes.find(({ name }) => name === 'node-1')!.is_alive,
    )
    const removed = await fetch(`${nodes[0]!.url}/cluster/nodes/node-1`, { method: 'DELETE' })
    assert.equal(removed.status, 204)
    await settled([nodes[0]!, nodes[2]!, nodes[3]!])
    stop.abort()
    const { ids, errors } = await going
    assert.deepEqual(errors, [])
    assert.ok(ids.length > 0)
    for (const at of [0, 2, 3]) {
      for (const id of ids) assert.equal((await clients[at]!.get(id, latest)).id, id)
      assert.equal((await statusOf(nodes[at]!)).digest_mismatches, 0)
    }
  })

  it('loses nothing when nodes are killed while partitions move, or fetch everything again', async () => {
    await using cluster = await started(4, 2, 3)
    const { nodes } = cluster
    await settled(nodes.slice(0, 3))
    const clients = nodes.map(({ url }) => createHttpClient({ baseUrl: url, retries: 0 }))
    const [first] = clients as [HttpClient]
    await writeTo(clients.slice(0, 3))
    for (let batch = 0; batch < 20; batch += 1) {
      await clients[batch % 3]!.insertBatch(
        Array.from({ length: 200 }, (_, at) => ({
          id: idOf(10_000 + batch * 200 + at),
          onConflict: 'skip' as const,
          ...pointOf(10_000 + batch * 200 + at),
        })),
      )
    }
    const asked = queries(seededRandom(5))
    const before = await first.searchHitsBatch(asked, latest)
    const count = await first.count(undefined, latest)
    await nodes[3]!.start()
    await until(async () => (await sharesOf(cluster))['node-3']! > 0)
    // The receiver.
    nodes[3]!.kill()
    await nodes[3]!.start()
    await until(async () => (await sharesOf(cluster))['node-3']! > 40)
    // A sender.
    nodes[1]!.kill()
    await nodes[1]!.start()
    await settled(nodes)
    await refetch(nodes, nodes[2]!)
    await settled(nodes)
    for (const client of clients) {
      assert.equal(await client.count(undefined, latest), count)
      assert.deepEqual(await client.searchHitsBatch(asked, latest), before)
    }
    for (const node of nodes) assert.equal((await statusOf(node)).digest_mismatches, 0)
  })
})

interface WrittenCluster {
  readonly cluster: ClusterServices
  readonly nodes: readonly NodeService[]
  readonly clients: readonly HttpClient[]
}

/** Three nodes with the same points for all tests of a suite, each of which leaves them settled. */
function writtenCluster(replicas: number): WrittenCluster {
  const written = {} as { -readonly [Name in keyof WrittenCluster]: WrittenCluster[Name] }
  before(async () => {
    written.cluster = await started(3, replicas)
    written.nodes = written.cluster.nodes
    await settled(written.nodes)
    written.clients = written.nodes.map(({ url }) => createHttpClient({ baseUrl: url, retries: 0 }))
    await writeTo(written.clients)
  })
  after(() => written.cluster[Symbol.asyncDispose]())
  return written
}

async function assertAnswersAsOne({ cluster, clients }: WrittenCluster, replicas: number): Promise<void> {
  const shares = Object.values(await sharesOf(cluster))
  assert.equal(sumOf(shares), 256 * replicas)
  assert.ok(Math.max(...shares) - Math.min(...shares) <= 2 * replicas, `${shares}`)
  await using alone = await startTestService({ DIMENSION: String(dimension) })
  const one = createHttpClient({ baseUrl: alone.httpUrl })
  await writeTo([one, one, one])
  for (const client of clients) await assertSame(client, one)
}

/** Repeats a check of figures, which leave out a node that is busy for two seconds. Fails as the last attempt did. */
async function eventually(check: () => Promise<void>): Promise<void> {
  let failure: unknown
  const passes = async (): Promise<boolean> => {
    failure = await check().catch((error: unknown) => error)
    return failure === undefined
  }
  await until(passes).catch(() => {
    throw failure
  })
}

/** How many requests needed points for which no node answered. */
async function unansweredOf({ url }: NodeService): Promise<number> {
  return figureIn(await (await fetch(`${url}/metrics`)).text(), 'vicinal_cluster_unanswered_requests_total')!
}

/** Makes a client closeable with `await using`. */
function closing(client: VectorClient): VectorClient & AsyncDisposable {
  return { ...client, [Symbol.asyncDispose]: () => client.close() }
}

async function started(nodes: number, replicas: number, first = nodes): Promise<ClusterServices> {
  return await ClusterServices.start({
    logServers: 1,
    nodes,
    started: first,
    environment: settingsOfParts(replicas, dimension),
  })
}

function sumOf(shares: readonly number[]): number {
  return shares.reduce((sum, each) => sum + each, 0)
}

function idOf(index: number): string {
  const hex = ((index * 2_654_435_761) % 2 ** 32).toString(16).padStart(8, '0')
  return `${hex}-0000-4000-8000-${index.toString(16).padStart(12, '0')}`
}

function pointOf(index: number) {
  return {
    vector: randomVector(seededRandom(index), dimension, 'small integers'),
    payload: {
      contentType: 'Text' as const,
      content: `point ${index}`,
      attributes: { price: index % 50, shop: `shop ${index % 7}` },
    },
  }
}

/** Makes a fixed sequence of changes, spread over the clients. */
async function writeTo(clients: readonly HttpClient[]): Promise<void> {
  const by = (index: number): HttpClient => clients[index % clients.length]!
  for (let batch = 0; batch < 4; batch += 1) {
    const points = Array.from({ length: 60 }, (_, at) => batch * 60 + at)
    const inserted = points.map((index) => ({
      id: idOf(index),
      onConflict: 'skip' as const,
      ...pointOf(index),
    }))
    await by(batch).insertBatch(inserted, { idempotencyKey: `batch ${batch}` })
    // Repeat it through another node.
    await by(batch + 1).insertBatch(inserted, { idempotencyKey: `batch ${batch}` })
  }
  for (let index = 0; index < 12; index += 1) {
    const id = idOf(index * 5)
    if (index % 3 === 0) await by(index).put(id, pointOf(1000 + index))
    else if (index % 3 === 1) await by(index).patch(id, { set: { price: 1000 } })
    else await by(index).delete(id)
  }
  await assert.rejects(by(2).put(idOf(1), pointOf(2000), { when: { absent: true } }), {
    reason: 'precondition_failed',
  })
  await assert.rejects(by(0).patch(idOf(2000), { content: 'none' }), { reason: 'not_found' })
  const { version } = await by(1).get(idOf(3), { version: true, ...latest })
  await by(2).patch(idOf(3), { content: 'as it was' }, { when: { version: version! } })
  await by(0).deleteMatching({ filter: { price: 49 } })
  await by(1).updateMatching({ filter: { shop: 'shop 3' }, set: { sale: true } })
}

function queries(random: () => number): (Query & { readonly include: typeof everything })[] {
  return Array.from({ length: 24 }, (_, index) => ({
    vector: randomVector(random, dimension, 'small integers'),
    metric: (['Cosine', 'Euclidean', 'Manhattan'] as const)[index % 3]!,
    limit: 1 + (index % 30),
    include: everything,
    ...(index % 2 === 0 ? {} : { filter: { price: { $lt: 30 } } }),
    ...(index % 4 === 0 ? { exact: true } : {}),
  }))
}

async function assertSame(client: HttpClient, one: HttpClient): Promise<void> {
  const asked = queries(seededRandom(5))
  assert.deepEqual(await client.searchHitsBatch(asked, latest), await one.searchHitsBatch(asked))
  const near = { id: idOf(7), metric: 'Euclidean', limit: 10 } as const
  assert.deepEqual(await client.search(near, latest), await one.search(near))
  for (const filter of [undefined, { shop: 'shop 3' }, { price: { $gte: 20 } }]) {
    assert.equal(await client.count(filter, latest), await one.count(filter))
    assert.deepEqual(await pages(client, filter), await pages(one, filter))
    const facets = { filter, paths: ['shop', 'price'], limit: 5 }
    assert.deepEqual(await client.facets(facets, latest), await one.facets(facets))
  }
}

async function pages(client: VectorClient, filter: Query['filter']): Promise<Hit[]> {
  const all: Hit[] = []
  const include = { payload: true, vector: true }
  for await (const point of client.listAll({ filter, limit: 17, include }, latest)) all.push(point)
  return all
}

/** Inserts and reads back, until the signal aborts. */
async function goOn(
  client: HttpClient,
  signal: AbortSignal,
): Promise<{ readonly ids: readonly string[]; readonly errors: readonly string[] }> {
  const [ids, errors]: [string[], string[]] = [[], []]
  for (let index = 5000; !signal.aborted; index += 1) {
    try {
      const id = await client.insert(pointOf(index))
      ids.push(id)
      await client.get(id)
      const count = await client.count({ price: { $gte: 0 } })
      if (count < ids.length) errors.push(`${count} points were counted, at least ${ids.length} expected`)
    } catch (error) {
      errors.push(String(error))
    }
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  return { ids, errors }
}
