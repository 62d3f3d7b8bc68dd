import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import fc from 'fast-check'
import {
  CollectionSchema,
  DeleteCollectionRequestSchema,
  GetCollectionRequestSchema,
  type HnswSettings,
  ListCollectionsResponseSchema,
  PutCollectionRequestSchema,
  PutCollectionResponseSchema,
  SetAliasesRequestSchema,
  SetAliasesResponseSchema,
} from '../../../test/support/generated-messages.ts'
import {
  anyText,
  atOnce,
  damaged,
  message,
  messageOf,
  nested,
  text,
  varints,
} from '../../../test/support/wire-messages.ts'
import { DatabaseError } from '../../base/errors.ts'
import { collectionCodecs } from './collection-codec.ts'

/** For each request message, what our codec and what the generated types read, in the same shape. */
const requests = {
  GetCollectionRequest: {
    ours: (bytes: Buffer): unknown => ({
      name: atOnce(collectionCodecs.GetCollection.decode(bytes)).name ?? '',
    }),
    theirs: (bytes: Buffer): unknown => ({ name: fromBinary(GetCollectionRequestSchema, bytes).name }),
  },
  DeleteCollectionRequest: {
    ours: (bytes: Buffer): unknown => ({
      name: atOnce(collectionCodecs.DeleteCollection.decode(bytes)).name ?? '',
    }),
    theirs: (bytes: Buffer): unknown => ({ name: fromBinary(DeleteCollectionRequestSchema, bytes).name }),
  },
  PutCollectionRequest: {
    ours(bytes: Buffer): unknown {
      const { name = '', dimension, hnsw } = atOnce(collectionCodecs.PutCollection.decode(bytes))
      return { name, dimension, hnsw: hnsw && { m: hnsw.m, efConstruction: hnsw.efConstruction } }
    },
    theirs(bytes: Buffer): unknown {
      const { name, dimension, hnsw } = fromBinary(PutCollectionRequestSchema, bytes)
      return { name, dimension, hnsw: hnsw && plain(hnsw) }
    },
  },
  SetAliasesRequest: {
    ours(bytes: Buffer): unknown {
      const { set, remove } = atOnce(collectionCodecs.SetAliases.decode(bytes))
      return { set: sorted(set!), remove }
    },
    theirs(bytes: Buffer): unknown {
      const { set, remove } = fromBinary(SetAliasesRequestSchema, bytes)
      return { set: sorted(Object.entries(set)), remove }
    },
  },
} as const

type RequestName = keyof typeof requests
const requestNames = Object.keys(requests) as RequestName[]

function plain({ m, efConstruction }: HnswSettings): object {
  return { m, efConstruction }
}

function sorted(entries: Iterable<readonly [string, string]>): readonly (readonly [string, string])[] {
  return [...entries].sort(([a], [b]) => (a < b ? -1 : 1))
}

/** Our codec keeps bits beyond the 32nd, and the api refuses the number; the generated types drop these bits. */
const anyUint32 = fc.nat({ max: 2 ** 32 - 1 })
const uint32s = anyUint32.map(BigInt)

/** The generated types store a map in an object that cannot have this key. */
const anyKey = anyText.filter((each) => each !== '__proto__')

/** Only known fields: the generated types do not skip unknown fields in an entry of a map. */
const mapEntry = fc.array(fc.oneof(text(1, anyKey), text(2)), { maxLength: 5, size: 'max' }).map(message)

const wireMessages: { readonly [Name in RequestName]: fc.Arbitrary<Buffer> } = {
  GetCollectionRequest: messageOf(text(1)),
  DeleteCollectionRequest: messageOf(text(1)),
  PutCollectionRequest: messageOf(
    text(1),
    varints(2, uint32s),
    nested(3, messageOf(varints(1, uint32s), varints(2, uint32s))),
  ),
  SetAliasesRequest: messageOf(nested(1, mapEntry), text(2)),
}

describe('the gRPC codec of collections, reading', () => {
  it('accepts what the generated types write', () => {
    const anyHnsw = fc.record({ m: anyUint32, efConstruction: anyUint32 }, { requiredKeys: [] })
    const cases = fc.record({
      GetCollectionRequest: anyText.map((name) =>
        toBinary(GetCollectionRequestSchema, create(GetCollectionRequestSchema, { name })),
      ),
      DeleteCollectionRequest: anyText.map((name) =>
        toBinary(DeleteCollectionRequestSchema, create(DeleteCollectionRequestSchema, { name })),
      ),
      PutCollectionRequest: fc
        .record({ name: anyText, dimension: anyUint32, hnsw: anyHnsw }, { requiredKeys: [] })
        .map((each) => toBinary(PutCollectionRequestSchema, create(PutCollectionRequestSchema, each))),
      SetAliasesRequest: fc
        .record({ set: fc.dictionary(anyKey, anyText, { noNullPrototype: true }), remove: fc.array(anyText) })
        .map((each) => toBinary(SetAliasesRequestSchema, create(SetAliasesRequestSchema, each))),
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

    it(`answers hostile bytes for a ${name} with a value or INVALID_ARGUMENT, never another error`, () => {
      fc.assert(
        fc.property(damaged(wireMessages[name]), (bytes) => {
          try {
            requests[name].ours(bytes)
          } catch (error) {
            assert.ok(error instanceof DatabaseError && error.reason === 'invalid_argument', String(error))
          }
        }),
        { numRuns: 500 },
      )
    })
  }

  it('keeps a number beyond 32 bits, so that it is refused and not truncated', () => {
    const bytes = Buffer.from([0x10, 0x83, 0x80, 0x80, 0x80, 0x10])
    assert.equal(atOnce(collectionCodecs.PutCollection.decode(bytes)).dimension, 2 ** 32 + 3)
  })
})

describe('the gRPC codec of collections, writing', () => {
  const asLiteral = { noNullPrototype: true }
  const anyInfo = fc.record(
    {
      name: anyText,
      dimension: fc.option(anyUint32, { nil: undefined }),
      points: anyUint32,
      hnsw: fc.record({ m: anyUint32, efConstruction: anyUint32 }, asLiteral),
      aliases: fc.array(anyText),
    },
    asLiteral,
  )

  it('returns answers that the generated types read', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyInfo, { maxLength: 5 }), fc.boolean(), async (infos, created) => {
        const list = await collectionCodecs.ListCollections.encode(infos)
        assert.deepEqual(fromBinary(ListCollectionsResponseSchema, list).collections.map(infoOf), infos)
        for (const info of infos) {
          const got = await collectionCodecs.GetCollection.encode(info)
          assert.deepEqual(infoOf(fromBinary(CollectionSchema, got)), info)
          const put = fromBinary(
            PutCollectionResponseSchema,
            await collectionCodecs.PutCollection.encode({ created, info }),
          )
          assert.deepEqual({ created: put.created, info: infoOf(put.collection!) }, { created, info })
        }
      }),
    )
  })

  it('returns aliases that the generated types read, and an empty message for a deletion', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(anyKey, anyText)), async (entries) => {
        const aliases = new Map(entries)
        const answer = await collectionCodecs.SetAliases.encode(aliases)
        const read = fromBinary(SetAliasesResponseSchema, answer).aliases
        assert.deepEqual(sorted(Object.entries(read)), sorted(aliases))
      }),
    )
    assert.equal((await collectionCodecs.DeleteCollection.encode(undefined)).length, 0)
  })

  function infoOf(collection: {
    readonly name: string
    readonly dimension?: number | undefined
    readonly points: bigint
    readonly hnsw?: HnswSettings | undefined
    readonly aliases: readonly string[]
  }): object {
    const { name, dimension, points, hnsw, aliases } = collection
    return { name, dimension, points: Number(points), hnsw: hnsw && plain(hnsw), aliases }
  }
})
