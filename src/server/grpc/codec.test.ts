import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import fc from 'fast-check'
import { itemsOf } from '../../../test/support/batch-items.ts'
import {
  CollectionSchema,
  InsertVectorRequestSchema,
  InsertVectorsBatchRequestSchema,
  InsertVectorsBatchResponseSchema,
  ListCollectionsResponseSchema,
  PointIDSchema,
  PointSchema,
  PutCollectionResponseSchema,
  SearchPointsBatchRequestSchema,
  SearchPointsBatchResponseSchema,
  SearchRequestSchema,
  SearchResponseSchema,
  SetAliasesResponseSchema,
  WireType,
} from '../../../test/support/generated-messages.ts'
import { idAnswer } from '../../../test/support/search-answers.ts'
import {
  anyFloat,
  anyText,
  atOnce,
  field,
  lengthField,
  message,
  messageOf,
  nested,
  text,
  varints,
} from '../../../test/support/wire-messages.ts'
import { DatabaseError } from '../../base/errors.ts'
import { IdLists } from '../../base/id-lists.ts'
import { contentTypes } from '../../base/point.ts'
import { codecs } from './codec.ts'

let turn = 0

/**
 * Decodes a private copy of the bytes, because a query may overwrite its own. Tries every alignment, and checks that
 * the bytes around the copy do not change.
 */
function alone<Value>(bytes: Buffer, decode: (own: Buffer) => Value): Value {
  turn += 1
  const from = 4 + (turn % 4)
  const memory = Buffer.alloc(from + bytes.length + 4, 0xee)
  memory.set(bytes, from)
  try {
    return decode(memory.subarray(from, from + bytes.length))
  } finally {
    const beside = Buffer.concat([memory.subarray(0, from), memory.subarray(from + bytes.length)])
    assert.ok(beside.every((byte) => byte === 0xee))
  }
}

const vector = messageOf(
  fc
    .array(anyFloat, { maxLength: 6 })
    .map((values) => lengthField(1, new Uint8Array(Float32Array.from(values).buffer))),
  anyFloat.map((value) => field(1, WireType.Bit32, (w) => w.float(value))),
)
const query = messageOf(nested(1, vector), varints(3, fc.bigInt({ min: 0n, max: 2n ** 64n - 1n })), text(11))

/** The vector and the text of a query, as the generated types read them. */
function vectorAndText(message: {
  readonly queryVector?: { readonly values: readonly number[] } | undefined
  readonly text?: string | undefined
}): object {
  const { queryVector, text } = message
  return { vector: queryVector && Float32Array.from(queryVector.values), text }
}

const anyId = fc.uuid()

describe('the gRPC codec, reading', () => {
  it('reads the vectors of queries in place, as the generated types read them', () => {
    fc.assert(
      fc.property(query, (bytes) => {
        const { vector, text } = alone(bytes, (own) => atOnce(codecs.SearchPoints.decode(own)))
        assert.deepEqual({ vector, text }, vectorAndText(fromBinary(SearchRequestSchema, bytes)))
      }),
      { numRuns: 300 },
    )
    fc.assert(
      fc.property(messageOf(nested(1, query)), (bytes) => {
        const read = alone(bytes, (own) => itemsOf(atOnce(codecs.SearchPointsBatch.decode(own)).queries!))
        assert.deepEqual(
          read.map(({ vector, text }) => ({ vector, text })),
          fromBinary(SearchPointsBatchRequestSchema, bytes).queries.map(vectorAndText),
        )
      }),
      { numRuns: 300 },
    )
  })

  it('returns vectors that keep alive neither the request nor much memory of its other vectors', () => {
    const values = [1, 2, 3]
    for (const init of [{ vector: { values } }, { vector: { values: [1] } }]) {
      const bytes = Buffer.from(toBinary(InsertVectorRequestSchema, create(InsertVectorRequestSchema, init)))
      const { vector } = atOnce(codecs.InsertVector.decode(bytes))
      bytes.fill(0)
      assert.deepEqual(vector, Float32Array.from(init.vector.values))
      assert.ok(vector!.buffer.byteLength <= bytes.length)
    }
    const unpacked = message(values.map((value) => field(1, WireType.Bit32, (w) => w.float(value))))
    const { vector } = atOnce(codecs.InsertVector.decode(lengthFieldMessage(1, unpacked)))
    assert.deepEqual(vector, Float32Array.from(values))

    const vectors = Array.from({ length: 100 }, (_, at) => ({
      vector: { values: Array.from({ length: 700 + at }, (_, index) => at + index) },
    }))
    const batch = toBinary(
      InsertVectorsBatchRequestSchema,
      create(InsertVectorsBatchRequestSchema, { vectors }),
    )
    const decoded = itemsOf(atOnce(codecs.InsertVectorsBatch.decode(Buffer.from(batch))).vectors!)
    for (const [at, { vector: expected }] of vectors.entries()) {
      assert.deepEqual(decoded[at]!.vector, Float32Array.from(expected.values))
      assert.ok(decoded[at]!.vector!.buffer.byteLength <= 65_536)
    }
  })

  it('reads the items of a batch only as they are asked for', () => {
    const bytes = message([lengthField(1, Buffer.alloc(0)), Buffer.from([0xff])])
    const { vectors } = atOnce(codecs.InsertVectorsBatch.decode(bytes))
    const items = vectors![Symbol.iterator]()
    assert.ok(!(items.next().value instanceof DatabaseError))
    assert.throws(() => items.next(), { reason: 'invalid_argument' })
  })

  it('keeps a number beyond 32 bits, so that it is refused and not truncated', () => {
    const bytes = Buffer.from([0x10, 0x83, 0x80, 0x80, 0x80, 0x10])
    assert.equal(atOnce(codecs.PutCollection.decode(bytes)).dimension, 2 ** 32 + 3)
  })
})

describe('the gRPC codec, writing', () => {
  it('returns answers that the generated types read', async () => {
    const results = fc.array(fc.array(anyId, { maxLength: 9 }), { maxLength: 9 })
    await fc.assert(fc.asyncProperty(anyId, results, assertRead))
  })

  it('returns answers so large that they are written in turns', async () => {
    const ids = Array.from({ length: 60_000 }, (_, index) => idOf(index))
    await assertRead(ids[0]!, [[], ids.slice(0, 1024), ids, ids.slice(0, 1025), []])
  })

  it('returns a point that the generated types read bit for bit', async () => {
    const stored = fc.record({
      id: anyId,
      vector: fc.float32Array({ minLength: 1, noNaN: true }),
      payload: fc.record({ contentType: fc.constantFrom(...contentTypes), content: anyText }),
    })
    await fc.assert(
      fc.asyncProperty(stored, async ({ id, vector, payload }) => {
        const read = fromBinary(
          PointSchema,
          await codecs.GetPoint.encode({ id, vector, payload, version: 1 }),
        )
        assert.equal(read.id?.id?.value, id)
        assert.deepEqual(Float32Array.from(read.vector!.values), vector)
        assert.equal(contentTypes[read.payload!.contentType], payload.contentType)
        assert.equal(read.payload!.content, payload.content)
      }),
    )
  })

  it('returns collections and aliases that the generated types read', async () => {
    const collection = { name: 'a', dimension: 3, points: 5, aliases: ['b', 'c'], embeddingModel: 'm' }
    const info = { ...collection, hnsw: { m: 16, efConstruction: 100 } }
    const unset = { ...info, dimension: undefined, points: 0, aliases: [], embeddingModel: undefined }
    const expected = [info, unset].map((each) =>
      create(CollectionSchema, { ...each, points: BigInt(each.points) } as MessageInitShape<
        typeof CollectionSchema
      >),
    )
    const list = await codecs.ListCollections.encode([info, unset])
    assert.deepEqual(fromBinary(ListCollectionsResponseSchema, list).collections, expected)
    assert.deepEqual(fromBinary(CollectionSchema, await codecs.GetCollection.encode(info)), expected[0])
    const put = await codecs.PutCollection.encode({ created: true, info: unset })
    const { created, collection: stored } = fromBinary(PutCollectionResponseSchema, put)
    assert.deepEqual([created, stored], [true, expected[1]])
    const aliases = await codecs.SetAliases.encode(new Map([['b', 'a']]))
    assert.deepEqual(fromBinary(SetAliasesResponseSchema, aliases).aliases, { b: 'a' })
    assert.equal((await codecs.DeleteCollection.encode(undefined)).length, 0)
  })

  it('answers a deletion with nothing, and a missing point with NOT_FOUND', async () => {
    assert.equal((await codecs.DeletePoint.encode(true)).length, 0)
    assert.throws(() => codecs.DeletePoint.encode(false), { reason: 'not_found', message: 'Point not found' })
  })
})

/** Checks that the generated types read the ids in every answer that has ids. */
async function assertRead(id: string, lists: readonly (readonly string[])[]): Promise<void> {
  assert.equal(fromBinary(PointIDSchema, await codecs.InsertVector.encode(id)).id?.value, id)
  const ids = lists.flat()
  const inserted = fromBinary(
    InsertVectorsBatchResponseSchema,
    await codecs.InsertVectorsBatch.encode({ ids }),
  )
  assert.deepEqual(
    inserted.ids.map((each) => each.id?.value),
    ids,
  )
  const found = fromBinary(
    SearchResponseSchema,
    await codecs.SearchPoints.encode(idAnswer(IdLists.of([ids]))),
  )
  assert.deepEqual(
    found.resultPointIds.map((each) => each.id?.value),
    ids,
  )
  const packed = IdLists.of(lists)
  const all = fromBinary(
    SearchPointsBatchResponseSchema,
    await codecs.SearchPointsBatch.encode(idAnswer(packed)),
  )
  assert.deepEqual(
    all.results.map(({ resultPointIds }) => resultPointIds.map((each) => each.id?.value)),
    lists,
  )
}

function idOf(index: number): string {
  return `00000000-0000-4000-8000-${String(index).padStart(12, '0')}`
}

function lengthFieldMessage(no: number, bytes: Uint8Array): Buffer {
  return Buffer.from(lengthField(no, bytes))
}
