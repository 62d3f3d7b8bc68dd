import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { create, fromBinary, type MessageShape, toBinary } from '@bufbuild/protobuf'
import fc from 'fast-check'
import { grpcFields, httpFields } from '../src/api/call.ts'
import {
  type GrpcOperationName,
  type Operation,
  type OperationName,
  type OperationTypes,
  operations,
} from '../src/api/operations.ts'
import { DateTime, GeoPoint } from '../src/base/attributes.ts'
import { DatabaseError } from '../src/base/errors.ts'
import { IdLists } from '../src/base/id-lists.ts'
import type { HitDetails, Include, Profile } from '../src/base/point.ts'
import type { PointToStore } from '../src/client/client.ts'
import * as grpc from '../src/client/grpc-messages.ts'
import * as http from '../src/client/http-call.ts'
import { patchIn, pointIn, queryIn, selectionIn } from '../src/client/input.ts'
import { filterJson } from '../src/client/values.ts'
import { Encoded } from '../src/messages/reader.ts'
import { idMessage } from '../src/messages/values.ts'
import { encode, type Init } from '../src/messages/writer.ts'
import { type Codec, codecs } from '../src/server/grpc/codec.ts'
import { type PathParts, type Route, routes } from '../src/server/http/routes.ts'
import * as generated from './support/generated-messages.ts'
import { noCollections } from './support/no-collections.ts'
import { NotingDatabase } from './support/noting-database.ts'
import { damaged } from './support/wire-messages.ts'

/** The extended interface, message by message: both transports make the same engine calls and refuse in equal words. */

const { VectorDB } = generated
const id = 'abcdef01-2345-6789-abcd-ef0123456789'

interface Request {
  readonly name: OperationName
  /** The JSON body, and the values in the path and the headers. */
  readonly body: string
  readonly parts?: PathParts
  readonly ifMatch?: string
  /** The protobuf message. */
  readonly bytes: Buffer
}

type Methods = typeof VectorDB.method

function bytesOf<Name extends keyof Methods>(
  name: Name,
  init: Init<MessageShape<Methods[Name]['input']>>,
): Buffer {
  return encode(VectorDB.method[name].input, init as never)
}

function storedMessage(point: PointToStore): Pick<Init<generated.InsertVectorRequest>, 'vector' | 'payload'> {
  const { vector, payload } = grpc.pointMessage(pointIn(point))
  return { vector, payload }
}

/** The calls of the engine, or the message of the refusal. */
type Outcome = { readonly calls: NotingDatabase['calls'] } | { readonly refusal: string }

async function outcomeOf<Name extends OperationName>(
  name: Name,
  fields: typeof httpFields,
  decode: () => OperationTypes[Name]['input'] | Promise<OperationTypes[Name]['input']>,
): Promise<Outcome> {
  const database = new NotingDatabase()
  const context = { database, collections: noCollections, limits: { maxLimit: 1000, hnswEf: 10 } }
  const run: Operation<OperationTypes[Name]['input'], unknown> = operations[name].run
  try {
    await run(context, await decode(), { fields })
    return { calls: database.calls }
  } catch (error) {
    if (error instanceof DatabaseError && error.reason === 'invalid_argument')
      return { refusal: error.message }
    throw error
  }
}

function overHttp({ name, body, parts = {}, ifMatch }: Request): Promise<Outcome> {
  const { decode }: Route<OperationName> = routes[name] as Route<OperationName>
  return outcomeOf(name, httpFields, () =>
    decode(Buffer.from(body), { ignoredFields: undefined }, parts, ifMatch),
  )
}

function overGrpc({ name, bytes }: Request): Promise<Outcome> {
  const { decode }: Codec<GrpcOperationName> = codecs[name as GrpcOperationName] as Codec<GrpcOperationName>
  // Queries take ownership of the memory of their request.
  return outcomeOf(name, grpcFields, () => decode(Buffer.from(bytes)))
}

const filter = {
  shop: 'x',
  'a.b': { $gte: 1, $lt: 2.5 },
  tags: { $in: ['a', 'b'] },
  at: { $gt: new DateTime(1) },
  $or: [{ where: { $near: { lat: 1, lon: 2, radius_m: 3 } } }, { $not: { n: { $exists: true } } }],
} as const
const attributes = {
  text: 'é',
  number: -0.5,
  flag: false,
  at: new DateTime(-1),
  where: new GeoPoint(-90, 180),
  list: [1, 'x', { deep: [true] }],
  map: { inner: { empty: {} } },
} as const
const payload = { contentType: 'Text', content: 'x', attributes, expiresAt: new DateTime(4e15 + 1) } as const
const point = { vector: [1, 2], payload }
const query = {
  vector: [1, 2],
  metric: 'Hamming',
  limit: 3,
  ef: 4,
  filter,
  exact: true,
  maxDistance: 0.5,
  include: { distance: true, payload: true, attributes: ['a.b', 'c'], vector: true, version: true },
  profile: true,
} as const
const near = { id, metric: 'Cosine', limit: 1, include: {} } as const
const patch = {
  set: { 'a.b': 1, c: { d: [1] } },
  unset: ['e.f'],
  content: 'y',
  contentType: 'Image',
  vector: [3, 4],
} as const
const selection = { filter, limit: 10, dryRun: true } as const

/** Accepted requests, each as both clients encode it. */
const taken: Readonly<Record<string, Request>> = {
  'an insert with everything': {
    name: 'InsertVector',
    body: http.bodyOf({ ...point, id: id.toUpperCase(), onConflict: 'replace' }),
    bytes: bytesOf(
      'insertVector',
      grpc.pointMessage(pointIn({ ...point, id: id.toUpperCase(), onConflict: 'replace' })),
    ),
  },
  'a batch that continues after errors': {
    name: 'InsertVectorsBatch',
    body: `{"vectors":[${http.bodyOf({ ...point, id, onConflict: 'skip' })},{},${http.bodyOf({ ...point, id: 'x' })}],"on_error":"continue"}`,
    bytes: bytesOf('insertVectorsBatch', {
      vectors: [
        grpc.pointMessage(pointIn({ ...point, id, onConflict: 'skip' })),
        {},
        grpc.pointMessage(pointIn({ ...point, id: 'x' })),
      ],
      continueOnError: true,
    }),
  },
  'a search with everything': {
    name: 'SearchPoints',
    body: http.bodyOf(query),
    bytes: bytesOf('searchPoints', grpc.queryMessage(queryIn(query))),
  },
  'a batch of searches': {
    name: 'SearchPointsBatch',
    body: `{"queries":[${http.bodyOf(query)},${http.bodyOf(near)}]}`,
    bytes: bytesOf('searchPointsBatch', {
      queries: [grpc.queryMessage(queryIn(query)), grpc.queryMessage(queryIn(near))],
    }),
  },
  'a put': {
    name: 'PutPoint',
    body: http.bodyOf(point),
    parts: { id },
    bytes: bytesOf('putPoint', { id: idMessage(id), ...storedMessage(point) }),
  },
  'a put of a version, by its header': {
    name: 'PutPoint',
    body: http.bodyOf(point),
    parts: { id },
    ifMatch: '"7"',
    bytes: bytesOf('putPoint', {
      id: idMessage(id),
      ...storedMessage(point),
      when: grpc.whenMessage({ version: 7 }),
    }),
  },
  'a put of an absent point': {
    name: 'PutPoint',
    body: http.bodyOf({ ...point, when: { absent: true } }),
    parts: { id },
    bytes: bytesOf('putPoint', {
      id: idMessage(id),
      ...storedMessage(point),
      when: grpc.whenMessage({ absent: true }),
    }),
  },
  'a patch under a filter': {
    name: 'PatchPoint',
    body: http.bodyOf({ ...patch, when: { filter } }),
    parts: { id },
    bytes: bytesOf('patchPoint', {
      id: idMessage(id),
      patch: grpc.patchMessage(patchIn(patch)),
      when: grpc.whenMessage({ filter }),
    }),
  },
  'a patch that removes the expiry': {
    name: 'PatchPoint',
    body: http.bodyOf({ expiresAt: null, when: { version: 1 } }),
    parts: { id },
    bytes: bytesOf('patchPoint', {
      id: idMessage(id),
      patch: grpc.patchMessage(patchIn({ expiresAt: null })),
      when: grpc.whenMessage({ version: 1 }),
    }),
  },
  'an update': {
    name: 'UpdatePoints',
    body: JSON.stringify({
      filter: filterJson(filter),
      limit: 10,
      dry_run: true,
      set: { n: 1 },
      unset: ['m'],
    }),
    bytes: bytesOf(
      'updatePoints',
      grpc.selectionMessage(
        selectionIn(selection),
        grpc.patchMessage(patchIn({ set: { n: 1 }, unset: ['m'] })),
      ),
    ),
  },
  'a deletion of everything': {
    name: 'DeletePoints',
    body: '{"everything":true}',
    bytes: bytesOf('deletePoints', { everything: true }),
  },
  'a list by default': { name: 'ListPoints', body: '{}', bytes: bytesOf('listPoints', {}) },
  'a list with everything': {
    name: 'ListPoints',
    body: JSON.stringify({
      filter: filterJson(filter),
      limit: 7,
      cursor: 'c',
      include: { payload: true, attributes: ['a'], vector: true, version: true },
    }),
    bytes: bytesOf('listPoints', {
      filter: grpc.optionalFilter(filter),
      limit: 7n,
      cursor: 'c',
      include: { payload: true, attributes: ['a'], vector: true, version: true },
    }),
  },
  'a count': { name: 'CountPoints', body: '{}', bytes: bytesOf('countPoints', {}) },
  'a count of what matches': {
    name: 'CountPoints',
    body: JSON.stringify({ filter: filterJson(filter) }),
    bytes: bytesOf('countPoints', { filter: grpc.optionalFilter(filter) }),
  },
  facets: {
    name: 'FacetPoints',
    body: JSON.stringify({ filter: filterJson(filter), paths: ['a', 'b.c', 'a'], limit: 1000 }),
    bytes: bytesOf('facetPoints', {
      filter: grpc.optionalFilter(filter),
      paths: ['a', 'b.c', 'a'],
      limit: 1000,
    }),
  },
  'facets by default': {
    name: 'FacetPoints',
    body: '{"paths":["a"]}',
    bytes: bytesOf('facetPoints', { paths: ['a'] }),
  },
}

const manyPaths = Array.from({ length: 257 }, (_, index) => `p${index}`)
const plain = { vector: [1, 2], metric: 'Cosine', limit: 1 } as const
const plainPoint = { vector: [1, 2], payload: { contentType: 'Text', content: 'x' } } as const

function search(
  more: object,
  message: Init<generated.SearchRequest>,
): Pick<Request, 'name' | 'body' | 'bytes'> {
  return {
    name: 'SearchPoints',
    body: JSON.stringify({ vector: [1, 2], similarity: 'Cosine', limit: 1, ...more }),
    bytes: Buffer.concat([
      bytesOf('searchPoints', grpc.queryMessage(queryIn(plain))),
      bytesOf('searchPoints', message),
    ]),
  }
}

/** Refused requests with their message. `overGrpc` is the one over gRPC if the transports name a field differently. */
const refused: readonly (Request & { readonly message: string; readonly overGrpc?: string })[] = [
  {
    ...search({ id }, { nearId: idMessage(id) }),
    message: 'vector and id are both given: a query has one of them',
    overGrpc: 'query_vector and near_id are both given: a query has one of them',
  },
  {
    name: 'SearchPoints',
    body: '{"id":"x","similarity":"Cosine","limit":1}',
    bytes: bytesOf('searchPoints', { nearId: idMessage('x'), similarity: 3, limit: 1n }),
    message: 'id "x" is not a UUID',
    overGrpc: 'near_id "x" is not a UUID',
  },
  {
    ...search({ max_distance: -1 }, { maxDistance: -1 }),
    message: 'max_distance is -1, it must be a finite number, 0 or greater',
  },
  {
    ...search({ include: { attributes: ['a..b'] } }, { include: { attributes: ['a..b'] } }),
    message: 'include.attributes[0] has an empty name: a path is names with dots between them',
  },
  {
    ...search({ include: { attributes: manyPaths } }, { include: { attributes: manyPaths } }),
    message: 'include.attributes has more than 256 paths',
  },
  {
    name: 'InsertVector',
    body: http.bodyOf({ ...plainPoint, id: '' }),
    bytes: bytesOf('insertVector', grpc.pointMessage(pointIn({ ...plainPoint, id: '' }))),
    message: 'id is missing: a point id is a UUID',
  },
  {
    name: 'InsertVector',
    body: JSON.stringify({
      vector: [1, 2],
      payload: { content_type: 'Text', content: '' },
      on_conflict: 'x',
    }),
    bytes: bytesOf('insertVector', {
      ...grpc.pointMessage(pointIn(plainPoint)),
      onConflict: 3 as generated.OnConflict,
    }),
    message: 'on_conflict is "x", it must be one of error, replace, skip',
    overGrpc: 'on_conflict is 3, it must be one of 0 (error), 1 (replace), 2 (skip)',
  },
  {
    name: 'PutPoint',
    body: '{"vector":[1,2],"payload":{"content_type":"Text","content":"x"},"when":{}}',
    parts: { id },
    bytes: bytesOf('putPoint', { id: idMessage(id), ...storedMessage(plainPoint), when: {} }),
    message: 'when is empty: it takes one of version, filter, absent',
  },
  {
    name: 'PutPoint',
    body: '{"vector":[1,2],"payload":{"content_type":"Text","content":"x"},"when":{"absent":false}}',
    parts: { id },
    bytes: bytesOf('putPoint', {
      id: idMessage(id),
      ...storedMessage(plainPoint),
      when: { test: { case: 'absent', value: false } },
    }),
    message: 'when.absent is false, it must be true: leave it out otherwise',
  },
  {
    name: 'PatchPoint',
    body: '{}',
    parts: { id },
    bytes: bytesOf('patchPoint', { id: idMessage(id), patch: {} }),
    message: 'there is nothing to change: send set, unset, content, content_type, vector, expires_at',
    overGrpc:
      'there is nothing to change: send patch.set, patch.unset, patch.content, patch.content_type, patch.vector, patch.expires_at',
  },
  {
    name: 'PatchPoint',
    body: '{"set":{"a":1},"unset":["a.b"]}',
    parts: { id },
    bytes: bytesOf('patchPoint', {
      id: idMessage(id),
      patch: grpc.patchMessage(patchIn({ set: { a: 1 }, unset: ['a.b'] })),
    }),
    message: 'set has "a", which overlaps with "a.b" in the same patch',
    overGrpc: 'patch.set has "a", which overlaps with "a.b" in the same patch',
  },
  {
    name: 'UpdatePoints',
    body: '{"filter":{"a":1},"content":"x"}',
    bytes: bytesOf('updatePoints', { filter: grpc.optionalFilter({ a: 1 }), patch: { content: 'x' } }),
    message: 'content cannot be changed by filter: only set, unset and expires_at can',
    overGrpc: 'patch.content cannot be changed by filter: only set, unset and expires_at can',
  },
  {
    name: 'UpdatePoints',
    body: '{"set":{"a":1}}',
    bytes: bytesOf('updatePoints', { patch: grpc.patchMessage(patchIn({ set: { a: 1 } })) }),
    message: 'the filter is missing: send "everything": true to mean all points',
  },
  {
    name: 'DeletePoints',
    body: '{"filter":{"$and":[{},{"$and":[]}]}}',
    bytes: bytesOf('deletePoints', { filter: grpc.optionalFilter({ $and: [{}, { $and: [] }] }) }),
    message: 'the filter is empty: send "everything": true to mean all points',
  },
  {
    name: 'DeletePoints',
    body: '{"filter":{"$not":{"$or":[]}}}',
    bytes: bytesOf('deletePoints', { filter: grpc.optionalFilter({ $not: { $or: [] } }) }),
    message: 'the filter matches every point: send "everything": true to mean all points',
  },
  {
    name: 'ListPoints',
    body: '{"limit":1001}',
    bytes: bytesOf('listPoints', { limit: 1001n }),
    message: 'limit is 1001, it must be a whole number from 1 to 1000 (MAX_LIMIT)',
  },
  {
    name: 'ListPoints',
    body: '{"include":{"distance":true}}',
    bytes: bytesOf('listPoints', { include: { distance: true } }),
    message: 'include.distance is true, but the points of a list have no distance',
  },
  {
    name: 'FacetPoints',
    body: '{}',
    bytes: bytesOf('facetPoints', {}),
    message: 'paths is missing or empty, it needs 1 to 16 paths',
  },
  {
    name: 'FacetPoints',
    body: JSON.stringify({ paths: manyPaths.slice(0, 17) }),
    bytes: bytesOf('facetPoints', { paths: manyPaths.slice(0, 17) }),
    message: 'paths has 17 paths, the maximum is 16',
  },
]

describe('requests of the extended interface', () => {
  for (const [title, request] of Object.entries(taken)) {
    it(`make the same engine calls over both transports: ${title}`, async () => {
      const outcome = await overHttp(request)
      assert.ok('calls' in outcome, JSON.stringify(outcome))
      assert.equal(outcome.calls.length, 1)
      assert.deepEqual(await overGrpc(request), outcome)
    })
  }

  for (const request of refused) {
    it(`are refused in the same words: ${request.message}`, async () => {
      assert.deepEqual(await overHttp(request), { refusal: request.message })
      assert.deepEqual(await overGrpc(request), { refusal: request.overGrpc ?? request.message })
    })
  }

  it('refuse invalid versions in If-Match, and two different versions', async () => {
    const put = taken['a put']!
    for (const ifMatch of [
      '*',
      'W/"5"',
      '"5", "6"',
      '',
      '5.0',
      '-1',
      '99999999999999999',
      'x'.repeat(1000),
    ]) {
      const { refusal } = (await overHttp({ ...put, ifMatch })) as { refusal: string }
      assert.match(refusal, /^if-match is .{1,70}, it must be the version of the point, like "5"$/)
    }
    const withWhen = { ...put, body: http.bodyOf({ ...point, when: { version: 5 } }) }
    assert.deepEqual(
      await overHttp({ ...withWhen, ifMatch: '5' }),
      await overHttp({ ...put, ifMatch: '"5"' }),
    )
    assert.deepEqual(await overHttp({ ...withWhen, ifMatch: '6' }), {
      refusal: 'if-match is "6", but when asks for something else: send one of them',
    })
  })

  it('answer hostile bytes with a call or INVALID_ARGUMENT, never another error', async () => {
    const requests = Object.values(taken)
    for (const over of ['body', 'bytes'] as const) {
      const any = fc
        .constantFrom(...requests)
        .chain((request) =>
          damaged(fc.constant(Buffer.from(request[over]))).map((bytes) => ({ request, bytes })),
        )
      await fc.assert(
        fc.asyncProperty(any, async ({ request, bytes }) => {
          if (over === 'bytes') await overGrpc({ ...request, bytes })
          else await overHttp({ ...request, body: bytes.toString('latin1') })
        }),
        { numRuns: 1000 },
      )
    }
  })
})

const stored = {
  contentType: 'Image',
  content: 'x"é',
  attributes: new Map<string, never>([
    ['a', 1 as never],
    ['at', new DateTime(1) as never],
  ]),
  expiresAtUs: 4e15,
} as const
const details: readonly HitDetails[] = [
  { payload: stored, vector: Float32Array.of(0.1, -0), version: 2 ** 40 },
  { payload: { contentType: 'Text', content: '' }, vector: Float32Array.of(1, 2), version: 1 },
]
const profile: Profile = {
  plan: 'graph',
  reason: 'many match',
  points: 1,
  matching: 0,
  compared: 3,
  measured: 4,
  ef: 5,
  efMultiplier: 6,
  filterUs: 7,
  queueUs: 8,
  searchUs: 9,
  recallEstimate: 0.99,
}
const ids = [id, 'ffffffff-ffff-4fff-8fff-ffffffffffff']
const nothing: Include = { distance: false, payload: false, vector: false, version: false }
const everything: Include = { distance: true, payload: true, vector: true, version: true }

describe('answers of the extended interface', () => {
  it('to searches have the same hits and profile over both transports', async () => {
    const includes: readonly (Include | undefined)[] = [
      undefined,
      nothing,
      everything,
      { ...nothing, attributes: ['a'] },
      { ...nothing, distance: true },
    ]
    for (const include of includes) {
      const asked = { vector: id, metric: 'Cosine', limit: 2, ef: 2, include, profile: true } as const
      const answer = {
        queries: [asked],
        results: {
          ids: IdLists.of([ids]),
          distances: Float64Array.of(0.1 + 0.2, 1e-7),
          sequences: Float64Array.of(2, 1),
          details: [include === undefined ? undefined : details],
          profiles: [profile],
          plans: [undefined],
        },
      }
      const json = JSON.parse(String(await routes.SearchPoints.encode(answer)))
      const message = Encoded.of(generated.SearchResponseSchema, await codecs.SearchPoints.encode(answer))
      assert.deepEqual(json.results, ids)
      const found = grpc.foundOf(message)
      assert.deepEqual(found.ids, ids)
      assert.equal('hits' in json, include !== undefined)
      const hits = (json.hits ?? []).map(http.hitOf)
      if (include?.attributes === undefined) assert.deepEqual(found.hits, hits)
      assert.equal(hits.length, include === undefined ? 0 : 2)
      if (include?.distance === true) assert.deepEqual(json.hits[0].distance, 0.30000000000000004)
      if (include?.attributes !== undefined) {
        assert.deepEqual(json.hits[0].payload, {
          attributes: { a: 1, at: { $date: '1970-01-01T00:00:00.000001Z' } },
        })
        assert.deepEqual(json.hits[1].payload, {})
        assert.equal(found.hits[0]!.payload!.content, '')
      }
      assert.deepEqual(found.profile, profile)
      assert.equal(json.profile.recall_estimate, 0.99)
    }
  })

  it('to gets and lists are the same over both transports', async () => {
    const page = { points: details.map((each, index) => ({ id: ids[index]!, ...each })), nextCursor: 'c"1' }
    const answer = { include: { ...everything, distance: false }, page }
    const json = JSON.parse(String(await routes.ListPoints.encode(answer)))
    const message = Encoded.of(generated.ListResponseSchema, await codecs.ListPoints.encode(answer))
    assert.deepEqual(Array.from(message.items('points'), grpc.hitOf), json.points.map(http.hitOf))
    assert.deepEqual([message.read().nextCursor, json.next_cursor], ['c"1', 'c"1'])
    const last = { include: nothing, page: { points: [] } }
    assert.equal(String(await routes.ListPoints.encode(last)), '{"points":[]}')

    const found = { id, vector: Float32Array.of(0.1, -0), payload: stored, version: 7 }
    const point = JSON.parse(String(await routes.GetPoint.encode(found)))
    const pointMessage = Encoded.of(generated.PointSchema, await codecs.GetPoint.encode(found))
    assert.deepEqual(grpc.pointOf(pointMessage), http.hitOf(point))
    assert.equal(point.payload.expires_at, '2096-10-02T07:06:40Z')
  })

  it('to batches that continued after errors have the same ids and errors', async () => {
    const errors = [{ index: 1, error: new DatabaseError('already_exists', 'é') }]
    const answer = { ids: [id, null, ids[1]!], errors }
    assert.deepEqual(JSON.parse(String(await routes.InsertVectorsBatch.encode(answer))), {
      point_ids: [id, null, ids[1]],
      errors: [{ index: 1, status: 409, message: 'é' }],
    })
    const message = fromBinary(
      generated.InsertVectorsBatchResponseSchema,
      await codecs.InsertVectorsBatch.encode(answer),
    )
    assert.deepEqual(
      message.ids.map((each) => each.id?.value ?? ''),
      [id, '', ids[1]],
    )
    assert.deepEqual(
      message.errors.map(({ index, code, message }) => ({ index, code, message })),
      [{ index: 1, code: 6, message: 'é' }],
    )
    const none = { ids: [id], errors: [] }
    assert.equal(String(await routes.InsertVectorsBatch.encode(none)), `{"point_ids":["${id}"],"errors":[]}`)
  })

  it('to counts, facets and changes are the same over both transports', async () => {
    for (const count of [0, 1, 2 ** 31, 2 ** 53 - 1]) {
      assert.equal(await routes.CountPoints.encode(count), `{"count":${count}}`)
      const message = fromBinary(generated.CountResponseSchema, await codecs.CountPoints.encode(count))
      assert.equal(message.count, BigInt(count))
    }
    const facets = new Map([
      [
        'a"',
        [
          { value: 'x', count: 3 },
          { value: new GeoPoint(1, 2), count: 1 },
        ],
      ],
      ['b', []],
    ])
    assert.deepEqual(JSON.parse(String(await routes.FacetPoints.encode(facets))), {
      facets: {
        'a"': [
          { value: 'x', count: 3 },
          { value: { $geo: { lat: 1, lon: 2 } }, count: 1 },
        ],
        b: [],
      },
    })
    const message = Encoded.of(generated.FacetsResponseSchema, await codecs.FacetPoints.encode(facets))
    assert.deepEqual(grpc.facetsOf(message), Object.fromEntries(facets))
    const changed = { changed: 100_000, more: true }
    assert.deepEqual(JSON.parse(String(await routes.DeletePoints.encode(changed))), changed)
    const changedMessage = Encoded.of(
      generated.ChangeByFilterResponseSchema,
      await codecs.DeletePoints.encode(changed),
    )
    assert.deepEqual(grpc.changedOf(changedMessage), changed)
    const written = { id, version: 2 ** 40, created: true }
    assert.deepEqual(JSON.parse(String(await routes.PutPoint.encode(written))), written)
    assert.equal(await routes.PatchPoint.encode(written), `{"version":${2 ** 40}}`)
    const put = fromBinary(generated.PutPointResponseSchema, await codecs.PutPoint.encode(written))
    assert.deepEqual([put.id?.id?.value, put.version, put.created], [id, 2n ** 40n, true])
  })

  it('without extended fields are unchanged, byte for byte', async () => {
    const asked = { vector: Float32Array.of(1), metric: 'Cosine', limit: 2, ef: 2 } as const
    const answer = {
      queries: [asked],
      results: {
        ids: IdLists.of([ids]),
        distances: Float64Array.of(1, 2),
        sequences: Float64Array.of(1, 2),
        details: [undefined],
        profiles: [undefined],
        plans: [undefined],
      },
    }
    assert.equal(String(await routes.SearchPoints.encode(answer)), JSON.stringify({ results: ids }))
    assert.equal(String(await routes.SearchPointsBatch.encode(answer)), JSON.stringify({ results: [ids] }))
    const plain = create(generated.SearchResponseSchema, {
      resultPointIds: ids.map((value) => ({ id: { value } })),
    })
    assert.deepEqual(
      Buffer.from(await codecs.SearchPoints.encode(answer)),
      Buffer.from(toBinary(generated.SearchResponseSchema, plain)),
    )
    const found = {
      id,
      vector: Float32Array.of(0.5),
      payload: { contentType: 'Text', content: 'x' },
    } as const
    assert.equal(
      await routes.GetPoint.encode(found),
      `{"id":"${id}","vector":[0.5],"payload":{"content_type":"Text","content":"x"}}`,
    )
    const message = create(generated.PointSchema, {
      id: { id: { value: id } },
      payload: { contentType: 1, content: 'x' },
      vector: { values: [0.5] },
    })
    assert.deepEqual(
      Buffer.from(await codecs.GetPoint.encode(found)),
      Buffer.from(toBinary(generated.PointSchema, message)),
    )
    assert.equal(String(await routes.InsertVectorsBatch.encode({ ids })), JSON.stringify({ point_ids: ids }))
  })
})
