import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Hit, Query, VectorClient } from '../../src/client/client.ts'
import { createGrpcClient } from '../../src/client/grpc-client.ts'
import type { Missing } from '../../src/client/http.ts'
import { createHttpClient, type HttpClient } from '../../src/client/http-client.ts'
import { statusOf } from '../support/cluster-status.ts'
import { figureIn } from '../support/metrics.ts'
import { natsMissing } from '../support/nats-servers.ts'
import { assertEnded, run } from '../support/process.ts'
import { randomVector, seededRandom } from '../support/random.ts'
import { startTestService } from '../support/service.ts'
import { until } from '../support/until.ts'
import { ClusterProcesses, grpcKey, type NodeProcess } from './cluster-processes.ts'
import { refetch } from './moves.ts'
import { metricOf, settingsOfParts, settled, sharesOf } from './parts.ts'

const dimension = 4
const latest = { consistency: 'latest' } as const
const everything = { distance: true, payload: true, vector: true } as const

describe('a cluster whose nodes have a part of the points each', { skip: natsMissing() }, () => {
  for (const replicas of [2, 1]) {
    it(`answers as one node does, with ${replicas} of each point on 3 nodes`, async () => {
      await using cluster = await started(3, replicas)
      const { nodes } = cluster
      await settled(nodes)
      const shares = Object.values(await sharesOf(cluster))
      assert.equal(
        shares.reduce((sum, each) => sum + each, 0),
        256 * replicas,
      )
      assert.ok(Math.max(...shares) - Math.min(...shares) <= 2 * replicas, `${shares}`)
      await using alone = await startTestService({ DIMENSION: String(dimension) })
      const one = createHttpClient({ baseUrl: alone.httpUrl })
      const clients = nodes.map(({ url }) => createHttpClient({ baseUrl: url }))
      await writeTo(clients)
      await writeTo([one, one, one])
      for (const client of clients) await assertSame(client, one)
    })
  }

  it('continues without a node whose points others have, and refuses requests for points that no node has', async () => {
    await using cluster = await started(3, 2)
    const { nodes } = cluster
    await settled(nodes)
    const clients = nodes.map(({ url }) => createHttpClient({ baseUrl: url, retries: 0 }))
    await writeTo(clients)
    const [first] = clients as [HttpClient]
    const before = await first.searchHitsBatch(queries(seededRandom(5)), latest)
    const shares = await sharesOf(cluster)
    await nodes[2]!.kill()
    assert.deepEqual(await first.searchHitsBatch(queries(seededRandom(5)), latest), before)
    assert.equal((await first.insert(pointOf(7000))).length, 36)
    const isShort = async (): Promise<boolean> => {
      const { under_replicated, without_node } = (await statusOf(nodes[0]!)).partitions!
      const metric = await metricOf(nodes[0]!, 'vicinal_cluster_partitions_under_replicated').catch(() => -1)
      return under_replicated === shares['node-2'] && metric === under_replicated && without_node === 0
    }
    await until(isShort, 'the status and the metrics report that partitions have fewer copies')
    const { stdout } = await run(['cluster', 'status', '--http', nodes[0]!.url])
    assert.match(stdout, new RegExp(`; ${shares['node-2']} on fewer reachable nodes`))
    await nodes[1]!.kill()
    await assert.rejects(first.count(undefined, { consistency: 'available' }), { reason: 'not_ready' })
    await nodes[1]!.start()
    await nodes[2]!.start()
    await settled(nodes)
    assert.deepEqual(await clients[2]!.searchHitsBatch(queries(seededRandom(5)), latest), before)
  })

  it('answers without missing partitions if the caller allows it, and reports them', async () => {
    await using cluster = await started(3, 1)
    const { nodes } = cluster
    await settled(nodes)
    const [first, second, third] = nodes as [NodeProcess, NodeProcess, NodeProcess]
    const http = createHttpClient({ baseUrl: first.url, retries: 0 })
    await using grpc = closing(
      createGrpcClient({ address: first.grpcAddress, apiKey: grpcKey, retries: 0, timeoutMs: 60_000 }),
    )
    await writeTo([http, http, http])
    const all = await pages(http, undefined)
    const shares = await sharesOf(cluster)
    await third.kill()
    const gone = { partitions: shares['node-2']!, of: 256 }
    const reported: Missing[] = []
    const partial = { onPartial: (missing: Missing) => void reported.push(missing) }
    const isTold = async <Answer>(answered: Promise<Answer>): Promise<Answer> => {
      reported.length = 0
      const answer = await answered
      assert.deepEqual(reported, [gone])
      return answer
    }
    const there = (await isTold(http.list({ limit: 1000, include: { payload: true } }, partial))).points
    const partitionsOf = (points: readonly { readonly id: string }[]): Set<string> =>
      new Set(points.map(({ id }) => id.slice(0, 2)))
    const kept = new Set(there.map(({ id }) => id))
    const lost = all.filter(({ id }) => !kept.has(id))
    assert.ok(there.length > 0 && lost.length > 0)
    assert.ok([...partitionsOf(there)].every((partition) => !partitionsOf(lost).has(partition)))
    const near = { vector: [1, 2, 3, 4], metric: 'Euclidean', limit: 300, exact: true } as const
    const cheap = { shop: 'shop 1' }
    for (const client of [http, grpc]) {
      const page = await isTold(client.list({ limit: 1000, include: { payload: true } }, partial))
      assert.deepEqual(page.points, there)
      assert.equal(await isTold(client.count(undefined, partial)), there.length)
      const found = await isTold(client.search(near, partial))
      assert.deepEqual([...found].sort(), [...kept].sort())
      assert.deepEqual(await isTold(client.searchBatch([near, near], partial)), [found, found])
      const { shop } = await isTold(client.facets({ filter: cheap, paths: ['shop'] }, partial))
      const counted = await isTold(client.count(cheap, partial))
      assert.deepEqual(shop, [{ value: 'shop 1', count: counted }])
      const refused = [
        () => client.count(),
        () => client.search(near),
        () => client.list(),
        () => client.get(lost[0]!.id, partial),
      ]
      for (const ask of refused) await assert.rejects(ask, { reason: 'not_ready' })
    }
    const raw = (headers: Record<string, string>): Promise<Response> =>
      fetch(`${first.url}/points/count`, {
        ...{ method: 'POST', body: '{}', headers: { 'content-type': 'application/json', ...headers } },
      })
    const refused = await raw({})
    assert.deepEqual([refused.status, refused.headers.get('vicinal-partial')], [503, null])
    const answered = await raw({ 'vicinal-partial': 'allow; wait=60000' })
    assert.deepEqual(
      [answered.status, answered.headers.get('vicinal-partial'), await answered.text()],
      [200, `${gone.partitions}/256`, `{"count":${there.length}}`],
    )
    for (const way of [
      ['--http', first.url],
      ['--grpc', first.grpcAddress, '--api-key', grpcKey],
    ]) {
      const ended = await run(['count', '--allow-partial', ...way])
      assertEnded(ended, 0, new RegExp(`for ${gone.partitions} of 256 partitions`))
      assert.equal(ended.stdout, `${there.length}\n`)
      assertEnded(await run(['count', ...way]), 1, /no node answers for/)
    }
    assertEnded(await run(['count', '--partial-after', '5', '--http', first.url]), 2, /--allow-partial/)

    await eventually(async () => {
      const stats = await http.stats()
      assert.equal(stats.points, there.length)
      assert.deepEqual(stats.parts!.missing, gone)
      assert.deepEqual(
        stats.parts!.nodes.map((node) => node.stats !== undefined),
        [true, true, false],
      )
      const shown = await run(['stats', '--http', first.url])
      assertEnded(shown, 0)
      assert.match(shown.stdout, new RegExp(`^all_nodes_points +${there.length}$`, 'm'))
      assert.match(shown.stdout, /^node_node-2 +does not answer$/m)
      const listed = await fetch(`${first.url}/collections`)
      assert.equal(listed.headers.get('vicinal-partial'), `${gone.partitions}/256`)
      const { collections } = (await listed.json()) as { collections: readonly object[] }
      assert.deepEqual(collections, [
        {
          ...{ name: 'default', dimension, points: there.length, aliases: [] },
          ...{ hnsw: { m: 16, ef_construction: 128 }, partitions: { total: 256, missing: gone.partitions } },
        },
      ])
      assert.deepEqual(await (await fetch(`${first.url}/collections/default`)).json(), collections[0])
      for (const client of [http, grpc]) {
        const [only] = await isTold(client.collections.list(partial))
        assert.equal(only!.points, there.length)
        assert.deepEqual(await isTold(client.collections.get('default', partial)), only)
        // This needs no permission for partial answers.
        assert.deepEqual(await client.collections.list(), [only])
      }
      const names = await run(['collections', 'list', '--http', first.url])
      assertEnded(names, 0, new RegExp(`for ${gone.partitions} of 256 partitions`))
      assert.match(names.stdout, new RegExp(`^default +${there.length} `, 'm'))
    })
    const counted = await incompleteOf(first)
    const map = await isTold(http.map({ limit: 1000 }, partial))
    assert.deepEqual(map.points.map(({ id }) => id).sort(), [...kept].sort())
    await assert.rejects(http.map({ limit: 1000 }), { reason: 'not_ready' })
    await isTold(http.count(undefined, partial))
    await assert.rejects(grpc.count(), { reason: 'not_ready' })
    await assert.rejects(http.delete(lost[0]!.id), { reason: 'not_ready' })
    // These calls only show figures, so they do not count as incomplete.
    await http.collections.list()
    await http.stats()
    const more = { partial: counted.partial + 2, none: counted.none + 3 }
    assert.deepEqual(await incompleteOf(first), more)

    // A node that is connected but does not answer.
    second.pause()
    let waitMs = 200
    await until(async () => {
      reported.length = 0
      waitMs *= 2
      await http.count(undefined, { ...partial, partialAfterMs: waitMs }).catch(() => {})
      return reported[0]?.partitions === 256 - shares['node-0']!
    }, 'the node is left out')
    second.resume()

    const start = await http.list({ limit: 20 }, partial)
    await third.start()
    await settled(nodes)
    // The first node's view of the others is slightly old.
    await until(async () => {
      reported.length = 0
      await http.count(undefined, partial)
      return reported.length === 0
    }, 'the first node calls the others again')
    const rest: string[] = []
    for (let cursor = start.nextCursor; cursor !== undefined; ) {
      const page = await grpc.list({ limit: 50, cursor }, partial)
      rest.push(...page.points.map(({ id }) => id))
      cursor = page.nextCursor
    }
    const last = start.points.at(-1)!.id
    assert.deepEqual(
      rest,
      all.slice(all.findIndex(({ id }) => id === last) + 1).map(({ id }) => id),
    )
    assert.equal(await http.count(undefined, partial), all.length)
    assert.deepEqual(reported, [])
    await eventually(async () => {
      reported.length = 0
      for (const client of [http, grpc]) {
        assert.equal((await client.collections.get('default', partial)).points, all.length)
      }
      assert.deepEqual(reported, [])
    })
    assert.deepEqual((await http.map({ limit: 1000 })).matching, all.length)
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
      async () => !(await statusOf(nodes[0]!)).nodes.find(({ name }) => name === 'node-1')!.is_there,
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

  it('changes the number of copies of each point on request while clients continue', async () => {
    await using cluster = await started(3, 1)
    const { nodes } = cluster
    await settled(nodes)
    const clients = nodes.map(({ url }) => createHttpClient({ baseUrl: url, retries: 0 }))
    await writeTo(clients)
    const asked = queries(seededRandom(5))
    const before = await clients[0]!.searchHitsBatch(asked, latest)
    const replicas = async (count: string, ...more: string[]): Promise<void> =>
      assertEnded(await run(['cluster', 'replicas', count, '--http', nodes[1]!.url, ...more]), 0)
    await replicas('2')
    await until(async () => (await statusOf(nodes[0]!)).partitions!.replicas === 2)
    await settled(nodes)
    assert.equal(sumOf(await sharesOf(cluster)), 512)
    // A node with the old number in its settings still comes back, and nothing is missing meanwhile.
    await nodes[2]!.kill()
    assert.deepEqual(await clients[0]!.searchHitsBatch(asked, latest), before)
    await nodes[2]!.start()
    await settled(nodes)
    const refused = await run(['cluster', 'replicas', '1', '--http', nodes[0]!.url])
    assertEnded(refused, 2, /each point is on 2 nodes, and would be on 1/)
    await replicas('1', '--yes')
    await until(async () => (await statusOf(nodes[0]!)).partitions!.replicas === 1)
    await settled(nodes)
    assert.equal(sumOf(await sharesOf(cluster)), 256)
    for (const client of clients) assert.deepEqual(await client.searchHitsBatch(asked, latest), before)
    const none = await fetch(`${nodes[0]!.url}/cluster/replicas?count=0`, { method: 'PUT' })
    assert.equal(none.status, 400)
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
          ...{ id: idOf(10_000 + batch * 200 + at), onConflict: 'skip' as const },
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
    await nodes[3]!.kill()
    await nodes[3]!.start()
    await until(async () => (await sharesOf(cluster))['node-3']! > 40)
    // A sender.
    await nodes[1]!.kill()
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

/** Counts of requests that needed points that no node could serve: with a partial answer, and with none. */
async function incompleteOf({ url }: NodeProcess): Promise<{ partial: number; none: number }> {
  const text = await (await fetch(`${url}/metrics`)).text()
  const of = (answer: string): number =>
    figureIn(text, `vicinal_cluster_incomplete_requests_total{answer="${answer}"}`)!
  return { partial: of('partial'), none: of('none') }
}

/** Makes a client closeable with `await using`. */
function closing(client: VectorClient): VectorClient & AsyncDisposable {
  return { ...client, [Symbol.asyncDispose]: () => client.close() }
}

async function started(nodes: number, replicas: number, first = nodes): Promise<ClusterProcesses> {
  return await ClusterProcesses.start({
    ...{ logServers: 1, nodes, started: first },
    environment: settingsOfParts(replicas, dimension),
  })
}

function sumOf(shares: Readonly<Record<string, number>>): number {
  return Object.values(shares).reduce((sum, each) => sum + each, 0)
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
      ...{ id: idOf(index), onConflict: 'skip' as const },
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

async function pages(client: HttpClient, filter: Query['filter']): Promise<Hit[]> {
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
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  return { ids, errors }
}
