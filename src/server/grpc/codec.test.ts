import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import fc from 'fast-check'
import { itemsOf } from '../../../test/support/batch-items.ts'
import {
  InsertVectorRequestSchema,
  InsertVectorsBatchRequestSchema,
  InsertVectorsBatchResponseSchema,
  PointIDSchema,
  PointSchema,
  SearchPointsBatchRequestSchema,
  SearchPointsBatchResponseSchema,
  SearchRequestSchema,
  SearchResponseSchema,
  WireType,
} from '../../../test/support/generated-messages.ts'
import { idAnswer } from '../../../test/support/search-answers.ts'
import {
  anyFloat,
  anyText,
  anyUint64,
  atOnce,
  damaged,
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

/** For each request message, what our codec and what the generated types read, in the same shape. */
const requests = {
  InsertVectorRequest: {
    ours: (bytes: Buffer): unknown => atOnce(codecs.InsertVector.decode(bytes)),
    theirs: (bytes: Buffer): unknown => pointOf(fromBinary(InsertVectorRequestSchema, bytes)),
  },
  InsertVectorsBatchRequest: {
    ours: (bytes: Buffer): unknown => itemsOf(atOnce(codecs.InsertVectorsBatch.decode(bytes)).vectors!),
    theirs: (bytes: Buffer): unknown =>
      fromBinary(InsertVectorsBatchRequestSchema, bytes).vectors.map(pointOf),
  },
  PointID: {
    ours: (bytes: Buffer): unknown => atOnce(codecs.GetPoint.decode(bytes)),
    theirs(bytes: Buffer): unknown {
      const { id } = fromBinary(PointIDSchema, bytes)
      return id === undefined ? {} : { id: id.value }
    },
  },
  SearchRequest: {
    ours: (bytes: Buffer): unknown => alone(bytes, (own) => atOnce(codecs.SearchPoints.decode(own))),
    theirs: (bytes: Buffer): unknown => queryOf(fromBinary(SearchRequestSchema, bytes)),
  },
  SearchPointsBatchRequest: {
    ours: (bytes: Buffer): unknown =>
      alone(bytes, (own) => itemsOf(atOnce(codecs.SearchPointsBatch.decode(own)).queries!)),
    theirs: (bytes: Buffer): unknown =>
      fromBinary(SearchPointsBatchRequestSchema, bytes).queries.map(queryOf),
  },
} as const

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

type RequestName = keyof typeof requests
const requestNames = Object.keys(requests) as RequestName[]

interface VectorMessage {
  readonly values: readonly number[]
}

function pointOf(message: {
  readonly vector?: VectorMessage | undefined
  readonly payload?: { readonly contentType: number; readonly content: string } | undefined
}): unknown {
  const { vector, payload } = message
  return {
    vector: vector && Float32Array.from(vector.values),
    payload: payload && { contentType: payload.contentType, content: payload.content },
  }
}

function queryOf(message: {
  readonly queryVector?: VectorMessage | undefined
  readonly similarity: number
  readonly limit: bigint
  readonly ef?: bigint | undefined
}): unknown {
  const { queryVector, similarity, limit, ef } = message
  return {
    vector: queryVector && Float32Array.from(queryVector.values),
    similarity,
    limit: shortest(limit),
    ef: shortest(ef ?? 0n),
  }
}

function shortest(value: bigint): number | bigint {
  return value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : value
}

/** Returns the decoded value, or undefined for a refusal of the only allowed kind. */
function accepted(name: RequestName, bytes: Buffer): { readonly value: unknown } | undefined {
  try {
    return { value: requests[name].ours(bytes) }
  } catch (error) {
    if (error instanceof DatabaseError && error.reason === 'invalid_argument') return undefined
    throw error
  }
}

function acceptedByTheirs(name: RequestName, bytes: Buffer): { readonly value: unknown } | undefined {
  try {
    return { value: requests[name].theirs(bytes) }
  } catch {
    // The generated decoder throws errors of many kinds.
    return undefined
  }
}

const vector = messageOf(
  fc
    .array(anyFloat, { maxLength: 6 })
    .map((values) => lengthField(1, new Uint8Array(Float32Array.from(values).buffer))),
  anyFloat.map((value) => field(1, WireType.Bit32, (w) => w.float(value))),
)
const payload = messageOf(varints(1, fc.oneof(fc.constantFrom(0n, 1n, 2n), anyUint64)), text(2))
const point = messageOf(nested(1, vector), nested(2, payload))
const query = messageOf(
  nested(1, vector),
  varints(2, fc.oneof(fc.constantFrom(0n, 3n, 4n), anyUint64)),
  varints(3, anyUint64),
  varints(4, anyUint64),
)

const wireMessages: { readonly [Name in RequestName]: fc.Arbitrary<Buffer> } = {
  InsertVectorRequest: point,
  InsertVectorsBatchRequest: messageOf(nested(1, point)),
  PointID: messageOf(nested(1, messageOf(text(1)))),
  SearchRequest: query,
  SearchPointsBatchRequest: messageOf(nested(1, query)),
}

const anyPoint = fc.record({
  vector: fc.record({ values: fc.array(anyFloat) }),
  payload: fc.record({ contentType: fc.constantFrom(0, 1), content: anyText }),
})
const anyQuery = fc.record(
  {
    queryVector: fc.record({ values: fc.array(anyFloat) }),
    similarity: fc.constantFrom(0, 1, 2, 3),
    limit: anyUint64,
    ef: anyUint64,
  },
  { requiredKeys: ['queryVector', 'similarity', 'limit'] },
)
const anyId = fc.uuid()

describe('the gRPC codec, reading', () => {
  it('accepts what the generated types write', () => {
    const cases = fc.record({
      InsertVectorRequest: anyPoint.map((each) =>
        toBinary(InsertVectorRequestSchema, create(InsertVectorRequestSchema, each)),
      ),
      InsertVectorsBatchRequest: fc
        .array(anyPoint)
        .map((vectors) =>
          toBinary(InsertVectorsBatchRequestSchema, create(InsertVectorsBatchRequestSchema, { vectors })),
        ),
      PointID: anyId.map((value) => toBinary(PointIDSchema, create(PointIDSchema, { id: { value } }))),
      SearchRequest: anyQuery.map((each) => toBinary(SearchRequestSchema, create(SearchRequestSchema, each))),
      SearchPointsBatchRequest: fc
        .array(anyQuery)
        .map((queries) =>
          toBinary(SearchPointsBatchRequestSchema, create(SearchPointsBatchRequestSchema, { queries })),
        ),
    })
    fc.assert(
      fc.property(cases, (bytesOf) => {
        for (const name of requestNames) {
          const bytes = Buffer.from(bytesOf[name])
          assert.deepEqual(requests[name].ours(bytes), requests[name].theirs(bytes))
        }
      }),
    )
  })

  for (const name of requestNames) {
    it(`reads a ${name} in any spelling as the generated types do`, () => {
      fc.assert(
        fc.property(wireMessages[name], (bytes) => {
          assert.deepEqual(requests[name].ours(bytes), requests[name].theirs(bytes))
        }),
        { numRuns: 300 },
      )
    })

    it(`accepts or refuses every prefix of a ${name} as the generated types do`, () => {
      fc.assert(
        fc.property(wireMessages[name], (bytes) => {
          for (let length = 0; length < bytes.length; length += 1) {
            const beginning = Buffer.from(bytes.subarray(0, length))
            assert.deepEqual(accepted(name, beginning), acceptedByTheirs(name, beginning))
          }
        }),
        { numRuns: 60 },
      )
    })

    it(`answers hostile bytes for a ${name} with a value or INVALID_ARGUMENT, never another error`, () => {
      fc.assert(
        fc.property(damaged(wireMessages[name]), (bytes) => {
          accepted(name, bytes)
        }),
        { numRuns: 500 },
      )
    })
  }

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

  it('treats a known field with another wire type as unknown', () => {
    const bytes = message([
      field(1, WireType.Varint, (w) => w.uint64(7)),
      lengthField(2, Buffer.from('x')),
      field(3, WireType.Bit64, (w) => w.fixed64(7)),
      field(4, WireType.Varint, (w) => w.uint64(9)),
    ])
    assert.deepEqual(requests.SearchRequest.ours(bytes), {
      vector: undefined,
      similarity: 0,
      limit: 0,
      ef: 9,
    })
  })

  it('reads the items of a batch only as they are asked for', () => {
    const bytes = message([lengthField(1, Buffer.alloc(0)), Buffer.from([0xff])])
    const { vectors } = atOnce(codecs.InsertVectorsBatch.decode(bytes))
    const items = vectors![Symbol.iterator]()
    assert.deepEqual(items.next().value, { vector: undefined, payload: undefined })
    assert.throws(() => items.next(), { reason: 'invalid_argument' })
  })

  it('drops the bits of a ten-byte varint beyond the 64th', () => {
    const bytes = Buffer.from([0x18, ...new Array(9).fill(0xff), 0x7f])
    assert.equal((requests.SearchRequest.ours(bytes) as { limit: bigint }).limit, 2n ** 64n - 1n)
  })

  it('keeps a byte order mark, and every other character of a text', () => {
    const content = '\ufeff\u0000é🦊'
    const bytes = lengthFieldMessage(2, lengthField(2, Buffer.from(content)))
    assert.deepEqual(requests.InsertVectorRequest.ours(bytes), {
      vector: undefined,
      payload: { contentType: 0, content },
    })
    assert.deepEqual(requests.InsertVectorRequest.theirs(bytes), requests.InsertVectorRequest.ours(bytes))
  })

  it('skips groups nested as deeply as in any client, and refuses deeper ones without a crash', () => {
    const groups = (depth: number, closed: number): Buffer =>
      Buffer.concat([Buffer.alloc(depth, 0x7b), Buffer.alloc(closed, 0x7c)])
    assert.deepEqual(accepted('PointID', groups(64, 64)), { value: {} })
    for (const bytes of [groups(65, 65), groups(1_000_000, 1_000_000), groups(1_000_000, 0), groups(3, 2)]) {
      refuses('PointID', bytes, /groups nested deeper than 64|a group without its end/)
    }
  })

  const malformed: readonly (readonly [string, readonly number[], RegExp])[] = [
    ['a varint of eleven bytes', [0x18, ...new Array(10).fill(0x80), 0x00], /a varint longer than 10 bytes/],
    ['a varint without its end', [0x18, 0x80], /the end of the message inside a field/],
    ['a tag beyond 32 bits', [0x88, 0x80, 0x80, 0x80, 0x10, 0x00], /a tag beyond 32 bits/],
    ['field number 0', [0x00, 0x00], /field number 0/],
    ['wire type 6', [0x7e], /wire type 6/],
    ['wire type 7', [0x7f], /wire type 7/],
    ['the end of a group that never began', [0x7c], /wire type 4/],
    ['the end of another group', [0x7b, 0x74], /the end of another group/],
    ['a length of 2^32', [0x0a, 0x80, 0x80, 0x80, 0x80, 0x10, 0x00], /a length of 4294967296 with 1 bytes/],
    ['a length that is 1 modulo 2^32', [0x0a, 0x81, 0x80, 0x80, 0x80, 0x10, 0x00], /a length of 4294967297/],
    ['a length of 2^63', [0x0a, ...new Array(9).fill(0x80), 0x01], /a length of 9223372036854775808/],
    ['a length one too long', [0x0a, 0x02, 0x00], /a length of 2 with 1 bytes left/],
    ['an item longer than its message', [0x0a, 0x02, 0x0a, 0x01, 0x00], /a length of 1 with 0 bytes left/],
    ['packed floats of 5 bytes', [0x0a, 0x07, 0x0a, 0x05, 0, 0, 0, 0, 0], /5 bytes of packed floats/],
    ['a float of 3 bytes', [0x0a, 0x04, 0x0d, 0, 0, 0], /the end of the message inside a field/],
    ['a fixed64 of 7 bytes', [0x79, 0, 0, 0, 0, 0, 0, 0], /the end of the message inside a field/],
  ]
  for (const [name, bytes, why] of malformed) {
    it(`refuses ${name}`, () => refuses('SearchRequest', Buffer.from(bytes), why))
  }

  it('refuses text that is not UTF-8', () => {
    const faults = [[0xff], [0xc3], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0x61, 0x80]]
    for (const bytes of faults) {
      const string = Buffer.from(bytes)
      refuses('InsertVectorRequest', lengthFieldMessage(2, lengthField(2, string)), /is not UTF-8/)
      refuses('PointID', lengthFieldMessage(1, lengthField(1, string)), /is not UTF-8/)
    }
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

  it('writes lengths of every number of bytes', async () => {
    for (const length of [0, 1, 27, 28, 127, 128, 16_380, 16_384, 2_097_150, 2_097_152]) {
      const payload = { contentType: 'Image', content: 'x'.repeat(length) } as const
      const answer = await codecs.GetPoint.encode({
        id: anyKnownId,
        vector: Float32Array.of(1),
        payload,
        version: 1,
      })
      assert.equal(fromBinary(PointSchema, answer).payload!.content.length, length)
    }
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

const anyKnownId = '3f2b8c1e-9d47-4a60-8b0e-5c1f0a7d2e94'

function lengthFieldMessage(no: number, bytes: Uint8Array): Buffer {
  return Buffer.from(lengthField(no, bytes))
}

function refuses(name: RequestName, bytes: Buffer, why: RegExp): void {
  assert.throws(() => requests[name].ours(bytes), { reason: 'invalid_argument', message: why })
}
