import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import type { Worker } from 'node:worker_threads'
import { AttributeIndex } from '../src/attributes/attribute-index.ts'
import { collectGarbage } from '../src/base/runtime.ts'
import { Collection } from '../src/collections/collection.ts'
import { startService } from '../src/main.ts'
import { CollectionSearch } from '../src/search/collection-search.ts'
import { figureOf } from './support/metrics.ts'
import { openFiles, temporaryDirectory } from './support/process.ts'
import { RawGrpc } from './support/raw-grpc.ts'
import { RawHttp } from './support/raw-http.ts'
import { apiKey, startServedBy, startTestService, type TestService } from './support/service.ts'
import { until } from './support/until.ts'

/** A service whose transports run on several threads, which the system chooses from for each connection. */

const json = ['content-type: application/json']

function portOf({ httpUrl }: TestService): number {
  return Number(new URL(httpUrl).port)
}

function bodyOf(id: string): string {
  return JSON.stringify({ id, vector: [1, 2, 3], payload: { content_type: 'Text', content: id } })
}

/** The serving threads that this process has started since the call and that have not ended. */
function watchServingThreads(): Set<Worker> {
  const running = new Set<Worker>()
  process.on('worker', (worker) => {
    if (!worker.threadName?.startsWith('serving thread')) return
    running.add(worker)
    worker.once('exit', () => running.delete(worker))
  })
  return running
}

interface Hit {
  readonly id: string
  readonly vector: readonly number[]
  readonly payload: { readonly content: string; readonly attributes: object }
}

/** Inserts points one after the other until told to stop, and opens a connection again when it has ended. */
class Inserter {
  readonly stored: string[] = []
  #isStopped = false

  async run(port: number): Promise<void> {
    while (!this.#isStopped) {
      await this.#insertOn(port).catch((error: Error) => {
        // A connection that the system had given to a thread, but the thread had not accepted, is refused or reset.
        assert.match(error.message, /the connection ended|ECONNREFUSED|ECONNRESET/)
      })
    }
  }

  async #insertOn(port: number): Promise<void> {
    using http = await RawHttp.open(port)
    while (!this.#isStopped) {
      const id = randomUUID()
      http.request('POST /points', json, bodyOf(id))
      const { status, body } = await http.answer()
      assert.deepEqual([status, body], [201, JSON.stringify({ point_id: id })])
      this.stored.push(id)
    }
  }

  stop(): void {
    this.#isStopped = true
  }
}

describe('a service on several threads', () => {
  it('loses nothing acknowledged when threads die under load, and replaces them', async () => {
    const threads = 2
    const running = watchServingThreads()
    await using service = await startServedBy(threads)
    assert.equal(running.size, threads)
    const inserters = Array.from({ length: 24 }, () => new Inserter())
    const stored = (): string[] => inserters.flatMap((each) => each.stored)
    const runs = inserters.map((each) => each.run(portOf(service)))
    try {
      for (let round = 1; round <= 2; round += 1) {
        const before = stored().length
        await until(() => stored().length >= before + 100)
        const [victim] = running
        await victim!.terminate()
        assert.equal(running.has(victim!), false)
        // A connection that is kept alive may have been the victim's.
        const count = (): Promise<number> => figureOf(service, 'vicinal_serving_threads').catch(() => 0)
        await until(async () => (await count()) === threads)
      }
    } finally {
      for (const each of inserters) each.stop()
    }
    await Promise.all(runs)

    const acknowledged = stored()
    for (let at = 0; at < acknowledged.length; at += 1000) {
      const ids = acknowledged.slice(at, at + 1000)
      const answer = await fetch(`${service.httpUrl}/points/count`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ filter: { $id: { $in: ids } } }),
      })
      assert.deepEqual(await answer.json(), { count: ids.length })
    }
    // What the threads held when they died counts no more.
    await until(async () => (await figureOf(service, 'vicinal_buffered_request_bytes')) === 0)
    await until(async () => (await figureOf(service, 'vicinal_buffered_answer_bytes')) === 0)
  })

  it('forgets the queries that waited on a thread that has died', async () => {
    const running = watchServingThreads()
    await using service = await startServedBy(1)
    const post = async (path: string, body: object): Promise<void> => {
      const init = { method: 'POST', headers: { 'content-type': 'application/json' } }
      const answer = await fetch(`${service.httpUrl}${path}`, { ...init, body: JSON.stringify(body) })
      const text = await answer.text()
      assert.ok(answer.ok, text)
    }
    const vectors = Array.from({ length: 10_000 }, (_, at) =>
      Array.from({ length: 64 }, (_, component) => (at * (component + 1)) % 97),
    )
    const payload = { content_type: 'Text', content: '' }
    await post('/points/batch', { vectors: vectors.map((vector) => ({ vector, payload })) })
    // An ef larger than the index disables the graph.
    const query = { similarity: 'Euclidean', limit: 5, ef: 1_000_000 }
    const queries = vectors.map((vector) => ({ ...query, vector }))
    const batch = assert.rejects(post('/points/search/batch', { queries }), TypeError)
    await until(async () => (await figureOf(service, 'vicinal_queued_queries')) > 0)
    const [victim] = running
    await victim!.terminate()
    await batch
    await until(async () => (await figureOf(service, 'vicinal_queued_queries').catch(() => 1)) === 0)
    assert.equal(await figureOf(service, 'vicinal_serving_threads'), 1)
  })

  it('starts threads while those that run are busy, and then spreads the connections of clients', async () => {
    const running = watchServingThreads()
    await using service = await startTestService({ THREADS: '4' })
    assert.equal(running.size, 1)
    // Only the thread that has received it works on it, for some milliseconds.
    const body = `[${'1,'.repeat(200_000)}`
    let isStopped = false
    let moves = 0
    const callUntilStopped = async (): Promise<void> => {
      while (!isStopped) {
        using http = await RawHttp.open(portOf(service))
        for (let isLast = false; !isLast && !isStopped; ) {
          http.request('POST /points', json, body)
          const { status, headers } = await http.answer()
          assert.equal(status, 400)
          isLast = headers.connection === 'close'
          if (isLast) {
            moves += 1
            await http.closed()
          }
        }
      }
    }
    const callers = Array.from({ length: 8 }, callUntilStopped)
    using grpc = new RawGrpc(service.grpcAddress, apiKey)
    while ((await figureOf(service, 'vicinal_serving_threads')) < 4) {
      assert.equal((await grpc.call('CountPoints', {})).code, 0)
    }
    await until(() => moves >= 2 * callers.length)
    isStopped = true
    await Promise.all(callers)
    assert.equal(running.size, 4)
    assert.equal((await grpc.call('CountPoints', {})).code, 0)
  })

  it('forgets what a filter by words has found when other words are declared', async () => {
    // One connection, so one thread.
    await using service = await startServedBy(1)
    using http = await RawHttp.open(portOf(service))
    const payload = { content_type: 'Text', content: 'two lakes' }
    http.request('POST /points', json, JSON.stringify({ vector: [1, 2, 3], payload }))
    assert.equal((await http.answer()).status, 201)
    const declare = async (language: string): Promise<void> => {
      http.request(
        'PUT /collections/default',
        json,
        JSON.stringify({ words: { language, paths: { content: 1 } } }),
      )
      assert.equal((await http.answer()).status, 200)
    }
    const isCounted = async (wanted: number): Promise<boolean> => {
      http.request('POST /points/count', json, JSON.stringify({ filter: { content: { $match: 'lake' } } }))
      const answer = await http.answer()
      return answer.status === 200 && (JSON.parse(answer.body) as { count: number }).count === wanted
    }
    const { count } = Collection.prototype
    let asked = 0
    Collection.prototype.count = function (...inputs) {
      asked += 1
      return count.apply(this, inputs)
    }
    try {
      for (const [language, wanted] of [['english', 1] as const, ['none', 0] as const]) {
        await declare(language)
        await until(() => isCounted(wanted))
        // Until the thread that has received the requests counts by itself.
        for (let before = -1; before !== asked; ) {
          before = asked
          http.request('POST /points/search', json, '{"vector":[1,2,3],"similarity":"Cosine","limit":1}')
          assert.equal((await http.answer()).status, 200)
          assert.ok(await isCounted(wanted))
        }
      }
    } finally {
      Collection.prototype.count = count
    }
  })

  it('closes the file of a snapshot whose reader leaves', async () => {
    await using service = await startServedBy(1)
    const payload = { content_type: 'Text', content: '' }
    const vector = new Array(16_384).fill(0)
    const body = JSON.stringify({ vectors: Array.from({ length: 512 }, () => ({ vector, payload })) })
    const headers = { 'content-type': 'application/json' }
    assert.equal(
      (await fetch(`${service.httpUrl}/points/batch`, { method: 'POST', headers, body })).status,
      201,
    )
    const rows = (): number =>
      openFiles(service.dataDir).filter((file) => file.endsWith('/vectors.rows')).length
    const before = rows()
    const leaving = new AbortController()
    const { body: chunks } = await fetch(`${service.httpUrl}/snapshots`, {
      method: 'POST',
      signal: leaving.signal,
    })
    await chunks!.getReader().read()
    await until(() => rows() > before)
    // Then the buffers are full, and the service waits for the reader.
    await pause(300)
    const warnings: string[] = []
    const note = ({ message }: Error): number => warnings.push(message)
    process.on('warning', note)
    leaving.abort()
    await until(() => {
      collectGarbage()
      return rows() === before
    })
    // Node warns a moment after it has closed a file that nobody refers to.
    await pause(50)
    process.off('warning', note)
    assert.deepEqual(
      warnings.filter((message) => message.includes('garbage collection')),
      [],
    )
  })
})

describe('all threads of a service', () => {
  const threads = 3
  let service: TestService

  before(async () => {
    service = await startServedBy(threads)
  })
  after(() => service[Symbol.asyncDispose]())

  /** Returns the beginning of the paths of its points. */
  const newCollection = async (name: string): Promise<string> => {
    const path = `/collections/${name}`
    assert.equal((await fetch(`${service.httpUrl}${path}`, { method: 'PUT' })).status, 201)
    return path
  }

  it('searches on the thread that has received the request', async () => {
    const points = Array.from({ length: 20 }, (_, at) => ({ id: randomUUID(), vector: [at, 0, 1], at }))
    for (const { id, vector, at } of points) {
      using http = await RawHttp.open(portOf(service))
      const payload = { content_type: 'Text', content: '', attributes: { at } }
      http.request('POST /points', json, JSON.stringify({ id, vector, payload }))
      assert.equal((await http.answer()).status, 201)
    }
    // Counts the searches of this thread, which is the engine's.
    const { search } = CollectionSearch.prototype
    let searched = 0
    CollectionSearch.prototype.search = function (...inputs) {
      searched += 1
      return search.apply(this, inputs)
    }
    const { get, count, matching } = Collection.prototype
    let got = 0
    Collection.prototype.get = function (...inputs) {
      got += 1
      return get.apply(this, inputs)
    }
    Collection.prototype.count = function (...inputs) {
      got += 1
      return count.apply(this, inputs)
    }
    let evaluated = 0
    Collection.prototype.matching = function (...inputs) {
      evaluated += 1
      return matching.apply(this, inputs)
    }
    try {
      using http = await RawHttp.open(portOf(service))
      const searchNear = async (place: number, filter?: object): Promise<unknown> => {
        const body = { vector: [place, 0, 1], similarity: 'Euclidean', limit: 2, filter }
        http.request('POST /points/search', json, JSON.stringify(body))
        const answer = await http.answer()
        assert.equal(answer.status, 200, answer.body)
        return (JSON.parse(answer.body) as { results: string[] }).results
      }
      // The engine answers until the thread knows the collection.
      for (let before = -1; before !== searched; ) {
        before = searched
        await searchNear(3.1)
      }
      const engineSearches = searched
      for (const place of [3.1, 16.9]) {
        const nearest = (among: typeof points): string[] =>
          among
            .toSorted((a, b) => Math.abs(a.at - place) - Math.abs(b.at - place))
            .slice(0, 2)
            .map(({ id }) => id)
        assert.deepEqual(await searchNear(place), nearest(points))
        const few = points.filter(({ at }) => at < 10)
        assert.deepEqual(await searchNear(place, { at: { $lt: 10 } }), nearest(few))
      }
      // With what is on disk, too.
      const include = { payload: true, vector: true, version: true }
      const body = { vector: [3.1, 0, 1], similarity: 'Euclidean', limit: 1, include }
      http.request('POST /points/search', json, JSON.stringify(body))
      const { hits } = JSON.parse((await http.answer()).body) as { hits: object[] }
      const { version, ...hit } = hits[0] as { version: number }
      assert.equal(version, 4)
      assert.deepEqual(hit, {
        id: points[3]!.id,
        payload: { content_type: 'Text', content: '', attributes: { at: 3 } },
        vector: [3, 0, 1],
      })
      const near = { id: points[3]!.id, similarity: 'Euclidean', limit: 2 }
      http.request('POST /points/search', json, JSON.stringify(near))
      const { results } = JSON.parse((await http.answer()).body) as { results: string[] }
      assert.deepEqual(new Set(results), new Set([points[2]!.id, points[4]!.id]))
      const filter = { at: { $gt: 3 } }
      http.request('POST /points/search', json, JSON.stringify({ ...near, filter }))
      const after = JSON.parse((await http.answer()).body) as { results: string[] }
      assert.deepEqual(after.results, [points[4]!.id, points[5]!.id])
      const evaluations = evaluated
      for (const [where, wanted] of [[filter, 16] as const, [{ at: { $lt: 3 } }, 3] as const]) {
        for (let look = 0; look < 2; look += 1) {
          http.request('POST /points/count', json, JSON.stringify({ filter: where }))
          assert.deepEqual(JSON.parse((await http.answer()).body), { count: wanted })
        }
      }
      assert.equal(evaluated, evaluations + 1)
      http.request(`GET /points/${points[3]!.id}`)
      assert.deepEqual(JSON.parse((await http.answer()).body), hit)
      assert.equal(got, 0)
      assert.equal(searched, engineSearches)
      const plans = 'vicinal_filtered_searches{plan="scan"}'
      assert.equal(await figureOf(service, plans), 3)

      // The bitmap of a filter is used although points change, as long as no change concerns the answer.
      const few = { at: { $lt: 10 } }
      const insert = async (at: number): Promise<string> => {
        const payload = { content_type: 'Text', content: '', attributes: { at } }
        http.request('POST /points', json, JSON.stringify({ vector: [at, 0, 1], payload }))
        const { status, body: inserted } = await http.answer()
        assert.equal(status, 201, inserted)
        return (JSON.parse(inserted) as { point_id: string }).point_id
      }
      // A bitmap is used for a second, which may pass between two requests.
      await until(async () => {
        const before = await searchNear(3.1, few)
        const earlier = evaluated
        await insert(9)
        assert.deepEqual(await searchNear(3.1, few), before)
        return evaluated === earlier
      })
      const nearer = await insert(3.1)
      assert.deepEqual(await searchNear(3.1, few), [nearer, points[3]!.id])
      http.request(`DELETE /points/${nearer}`)
      assert.equal((await http.answer()).status, 204)
      assert.deepEqual(await searchNear(3.1, few), [points[3]!.id, points[4]!.id])
      assert.equal(searched, engineSearches)
    } finally {
      CollectionSearch.prototype.search = search
      Object.assign(Collection.prototype, { get, count, matching })
    }
  })

  it('evaluates a filter no further for a caller that is gone', async () => {
    const { search } = CollectionSearch.prototype
    let searched = 0
    CollectionSearch.prototype.search = function (...inputs) {
      searched += 1
      return search.apply(this, inputs)
    }
    const { matching } = AttributeIndex.prototype
    let [begun, ended] = [0, 0]
    let isOver = false
    AttributeIndex.prototype.matching = function* (...inputs) {
      begun += 1
      try {
        while (!isOver) yield
        return yield* matching.apply(this, inputs)
      } finally {
        ended += 1
      }
    }
    try {
      for (const operation of ['SearchPoints', 'CountPoints']) {
        using http = await RawHttp.open(portOf(service))
        http.request('POST /points', json, bodyOf(randomUUID()))
        assert.equal((await http.answer()).status, 201)
        const query = { vector: [1, 2, 3], similarity: 'Euclidean', limit: 1 }
        // The engine answers until the thread knows the collection.
        for (let before = -1; before !== searched; ) {
          before = searched
          http.request('POST /points/search', json, JSON.stringify(query))
          assert.equal((await http.answer()).status, 200)
        }
        const filter = { gone: operation }
        const [path, asked] =
          operation === 'CountPoints' ? ['count', { filter }] : ['search', { ...query, filter }]
        const [engineSearches, evaluations] = [searched, begun]
        http.request(`POST /points/${path}`, json, JSON.stringify(asked))
        await until(() => begun > evaluations)
        http[Symbol.dispose]()
        await until(() => ended > evaluations)
        const labels = `operation="${operation}",transport="http",outcome="cancelled"`
        await until(async () => (await figureOf(service, `vicinal_requests_total{${labels}}`)) === 1)
        assert.deepEqual([searched, begun], [engineSearches, evaluations + 1])
      }
    } finally {
      isOver = true
      CollectionSearch.prototype.search = search
      AttributeIndex.prototype.matching = matching
    }
  })

  it('counts the calls of all threads together', async () => {
    const name = 'vicinal_requests_total{operation="InsertVector",transport="http",outcome="ok"}'
    const earlier = await figureOf(service, name)
    const calls = 40
    for (let at = 0; at < calls; at += 1) {
      using http = await RawHttp.open(portOf(service))
      http.request('POST /points', json, bodyOf(randomUUID()))
      assert.equal((await http.answer()).status, 201)
    }
    for (let look = 0; look < 2 * threads; look += 1) {
      using http = await RawHttp.open(portOf(service))
      http.request('GET /metrics')
      const { body } = await http.answer()
      assert.ok(body.includes(`${name} ${earlier + calls}\n`), name)
    }
  })

  it('knows on every thread what was stored through another', async () => {
    for (let collection = 1; collection <= 3; collection += 1) {
      const path = await newCollection(`c${collection}`)
      const id = randomUUID()
      using http = await RawHttp.open(portOf(service))
      http.request(`POST ${path}/points`, json, bodyOf(id))
      assert.equal((await http.answer()).status, 201)
      for (let look = 0; look < 2 * threads; look += 1) {
        using other = await RawHttp.open(portOf(service))
        const body = JSON.stringify({ vector: [1, 2], limit: 1 })
        other.request(`POST ${path}/points/search`, json, body)
        const { status, body: fault } = await other.answer()
        assert.deepEqual([status, fault], [400, 'vector has 2 dimensions, the collection has 3'])
      }
      assert.equal((await fetch(`${service.httpUrl}${path}`, { method: 'DELETE' })).status, 204)
      using other = await RawHttp.open(portOf(service))
      other.request(`GET ${path}/points/${id}`)
      assert.equal((await other.answer()).status, 404)
    }
  })

  it('serves both transports, and refuses ports that another process has', async () => {
    await using directory = await temporaryDirectory()
    using raw = new RawGrpc(service.grpcAddress, apiKey)
    const insert = { vector: { values: [1, 2, 3] }, payload: { contentType: 1, content: 'one' } }
    assert.equal((await raw.call('InsertVector', insert)).code, 0)
    const port = portOf(service)
    const config = { ...service.config, dataDir: directory.path, httpPort: port }
    await assert.rejects(startService(config, { servingThreads: 1 }), {
      message: new RegExp(`^HTTP cannot listen on \\S+ port ${port} \\(HTTP_PORT\\): .*EADDRINUSE`),
    })
  })

  it('answers searches with points as they were at one moment, while they change', async () => {
    const collection = await newCollection('moments')
    const ids: string[] = Array.from({ length: 12 }, () => randomUUID())
    const acknowledged = new Map(ids.map((id) => [id, 0]))
    const put = async (http: RawHttp, id: string, round: number): Promise<void> => {
      const vector = [ids.indexOf(id), round, 1]
      const body = { vector, payload: { content_type: 'Text', content: `${round}`, attributes: { round } } }
      http.request(`PUT ${collection}/points/${id}`, json, JSON.stringify(body))
      assert.ok((await http.answer()).status <= 201)
      acknowledged.set(id, round)
    }
    using first = await RawHttp.open(portOf(service))
    for (const id of ids) await put(first, id, 0)
    let isOver = false
    const write = async (own: readonly string[]): Promise<void> => {
      using http = await RawHttp.open(portOf(service))
      for (let round = 1; !isOver; round += 1) for (const id of own) await put(http, id, round)
    }
    let elsewhere = 0
    const { search } = CollectionSearch.prototype
    CollectionSearch.prototype.search = function (...inputs) {
      elsewhere += 1
      return search.apply(this, inputs)
    }
    let answers = 0
    const read = async (): Promise<void> => {
      using http = await RawHttp.open(portOf(service))
      for (; answers < 400; answers += 1) {
        const before = new Map(acknowledged)
        // All points, or the nearest few.
        const limit = answers % 2 === 0 ? ids.length : 3
        const include = { payload: true, vector: true }
        const body = { vector: [5, 40, 1], similarity: 'Euclidean', limit, include }
        http.request(`POST ${collection}/points/search`, json, JSON.stringify(body))
        const { status, body: text } = await http.answer()
        assert.equal(status, 200, text)
        const { hits } = JSON.parse(text) as { hits: Hit[] }
        assert.equal(new Set(hits.map(({ id }) => id)).size, limit)
        http.request(`GET ${collection}/points/${ids[answers % ids.length]}`)
        hits.push(JSON.parse((await http.answer()).body) as Hit)
        for (const { id, vector, payload } of hits) {
          const [number, round] = vector
          assert.equal(ids[number!], id)
          assert.equal(payload.content, `${round}`)
          assert.deepEqual(payload.attributes, { round })
          assert.ok(round! >= before.get(id)!, `${round} is older than ${before.get(id)}`)
        }
      }
    }
    try {
      const writers = [ids.slice(0, 6), ids.slice(6)].map(write)
      await Promise.all(Array.from({ length: 4 }, read))
      isOver = true
      await Promise.all(writers)
    } finally {
      isOver = true
      CollectionSearch.prototype.search = search
    }
    assert.ok(elsewhere < answers / 2, `${elsewhere} of ${answers} searches ran on the thread of the engine`)
  })
})
