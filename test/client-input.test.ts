import assert from 'node:assert/strict'
import { it } from 'node:test'
import { DateTime } from '../src/base/attributes.ts'
import { createHttpClient } from '../src/client/http.ts'
import {
  createGrpcClient,
  DatabaseError,
  GeoPoint,
  type PointToInsert,
  type Query,
  type VectorClient,
} from '../src/client/index.ts'
import { describeBoth } from './support/both-transports.ts'

/**
 * What callers pass, as TypeScript may have checked it or not. Both transports store a value exactly or refuse it, with
 * the same message.
 */

const payload = { contentType: 'Text', content: 'x' } as const
const missingId = '11111111-2222-4333-8444-555555555555'

/** Every call that takes a vector; `at` is the vector's place in the request. */
const callsWithVector: readonly (readonly [
  at: string,
  call: (client: VectorClient, vector: ArrayLike<number>) => Promise<unknown>,
])[] = [
  ['vector', (client, vector) => client.insert({ vector, payload })],
  ['vectors[1].vector', (client, vector) => client.insertBatch([pointOf([1, 2]), pointOf(vector)])],
  ['vectors[2].vector', (client, vector) => storeAll(client, [[1, 2], [3, 4], vector].map(pointOf))],
  ['vector', (client, vector) => client.put(missingId, { vector, payload })],
  ['vector', (client, vector) => client.patch(missingId, { vector })],
  ['vector', (client, vector) => client.search(queryOf(vector))],
  ['vector', (client, vector) => client.searchHits({ ...queryOf(vector), include: {} })],
  ['queries[1].vector', (client, vector) => client.searchBatch([queryOf([1, 2]), queryOf(vector)])],
  [
    'queries[0].vector',
    (client, vector) => client.searchHitsBatch([{ ...queryOf(vector), include: { distance: true } }]),
  ],
]

function pointOf(vector: ArrayLike<number>): PointToInsert {
  return { vector, payload }
}

function queryOf(vector: ArrayLike<number>): Query {
  return { vector, metric: 'Euclidean', limit: 1 }
}

async function storeAll(client: VectorClient, points: readonly PointToInsert[]): Promise<string[]> {
  const ids: string[] = []
  for await (const some of client.insertAll(points, { batchSize: 2 })) ids.push(...some)
  return ids
}

/** Returns another value at each reading: an array that is numbers while it is checked. */
function changing(first: number, then: unknown): ArrayLike<number> {
  let reads = 0
  return Object.defineProperty([1, 2], 1, {
    get: () => {
      reads += 1
      return reads === 1 ? first : then
    },
  })
}

const injected = `1,0],"id":"${missingId}","on_conflict":"replace","z":[0`

const notVectors: readonly (readonly [vector: unknown, fault: RegExp])[] = [
  [[injected], /\[0\] is a string, it must be a number$/],
  [['0,5', '1'], /\[0\] is a string, it must be a number$/],
  [[[1, 2, 3]], /\[0\] is an array, it must be a number$/],
  // biome-ignore lint/suspicious/noSparseArray: a hole is what is tested
  [[1, , 2], /\[1\] is missing, it must be a number$/],
  [[1, 2n], /\[1\] is a bigint, it must be a number$/],
  [new BigInt64Array(2), /\[0\] is a bigint, it must be a number$/],
  [[1, { toString: () => injected }], /\[1\] is an object, it must be a number$/],
  [[1, new Number(2)], /\[1\] is an object of the class Number, it must be a number$/],
  [[1, null], /\[1\] is null, it must be a number$/],
  [[1, Number.NaN], /\[1\] is NaN, it must be a finite float32 number$/],
  [[1, -1e39], /\[1\] is -1e\+39, it must be a finite float32 number$/],
  ['12', / is a string, it must be an array of numbers$/],
  [new Set([1, 2]), / is an object of the class Set, it must be an array of numbers$/],
  [null, / is null, it must be an array of numbers$/],
  [{ length: 1e9 }, / has 1000000000 dimensions, the maximum is 65535$/],
]

class Price {
  readonly amount = 5
  toJSON(): number {
    return this.amount
  }
}

const circular: Record<string, unknown> = {}
circular.self = circular

/** Attributes that neither transport can store exactly, with the place and the fault that the refusal names. */
const notAttributes: readonly (readonly [attributes: unknown, message: RegExp])[] = [
  [{ a: Number.NaN }, /^payload\.attributes\.a is NaN, it must be a finite number$/],
  [{ a: [1, Number.POSITIVE_INFINITY] }, /^payload\.attributes\.a\[1\] is Infinity, it must be a finite /],
  [{ a: 2 ** 53 + 2 }, /^payload\.attributes\.a is 9007199254740994, whole numbers are at most 2\^53 /],
  [{ a: 5n }, /^payload\.attributes\.a is a bigint, it must be text, /],
  [{ a: () => 1 }, /^payload\.attributes\.a is a function, it must be /],
  [{ a: Symbol('s') }, /^payload\.attributes\.a is a symbol, it must be /],
  [{ a: { b: new Set([1]) } }, /^payload\.attributes\.a\.b is an object of the class Set, it must be /],
  [{ a: new URL('http://x') }, /^payload\.attributes\.a is an object of the class URL, it must be /],
  [{ a: new Error('x') }, /^payload\.attributes\.a is an object of the class Error, it must be /],
  [{ a: /x/ }, /^payload\.attributes\.a is an object of the class RegExp, it must be /],
  [{ a: new Float32Array(2) }, /^payload\.attributes\.a is an object of the class Float32Array, it must be /],
  [{ a: new Price() }, /^payload\.attributes\.a is an object of the class Price, it must be /],
  [{ a: new String('x') }, /^payload\.attributes\.a is an object of the class String, it must be /],
  [{ a: new Date('x') }, /^payload\.attributes\.a is NaN microseconds, it must be in the years /],
  // float64 represents every 32nd microsecond of this year.
  [
    { a: new Date('9999-12-31T23:59:59.999Z') },
    /^payload\.attributes\.a is 253402300799999000 microseconds, it must be in the years /,
  ],
  [{ a: new DateTime(0.5) }, /^payload\.attributes\.a is 0\.5 microseconds, it must be in the years /],
  [{ a: new GeoPoint(91, 0) }, /^payload\.attributes\.a\.lat is 91, it must be from -90 to 90$/],
  [
    { a: new GeoPoint('1' as unknown as number, 0) },
    /^payload\.attributes\.a\.lat is a string, it must be a /,
  ],
  [{ a: [1, null] }, /^payload\.attributes\.a\[1\] is null, a list can only have values$/],
  // biome-ignore lint/suspicious/noSparseArray: a hole is what is tested
  [{ a: [1, , 2] }, /^payload\.attributes\.a\[1\] is undefined, a list can only have values$/],
  [{ a: 'a\ud800' }, /^payload\.attributes\.a has half of a surrogate pair, /],
  [{ 'a\ud800': 1 }, /^payload\.attributes\."a\\ud800" has half of a surrogate pair, /],
  [new Map([[5, 'x']]), /^payload\.attributes has a number as a name, names are text$/],
  [{ a: { $date: 'x' } }, /^payload\.attributes\.a\.\$date is "x", it must be a time as in RFC 3339/],
  [circular, /^payload\.attributes\.self\.self.* is nested deeper than 8 maps and lists$/],
  [[1], /^payload\.attributes is an array, it must be a plain object or a Map$/],
  ['x', /^payload\.attributes is a string, it must be a plain object or a Map$/],
]

/** Requests with a field or a value that would be ignored or changed. */
const wrongRequests: readonly (readonly [
  call: (client: VectorClient) => unknown,
  message: RegExp | string,
])[] = [
  [
    (client) => client.search({ ...queryOf([1, 2]), filters: { a: 1 } } as Query),
    /^filters is not a field of the query: did you mean filter\?$/,
  ],
  [
    (client) => client.searchBatch([{ ...queryOf([1, 2]), maxdistance: 1 } as Query]),
    /^maxdistance is not a field of queries\[0\]: did you mean maxDistance\?$/,
  ],
  [
    (client) => client.search({ ...queryOf([1, 2]), similarity: 'Cosine' } as Query),
    /^similarity is not a field of the query: the fields are vector, id, text, metric, /,
  ],
  [
    (client) => client.searchHits({ ...queryOf([1, 2]), include: { distances: true } as object }),
    /^distances is not a field of include: did you mean distance\?$/,
  ],
  [
    (client) => client.search({ ...queryOf([1, 2]), metric: 'cosine' as 'Cosine' }),
    /^metric is "cosine", it must be one of Euclidean, Manhattan, Hamming, Cosine$/,
  ],
  [
    (client) => client.search({ ...queryOf([1, 2]), limit: 1.5 }),
    /^limit is 1\.5, it must be a whole number/,
  ],
  [
    (client) => client.search({ ...queryOf([1, 2]), rerank: 0 }),
    /^rerank is 0, it must be a whole number from 1 to 1000$/,
  ],
  [
    (client) => client.evaluate({ judgements: [], k: 1.5 }),
    /^k is 1\.5, it must be a whole number from 1 to 1000$/,
  ],
  [
    (client) => client.search({ ...queryOf([1, 2]), maxDistance: Number.NaN }),
    /^maxDistance is NaN, it must be a finite number$/,
  ],
  [
    (client) => client.search({ ...queryOf([1, 2]), exact: 'no' as unknown as boolean }),
    /^exact is a string, it must be a boolean$/,
  ],
  [
    (client) => client.insert({ vector: [1, 2], payload: { ...payload, content: 5 as unknown as string } }),
    /^payload\.content is a number, it must be a string$/,
  ],
  [
    (client) => client.insert({ vector: [1, 2], payload: { ...payload, content_type: 'Text' } as never }),
    /^content_type is not a field of payload: did you mean contentType\?$/,
  ],
  [
    (client) => client.insert({ vector: [1, 2], payload: { ...payload, contentType: 'text' as 'Text' } }),
    /^payload\.contentType is "text", it must be one of Image, Text$/,
  ],
  [
    (client) => client.insertBatch([{ ...pointOf([1, 2]), on_conflict: 'skip' } as PointToInsert]),
    /^on_conflict is not a field of vectors\[0\]: did you mean onConflict\?$/,
  ],
  [
    (client) => client.insert(pointOf([1, 2]), { idempotencykey: 'k' } as object),
    /^idempotencykey is not a field of the options: did you mean idempotencyKey\?$/,
  ],
  [
    (client) => client.put(missingId, { ...pointOf([1, 2]), version: 1 } as PointToInsert),
    /^version is not a field of the point: the fields are vector, text, payload$/,
  ],
  [
    (client) => client.put(missingId, pointOf([1, 2]), { when: { version: 1, absent: true } }),
    /^when has 2 conditions, /,
  ],
  [
    (client) => client.list({ includes: {} } as object),
    /^includes is not a field of the query: did you mean /,
  ],
  [
    (client) => client.deleteMatching({ filter: {}, evrything: true } as never),
    /^evrything is not a field of the request: did you mean everything\?$/,
  ],
  [(client) => client.deleteMatching({} as never), /^filter is missing$/],
  [(client) => client.count({ a: 5n } as never), /^filter\.a is a bigint, it must be /],
  [
    (client) => client.count({ a: { $in: [new Set()] } } as never),
    /^filter\.a\.\$in\[0\] is an object of the /,
  ],
  [(client) => client.count(circular as never), /^filter\.self\..* is nested deeper than 100 levels$/],
  [(client) => client.get('..'), /^id "\.\." is not a UUID$/],
  [(client) => client.delete(''), /^id is missing: a point id is a UUID$/],
  [(client) => client.search({ metric: 'Cosine', limit: 1, id: 'x' }), /^id "x" is not a UUID$/],
  [
    (client) => client.searchBatch([{ ...queryOf([1, 2]), id: missingId }]),
    /^queries\[0\].vector and queries\[0\].id are both given: a query has one of them$/,
  ],
  [
    (client) => client.deleteMatching({ filter: { a: 1 }, limit: 0 }),
    /^limit is 0, it must be a whole number /,
  ],
  [(client) => client.patch(missingId, {}), /^there is nothing to change: send set, /],
  [(client) => client.count({ a: { $in: [null] } }), /^filter\.a\.\$in\[0\] is null, it must be a single /],
  [(client) => client.count(null as never), /^filter is null, it must be an object$/],
  [(client) => client.count({ $id: 5 }), /^filter\.\$id is 5, it must be a UUID as text$/],
  [
    (client) => client.collections.put('docs', { dimensions: 2 } as object),
    /^dimensions is not a field of the settings: did you mean dimension\?$/,
  ],
  [
    (client) => client.count({}, { consistency: 'lates' as 'latest' }),
    'consistency is "lates", it must be one of session, latest, available',
  ],
  [
    (client) => client.count({}, { consistency: 'a\r\nb: c' as 'latest' }),
    'consistency is "a\\r\\nb: c", it must be one of session, latest, available',
  ],
  [
    (client) => client.count({}, { signal: {} as AbortSignal }),
    'signal is an object, it must be an AbortSignal',
  ],
  [
    (client) => client.get(missingId, { version: 'no' as never }),
    'version is a string, it must be a boolean',
  ],
  [(client) => client.insertEach(undefined as never), 'vectors is missing, it must be an array of points'],
  [(client) => client.insertAll(null as never).next(), 'points is null, it must be an iterable of points'],
  [
    (client) => client.collections.setAliases({ set: new Map([['a', 'docs']]) as never }),
    'set is an object of the class Map, it must be a plain object',
  ],
  [
    (client) => client.collections.setAliases({ set: null as never }),
    'set is null, it must be a plain object',
  ],
]

describeBoth('what a caller passes', (transport) => {
  it('is refused as a vector unless it is numbers, in every call', async () => {
    const { client } = transport
    const victim = await client.insert({
      id: missingId,
      vector: [1, 2],
      payload: { ...payload, content: 'y' },
    })
    const before = await client.count()
    for (const [at, call] of callsWithVector) {
      for (const [vector, fault] of notVectors) {
        await assert.rejects(call(client, vector as ArrayLike<number>), (error) => {
          assert.ok(error instanceof DatabaseError, String(error))
          assert.equal(error.reason, 'invalid_argument')
          assert.ok(error.message.startsWith(at), error.message)
          assert.match(error.message, fault)
          return true
        })
      }
    }
    // Only `insertAll` had sent points before the fault: its first batch.
    assert.equal(await client.count(), before + 2 * notVectors.length)
    assert.equal((await client.get(victim)).payload.content, 'y')
    await client.deleteMatching({ filter: {}, everything: true })
  })

  it('is stored as it was when it was checked', async () => {
    const { client } = transport
    const id = await client.insert(pointOf(changing(2, injected)))
    assert.deepEqual([...(await client.get(id)).vector], [1, 2])
    for (const vector of [[-0, 0.1], Float32Array.of(-0, 0.1), { length: 2, 0: -0, 1: 0.1 }]) {
      await client.put(id, { vector, payload })
      assert.deepEqual((await client.get(id)).vector, Float32Array.of(-0, 0.1))
    }
    let reads = 0
    const attributes = Object.defineProperty({}, 'tenant', {
      enumerable: true,
      get: () => {
        reads += 1
        return reads === 1 ? 'mine' : 5n
      },
    })
    await client.put(id, { vector: [1, 2], payload: { ...payload, attributes } })
    assert.deepEqual((await client.get(id)).payload.attributes, { tenant: 'mine' })
  })

  it('is refused as attributes unless both transports can store it exactly', async () => {
    const { client } = transport
    for (const [attributes, message] of notAttributes) {
      const point = { vector: [1, 2], payload: { ...payload, attributes } } as PointToInsert
      await assert.rejects(client.insert(point), { reason: 'invalid_argument', message }, String(message))
    }
  })

  it('is stored as attributes in each form that the documentation names', async () => {
    const { client } = transport
    const attributes = {
      text: 'é😀',
      numbers: [0.1, -5, 2 ** 53, 1e300],
      flag: false,
      at: new Date('2026-01-31T10:00:00Z'),
      precise: new DateTime(1_700_000_000_000_001),
      where: new GeoPoint(47.4, 8.5),
      map: new Map<string, unknown>([['a', { b: Object.assign(Object.create(null), { c: 1 }) }]]),
      absent: null,
      missing: undefined,
    }
    const id = await client.insert({ vector: [1, 2], payload: { ...payload, attributes } as never })
    const { absent: _, missing: __, map: ___, ...stored } = attributes
    assert.deepEqual((await client.get(id)).payload.attributes, { ...stored, map: { a: { b: { c: 1 } } } })
    const tagged = { at: { $date: '2026-01-31T10:00:00Z' }, where: { $geo: { lat: 47.4, lon: 8.5 } } }
    await client.put(id, { vector: [1, 2], payload: { ...payload, attributes: tagged } })
    const { at, where } = attributes
    assert.deepEqual((await client.get(id)).payload.attributes, { at, where })
    assert.equal(await client.count({ at: { $eq: tagged.at } as never }), 1)
    await client.patch(id, { set: { at: null, where: undefined } })
    assert.deepEqual((await client.get(id)).payload.attributes, { where })
  })

  it('is the same whether an option is undefined or absent', async () => {
    const { client } = transport
    const options = { signal: undefined, consistency: undefined }
    await client.collections.put('default', { dimension: undefined, hnsw: undefined }, options)
    const id = await client.insert(pointOf([1, 2]), { ...options, idempotencyKey: undefined })
    const all = { payload: undefined, attributes: undefined, vector: undefined, version: undefined }
    const include = { ...all, distance: true, scores: undefined, highlight: undefined }
    const { hits } = await client.searchHits({ ...queryOf([1, 2]), include }, options)
    assert.equal(hits[0]!.distance, 0)
    await client.delete(id, options)
  })

  it('is refused with a message if a field or a value would be ignored or changed', async () => {
    const { client } = transport
    for (const [call, message] of wrongRequests) {
      await assert.rejects(async () => call(client), { reason: 'invalid_argument', message }, String(message))
    }
    const calls = [
      () => client.collection('docs').delete('..'),
      () => client.insertAll([], { batchSize: 0 }).next(),
      () => client.insertAll([], { batch_size: 5 } as object).next(),
    ]
    for (const call of calls) await assert.rejects(async () => call(), { reason: 'invalid_argument' })
  })
})

it('takes a key with the line break of its file, and does not show one that it refuses', async () => {
  const address = '127.0.0.1:9'
  const baseUrl = `http://${address}`
  await createGrpcClient({ address, apiKey: 'key\n' }).close()
  await createHttpClient({ baseUrl, apiKey: 'key\n' }).close()
  const refusal = { reason: 'invalid_argument', message: 'apiKey has characters other than printable ASCII' }
  assert.throws(() => createGrpcClient({ address, apiKey: 'schlüssel' }), refusal)
  assert.throws(() => createHttpClient({ baseUrl, apiKey: 'secret\nkey' }), refusal)
  assert.throws(() => createHttpClient({ baseUrl: 'http://user:secret@127.0.0.1:9' }), {
    reason: 'invalid_argument',
    message: 'baseUrl must have no user or password',
  })
})
