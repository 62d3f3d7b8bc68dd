import assert from 'node:assert/strict'
import { readFileSync, statSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { type GrpcOutcome, RawGrpc } from './support/raw-grpc.ts'
import { apiKey, startTestService, type TestService } from './support/service.ts'

/** Decisions of the project where the interface leaves a choice, each tested on both transports. */

const ok = 0
const invalidArgument = 3
const notFound = 5
const resourceExhausted = 8
const unauthenticated = 16
const unknownId = '11111111-2222-4333-8444-555555555555'

interface HttpOutcome {
  readonly status: number
  readonly text: string
  readonly headers: Headers
}

/** Both transports of one service, with short helpers. */
class Both {
  readonly service: TestService
  readonly grpc: RawGrpc

  constructor(service: TestService) {
    this.service = service
    this.grpc = new RawGrpc(service.grpcAddress, apiKey)
  }

  async http(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<HttpOutcome> {
    const response = await fetch(this.service.httpUrl + path, {
      method,
      headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
    return { status: response.status, text: await response.text(), headers: response.headers }
  }

  async close(): Promise<void> {
    this.grpc[Symbol.dispose]()
    await this.service[Symbol.asyncDispose]()
  }
}

const payload = { content_type: 'Text', content: 'x' }
const grpcPayload = { contentType: 1, content: 'x' }
const httpPoint = (vector: readonly unknown[]): object => ({ vector, payload })
const grpcPoint = (values: readonly number[]): object => ({ vector: { values }, payload: grpcPayload })
const httpQuery = (vector: readonly unknown[], more: object = {}): object => ({
  vector,
  similarity: 'Euclidean',
  limit: 3,
  ...more,
})
const grpcQuery = (values: readonly number[], more: object = {}): object => ({
  queryVector: { values },
  similarity: 0,
  limit: 3n,
  ...more,
})
const grpcId = (value: string): object => ({ id: { value } })

function assertHttp(outcome: HttpOutcome, status: number, text: RegExp | string): void {
  assert.equal(outcome.status, status, outcome.text)
  assert.equal(outcome.headers.get('content-type'), 'text/plain; charset=utf-8')
  if (typeof text === 'string') assert.equal(outcome.text, text)
  else assert.match(outcome.text, text)
}

function assertGrpc(outcome: GrpcOutcome, code: number, text: RegExp | string = /^/): void {
  assert.equal(outcome.code, code, outcome.text)
  if (typeof text === 'string') assert.equal(outcome.text, text)
  else assert.match(outcome.text, text)
}

describe('decisions', () => {
  let both: Both

  before(async () => {
    both = new Both(await startTestService({ MAX_LIMIT: '50', MAX_REQUEST_BYTES: '20000' }))
    await both.http('POST', '/points/batch', {
      vectors: [httpPoint([0, 0]), httpPoint([3, 4]), httpPoint([3, 4])],
    })
  })
  after(() => both.close())

  it('a vector of another dimension is refused, and the message states both lengths', async () => {
    const text = 'vector has 3 dimensions, the collection has 2'
    assertHttp(await both.http('POST', '/points', httpPoint([1, 2, 3])), 400, text)
    assertGrpc(await both.grpc.call('InsertVector', grpcPoint([1, 2, 3])), invalidArgument, text)
    assertHttp(
      await both.http('POST', '/points/search', httpQuery([1])),
      400,
      'vector has 1 dimensions, the collection has 2',
    )
    assertGrpc(
      await both.grpc.call('SearchPoints', grpcQuery([1])),
      invalidArgument,
      'query_vector has 1 dimensions, the collection has 2',
    )
  })

  it('a batch with bad items stores and searches nothing, and the message names the first bad item', async () => {
    const count = async (): Promise<number> =>
      JSON.parse((await both.http('POST', '/points/search', httpQuery([0, 0], { limit: 50 }))).text).results
        .length
    const before = await count()
    const items = [httpPoint([1, 1]), httpPoint([1]), httpPoint([])]
    assertHttp(
      await both.http('POST', '/points/batch', { vectors: items }),
      400,
      /^vectors\[1\]\.vector has 1 dimensions/,
    )
    assertGrpc(
      await both.grpc.call('InsertVectorsBatch', { vectors: [grpcPoint([1, 1]), grpcPoint([1])] }),
      invalidArgument,
      /^vectors\[1\]\.vector has 1 dimensions/,
    )
    assertHttp(
      await both.http('POST', '/points/search/batch', {
        queries: [httpQuery([1, 1]), httpQuery([1, 1], { limit: 0 })],
      }),
      400,
      /^queries\[1\]\.limit is 0/,
    )
    assertGrpc(
      await both.grpc.call('SearchPointsBatch', { queries: [grpcQuery([1, 1]), grpcQuery([1])] }),
      invalidArgument,
      /^queries\[1\]\.query_vector has 1 dimensions/,
    )
    assert.equal(await count(), before)
  })

  it('numbers that are not finite float32 are refused in inserts and queries', async () => {
    assertHttp(
      await both.http(
        'POST',
        '/points',
        '{"vector":[1,1e39],"payload":{"content_type":"Text","content":""}}',
      ),
      400,
      /^vector\[1\] is 1e\+39/,
    )
    assertHttp(
      await both.http('POST', '/points/search', '{"vector":[-1e39,0],"similarity":"Cosine","limit":1}'),
      400,
      /^vector\[0\] is -1e\+39/,
    )
    for (const value of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]) {
      const text = new RegExp(`vector\\[1\\] is ${value}`)
      assertGrpc(await both.grpc.call('InsertVector', grpcPoint([1, value])), invalidArgument, text)
      assertGrpc(await both.grpc.call('SearchPoints', grpcQuery([1, value])), invalidArgument, text)
    }
  })

  it('limit is 1 to MAX_LIMIT', async () => {
    for (const limit of [0, 51]) {
      const text = `limit is ${limit}, it must be a whole number from 1 to 50 (MAX_LIMIT)`
      assertHttp(await both.http('POST', '/points/search', httpQuery([1, 1], { limit })), 400, text)
      assertGrpc(
        await both.grpc.call('SearchPoints', grpcQuery([1, 1], { limit: BigInt(limit) })),
        invalidArgument,
        text,
      )
    }
    assertHttp(
      await both.http('POST', '/points/search', httpQuery([1, 1], { limit: 1.5 })),
      400,
      /^limit is 1.5/,
    )
    assertHttp(
      await both.http('POST', '/points/search', httpQuery([1, 1], { limit: '3' })),
      400,
      'limit is a string, it must be a number',
    )
    assertGrpc(
      await both.grpc.call('SearchPoints', grpcQuery([1, 1], { limit: 2n ** 64n - 1n })),
      invalidArgument,
      /18446744073709551615/,
    )
    assert.equal((await both.http('POST', '/points/search', httpQuery([1, 1], { limit: 50 }))).status, 200)
  })

  it('ef is optional: absent, 0 and huge values are accepted', async () => {
    for (const ef of [0, 1, 1e15]) {
      assert.equal((await both.http('POST', '/points/search', httpQuery([1, 1], { ef }))).status, 200)
      assertGrpc(await both.grpc.call('SearchPoints', grpcQuery([1, 1], { ef: BigInt(ef) })), ok)
    }
    assertGrpc(await both.grpc.call('SearchPoints', grpcQuery([1, 1], { ef: 2n ** 64n - 1n })), ok)
    assertHttp(await both.http('POST', '/points/search', httpQuery([1, 1], { ef: -1 })), 400, /^ef is -1/)
    assertHttp(
      await both.http('POST', '/points/search', httpQuery([1, 1], { ef: 'x' })),
      400,
      /^ef is a string/,
    )
  })

  it('deleting a missing id returns 204 over HTTP and NOT_FOUND over gRPC', async () => {
    const outcome = await both.http('DELETE', `/points/${unknownId}`)
    assert.equal(outcome.status, 204)
    assert.equal(outcome.text, '')
    assertGrpc(await both.grpc.call('DeletePoint', grpcId(unknownId)), notFound, 'Point not found')
  })

  it('getting a missing point returns 404 and NOT_FOUND', async () => {
    assertHttp(await both.http('GET', `/points/${unknownId}`), 404, 'Point not found')
    assertGrpc(await both.grpc.call('GetPoint', grpcId(unknownId)), notFound, 'Point not found')
  })

  it('a malformed UUID is refused, and a well-formed one is accepted in either case', async () => {
    for (const id of ['x', unknownId.slice(1), `${unknownId}0`, unknownId.replaceAll('-', '')]) {
      for (const method of ['GET', 'DELETE']) {
        assertHttp(await both.http(method, `/points/${id}`), 400, `id ${JSON.stringify(id)} is not a UUID`)
      }
      for (const method of ['GetPoint', 'DeletePoint'])
        assertGrpc(await both.grpc.call(method, grpcId(id)), invalidArgument, /is not a UUID/)
    }
    assertGrpc(await both.grpc.call('GetPoint', {}), invalidArgument, /^id is missing/)
    assertHttp(await both.http('GET', `/points/${unknownId.toUpperCase()}`), 404, 'Point not found')
  })

  it('missing fields and unknown names are refused, and the message names them', async () => {
    const cases: [object, RegExp][] = [
      [{}, /^vector is missing/],
      [{ vector: [1, 1] }, /^payload is missing/],
      [{ vector: [1, 1], payload: {} }, /^payload.content_type is missing/],
      [{ vector: [1, 1], payload: { content_type: 'Text' } }, /^payload.content is missing/],
      [
        { vector: [1, 1], payload: { content_type: 'Video', content: '' } },
        /^payload.content_type is "Video".*Image, Text/,
      ],
      [{ vector: [1, null], payload }, /^vector\[1\] is null, it must be a number/],
      [{ vector: 'x', payload }, /^vector is a string, it must be an array of numbers/],
      [{ vector: [], payload }, /^vector has 0 dimensions/],
    ]
    for (const [body, text] of cases) assertHttp(await both.http('POST', '/points', body), 400, text)
    assertHttp(await both.http('POST', '/points/batch', {}), 400, 'vectors is missing')
    assertHttp(
      await both.http('POST', '/points/search', httpQuery([1, 1], { similarity: 'Dot' })),
      400,
      /^similarity is "Dot"/,
    )
    assertHttp(
      await both.http('POST', '/points/search', { vector: [1, 1], limit: 1 }),
      400,
      /^similarity is missing/,
    )

    assertGrpc(
      await both.grpc.call('InsertVector', { payload: grpcPayload }),
      invalidArgument,
      'vector is missing',
    )
    assertGrpc(
      await both.grpc.call('InsertVector', { vector: { values: [1, 1] } }),
      invalidArgument,
      'payload is missing',
    )
    assertGrpc(
      await both.grpc.call('SearchPoints', { limit: 3n }),
      invalidArgument,
      'query_vector is missing',
    )
    assertGrpc(
      await both.grpc.call('SearchPoints', grpcQuery([1, 1], { similarity: 4 })),
      invalidArgument,
      /^similarity is 4/,
    )
    const bad = { vector: { values: [1, 1] }, payload: { contentType: 2, content: '' } }
    assertGrpc(await both.grpc.call('InsertVector', bad), invalidArgument, /^payload.content_type is 2/)
  })

  it('unknown fields are ignored', async () => {
    const body =
      '{"vector":[7,7],"payload":{"content_type":"Text","content":"","more":1},"extra":[],"__proto__":{"vector":1}}'
    assert.equal((await both.http('POST', '/points', body)).status, 201)
    const unknownField = Buffer.from([0x7a, 0x01, 0x00])
    assertGrpc(await both.grpc.send('SearchPointsBatch', unknownField), ok)
  })

  it('malformed bytes and wrong content types are client errors', async () => {
    assertHttp(await both.http('POST', '/points', '{"vector":'), 400, /^the request body is not valid JSON/)
    assertHttp(await both.http('POST', '/points', ''), 400, /^the request body is empty/)
    assertHttp(
      await both.http('POST', '/points', '[]'),
      400,
      'the request body is an array, it must be an object',
    )
    assertHttp(
      await both.http('POST', '/points', 'x', { 'content-type': 'text/plain' }),
      415,
      /application\/json/,
    )
    assertGrpc(
      await both.grpc.send('InsertVector', Buffer.from([0x0a, 0xff])),
      invalidArgument,
      /^malformed protobuf/,
    )
  })

  it('unknown paths get 404 and other methods 405', async () => {
    assertHttp(await both.http('GET', '/nothing'), 404, /^no such path/)
    const outcome = await both.http('PUT', '/points', {})
    assertHttp(outcome, 405, /^PUT is not allowed on \/points/)
    assert.equal(outcome.headers.get('allow'), 'POST')
    assertHttp(await both.http('GET', '/points/search'), 405, /only POST/)
  })

  it('a request larger than MAX_REQUEST_BYTES is refused, and the message names the setting', async () => {
    const content = 'x'.repeat(30_000)
    const text = /20000 bytes \(MAX_REQUEST_BYTES\)/
    assertHttp(
      await both.http('POST', '/points', { vector: [1, 1], payload: { content_type: 'Text', content } }),
      413,
      text,
    )
    const large = { vector: { values: [1, 1] }, payload: { contentType: 1, content } }
    assertGrpc(await both.grpc.call('InsertVector', large), resourceExhausted, text)
  })

  it('a zero vector is stored like any other; its cosine distance to everything is 1', async () => {
    // Distances to (-1, 0): the zero vector 1, (3, 4) 1.6, so the zero vector comes first.
    const { text } = await both.http(
      'POST',
      '/points/search',
      httpQuery([-1, 0], { similarity: 'Cosine', limit: 1 }),
    )
    const [id] = JSON.parse(text).results
    assert.deepEqual(JSON.parse((await both.http('GET', `/points/${id}`)).text).vector, [0, 0])
  })

  it('every gRPC method requires the key, bare or as a bearer token', async () => {
    const methods = [
      'InsertVector',
      'InsertVectorsBatch',
      'DeletePoint',
      'GetPoint',
      'SearchPoints',
      'SearchPointsBatch',
    ]
    const wrong = [[], ['wrong'], [''], [`${apiKey}x`], [apiKey.slice(1)], [`Basic ${apiKey}`]]
    for (const method of methods) {
      for (const authorization of wrong)
        assertGrpc(await both.grpc.call(method, {}, { authorization }), unauthenticated)
    }
    for (const authorization of [[apiKey], [`Bearer ${apiKey}`]]) {
      assertGrpc(await both.grpc.call('SearchPointsBatch', {}, { authorization }), ok)
    }
  })

  it('HTTP is open by default, and its errors never contain a stack', async () => {
    assert.equal((await both.http('GET', '/metrics')).status, 200)
    assert.ok(!(await both.http('POST', '/points', '{')).text.includes('\n'))
  })
})

describe('decisions about starting', () => {
  it('DIMENSION is stored, and a start with another value fails and states both', async () => {
    await using service = await startTestService({ DIMENSION: '3' })
    const both = new Both(service)
    assertHttp(
      await both.http('POST', '/points', httpPoint([1, 2])),
      400,
      'vector has 2 dimensions, the collection has 3',
    )
    both.grpc[Symbol.dispose]()
    await service.restart({ DIMENSION: '' })
    assertHttp(
      await both.http('POST', '/points', httpPoint([1, 2])),
      400,
      'vector has 2 dimensions, the collection has 3',
    )
    await assert.rejects(
      service.restart({ DIMENSION: '4' }),
      /DIMENSION is 4, but .* holds vectors of 3 dimensions/,
    )
  })

  it('the data directory is created with mode 0700, and a random key in it with mode 0600', async () => {
    await using service = await startTestService({ GRPC_ROOT_PASSWORD: '' })
    const path = join(service.dataDir, 'api-key')
    assert.equal(service.service.apiKeyPath, path)
    assert.equal(statSync(path).mode & 0o777, 0o600)
    const key = readFileSync(path, 'utf8').trim()
    using grpc = new RawGrpc(service.grpcAddress, key)
    assertGrpc(await grpc.call('SearchPointsBatch', {}), ok)
    await service.restart()
    assert.equal(readFileSync(path, 'utf8').trim(), key)
  })

  it('DISABLE_HTTP=true opens no HTTP port', async () => {
    const occupant = createServer()
    await new Promise<void>((resolve) => occupant.listen(0, '127.0.0.1', resolve))
    const { port } = occupant.address() as { port: number }
    // The port is taken: a server that tried to listen on it would fail to start.
    await using service = await startTestService({ DISABLE_HTTP: 'true', HTTP_PORT: String(port) })
    assert.equal(service.service.httpAddress, undefined)
    await assert.rejects(
      startTestService({ HTTP_PORT: String(port) }),
      /HTTP cannot listen on 127\.0\.0\.1 port \d+ \(HTTP_PORT\)/,
    )
    occupant.close()
  })

  it('HTTP_API_KEY is required for everything except health, readiness, the start page and the docs', async () => {
    await using service = await startTestService({ HTTP_API_KEY: 'http-key-for-tests' })
    const both = new Both(service)
    for (const path of ['/health', '/readyz', '/', '/docs', '/docs/openapi.yaml']) {
      assert.equal((await both.http('GET', path)).status, 200, path)
    }
    for (const path of ['/metrics', `/points/${unknownId}`]) {
      const refused = await both.http('GET', path)
      assertHttp(refused, 401, /API key/)
      assert.equal(refused.headers.get('www-authenticate'), 'Bearer')
      assert.equal((await both.http('GET', path, undefined, { authorization: 'wrong' })).status, 401)
    }
    for (const authorization of ['http-key-for-tests', 'Bearer http-key-for-tests']) {
      assertHttp(
        await both.http('GET', `/points/${unknownId}`, undefined, { authorization }),
        404,
        'Point not found',
      )
    }
    both.grpc[Symbol.dispose]()
  })

  it('overload is refused with 429 and Retry-After, and RESOURCE_EXHAUSTED; health stays fast', async () => {
    await using service = await startTestService({ MAX_BUFFERED_BYTES: '1' })
    const both = new Both(service)
    const insert = (): Promise<HttpOutcome> => both.http('POST', '/points', httpPoint([1, 2]))
    const outcomes = await Promise.all(Array.from({ length: 60 }, insert))
    const refused = outcomes.filter(({ status }) => status !== 201)
    assert.ok(refused.length > 0 && refused.length < outcomes.length)
    for (const outcome of refused) {
      assertHttp(outcome, 429, /the maximum is [01] \(.*MAX_BUFFERED_BYTES\)/)
      assert.equal(outcome.headers.get('retry-after'), '1')
    }
    const calls = await Promise.all(
      Array.from({ length: 60 }, () => both.grpc.call('InsertVector', grpcPoint([1, 2]))),
    )
    assert.ok(calls.some(({ code }) => code === ok))
    for (const { code, text } of calls.filter((each) => each.code !== ok)) {
      assert.equal(code, resourceExhausted)
      assert.match(text, /MAX_BUFFERED_BYTES/)
    }
    assert.equal((await both.http('GET', '/health')).text, 'OK')
    both.grpc[Symbol.dispose]()
  })

  it('exhausted memory refuses inserts with 507 and RESOURCE_EXHAUSTED; reads and deletes continue', async () => {
    // Attributes and their journal take some 4,000 bytes. Two points of 260 bytes, ids and marks counted, fit; a third does not.
    await using service = await startTestService({ MAX_MEMORY_BYTES: '4600', THREADS: '1' })
    const both = new Both(service)
    const { text } = await both.http('POST', '/points', httpPoint([1, 2]))
    const id = JSON.parse(text).point_id
    await both.http('POST', '/points', httpPoint([1, 3]))
    assertHttp(await both.http('POST', '/points', httpPoint([1, 4])), 507, /MAX_MEMORY_BYTES/)
    assertGrpc(await both.grpc.call('InsertVector', grpcPoint([1, 4])), resourceExhausted, /MAX_MEMORY_BYTES/)
    assert.equal((await both.http('DELETE', `/points/${id}`)).status, 204)
    assert.equal((await both.http('POST', '/points', httpPoint([1, 4]))).status, 201)
    both.grpc[Symbol.dispose]()
  })

  it('with MAX_MEMORY_BYTES below the stored size the service starts, and refuses only inserts', async () => {
    await using service = await startTestService()
    const ids: string[] = []
    for (const component of [1, 2, 3]) {
      const { text } = await new Both(service).http('POST', '/points', httpPoint([component, 1]))
      ids.push(JSON.parse(text).point_id)
    }
    await service.restart({ MAX_MEMORY_BYTES: '100' })
    const both = new Both(service)
    assertHttp(await both.http('POST', '/points', httpPoint([1, 4])), 507, /MAX_MEMORY_BYTES/)
    assertGrpc(await both.grpc.call('InsertVector', grpcPoint([1, 4])), resourceExhausted, /MAX_MEMORY_BYTES/)
    assert.equal((await both.http('GET', `/points/${ids[0]}`)).status, 200)
    const query = { vector: [3, 1], similarity: 'Euclidean', limit: 3 }
    const found = await both.http('POST', '/points/search', query)
    assert.deepEqual(JSON.parse(found.text).results, ids.toReversed())
    for (const id of ids) assert.equal((await both.http('DELETE', `/points/${id}`)).status, 204)
    both.grpc[Symbol.dispose]()
  })
})
