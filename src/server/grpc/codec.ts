import type { OperationName } from '../../api/operations.ts'
import type { ItemSteps, PointInput, SearchInput } from '../../api/validation.ts'
import { inTurns } from '../../base/turns.ts'
import type { Codec } from './codec-types.ts'
import { collectionCodecs } from './collection-codec.ts'
import { encodeInserted, encodePoint, encodeSearch, encodeSearches } from './detail-codec.ts'
import { readFilterInTurns } from './filter-codec.ts'
import { decodePointId, encodeDeleted, encodePointId, readNestedId } from './id-codec.ts'
import { readInclude } from './include-codec.ts'
import { listCodecs } from './list-codec.ts'
import { MergedMessage } from './merged-message.ts'
import { BatchMessage } from './message-batch.ts'
import { type PayloadParts, readPayload, wholePayload } from './payload-codec.ts'
import { copiesOf, FloatList, readValues, type VectorOf, vectorsOf } from './vectors.ts'
import { WireReader, wireFixed64, wireLength, wireVarint } from './wire.ts'
import { writeCodecs } from './write-codec.ts'

/**
 * The messages of proto/vectordb.proto on the wire. The codec is written by hand because of the vectors: it copies the
 * floats of a request to a Float32Array in one piece, while a general decoder would create a number for each float.
 *
 * As in every protobuf parser, fields may have any order, the last value of a scalar wins, repeated occurrences
 * of a message are merged, and unknown fields are skipped.
 */

export const codecs: { readonly [Name in OperationName]: Codec<Name> } = {
  InsertVector: {
    decode: (bytes) => readPoint(new WireReader(bytes), copiesOf(bytes), alone),
    encode: encodePointId,
  },
  InsertVectorsBatch: {
    decode(bytes) {
      const batch = new BatchMessage(bytes)
      const vectorOf = copiesOf(bytes)
      const read = (message: WireReader, index: number): PointInput => readPoint(message, vectorOf, index)
      return { vectors: batch.items(read), onError: batch }
    },
    encode: encodeInserted,
  },
  DeletePoint: { decode: decodePointId, encode: encodeDeleted },
  GetPoint: { decode: decodePointId, encode: encodePoint },
  SearchPoints: {
    decode(bytes) {
      const query = readQuery(new WireReader(bytes), vectorsOf(bytes), alone)
      return typeof query === 'function' ? inTurns(query()) : query
    },
    encode: encodeSearch,
  },
  SearchPointsBatch: {
    decode(bytes) {
      const vectorOf = vectorsOf(bytes)
      return {
        queries: new BatchMessage(bytes).items<SearchInput>((message, index) =>
          readQuery(message, vectorOf, index),
        ),
      }
    },
    encode: encodeSearches,
  },
  ...writeCodecs,
  ...listCodecs,
  ...collectionCodecs,
}

/** The index of a message that is not an item of a batch. */
const alone = -1

function readPoint(message: WireReader, vectorOf: VectorOf, index: number): PointInput {
  let vector: FloatList | undefined
  let payload: PayloadParts | undefined
  let id: string | undefined
  let onConflict = 0
  let text: string | undefined
  while (message.next()) {
    if (message.is(1, wireLength)) vector = readValues(message.message(), vector ?? new FloatList(vectorOf))
    else if (message.is(2, wireLength)) payload = readPayload(message.message(), payload)
    else if (message.is(3, wireLength)) id = readNestedId(message.message(), id)
    else if (message.is(4, wireVarint)) onConflict = message.int32()
    else if (message.is(5, wireLength)) text = message.string()
    else message.skip()
  }
  const point: PointInput = {
    vector: vector?.toVector(),
    payload: payload && wholePayload(payload, () => pathOf('vectors', index)),
  }
  if (id === undefined && onConflict === 0 && text === undefined) return point
  return {
    ...point,
    ...(id === undefined ? {} : { id }),
    ...(onConflict === 0 ? {} : { onConflict }),
    ...(text === undefined ? {} : { text }),
  }
}

/** Reads a query. A filter is read in turns. */
function readQuery(message: WireReader, vectorOf: VectorOf, index: number): ItemSteps<SearchInput> {
  let vector: FloatList | undefined
  let similarity = 0
  let limit: number | bigint = 0
  let ef: number | bigint = 0
  let extras: QueryExtras | undefined
  while (message.next()) {
    if (message.is(1, wireLength)) vector = readValues(message.message(), vector ?? new FloatList(vectorOf))
    else if (message.is(2, wireVarint)) similarity = message.int32()
    else if (message.is(3, wireVarint)) limit = message.uint64()
    else if (message.is(4, wireVarint)) ef = message.uint64()
    else {
      extras ??= new QueryExtras()
      if (!extras.read(message)) message.skip()
    }
  }
  const query = { vector: vector?.toVector(), similarity, limit, ef }
  if (extras === undefined) return query
  const rest = extras.whole(pathOf('queries', index))
  return function* () {
    return { ...query, ...(yield* rest) }
  }
}

/** The fields that few queries have. */
class QueryExtras {
  readonly #filter = new MergedMessage()
  readonly #include = new MergedMessage()
  readonly #scalars: {
    exact?: boolean
    maxDistance?: number
    id?: string
    profile?: boolean
    text?: string
  } = {}

  /** Reads the field whose tag was just read; returns false if the field is unknown. */
  read(message: WireReader): boolean {
    if (message.is(5, wireLength)) this.#filter.add(message.view())
    else if (message.is(6, wireLength)) this.#include.add(message.view())
    else if (message.is(7, wireVarint)) this.#scalars.exact = message.bool()
    else if (message.is(8, wireFixed64)) this.#scalars.maxDistance = message.double()
    else if (message.is(9, wireLength)) {
      this.#scalars.id = readNestedId(message.message(), this.#scalars.id)
    } else if (message.is(10, wireVarint)) this.#scalars.profile = message.bool()
    else if (message.is(11, wireLength)) this.#scalars.text = message.string()
    else return false
    return true
  }

  /** @param path of the query, with a trailing dot, or empty */
  *whole(path: string): Generator<undefined, SearchInput, void> {
    const include = this.#include.isEmpty ? {} : { include: readInclude(this.#include.reader()) }
    if (this.#filter.isEmpty) return { ...this.#scalars, ...include }
    const filter = yield* readFilterInTurns(this.#filter.reader(), `${path}filter`)
    return { ...this.#scalars, ...include, filter }
  }
}

/** The path of a message in its request, with a trailing dot, or empty. */
function pathOf(field: string, index: number): string {
  return index === alone ? '' : `${field}[${index}].`
}
