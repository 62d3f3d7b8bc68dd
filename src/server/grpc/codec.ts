import type { DescMessage, MessageShape } from '@bufbuild/protobuf'
import {
  type BoostInput,
  boostsMax,
  examplesMax,
  type GroupByInput,
  tooManyBoosts,
  tooManyExamples,
} from '../../api/answer-shape.ts'
import type { ChangeByFilterInput, PatchInput, PreconditionInput } from '../../api/change-point.ts'
import type { SetAliasesInput, WordsInput } from '../../api/collections.ts'
import {
  type EvaluatePointsInput,
  gradesMax,
  type JudgementInput,
  judgementsMax,
  tooManyGrades,
  tooManyJudgements,
} from '../../api/evaluate-points.ts'
import type { OnErrorInput } from '../../api/insert-points.ts'
import type { ListAuditInput } from '../../api/inspect-service.ts'
import type { GrpcOperationName, OperationTypes } from '../../api/operations.ts'
import type { SearchInput } from '../../api/search-points.ts'
import { type PayloadInput, type PointInput, pathsMax, tooManyPaths } from '../../api/validation.ts'
import { checkDateTime } from '../../base/attributes.ts'
import type { AnswerRoom } from '../../base/budgets.ts'
import { DatabaseError, invalid } from '../../base/errors.ts'
import type { Filter } from '../../base/filter.ts'
import type { AskedInclude } from '../../base/point.ts'
import { inTurns } from '../../base/turns.ts'
import { wireLength, wireVarint } from '../../messages/fields.ts'
import { filterIn } from '../../messages/filters.ts'
import * as messages from '../../messages/generated/vectordb_pb.js'
import { Encoded, type Fields, valuesIn, WireReader } from '../../messages/reader.ts'
import { attributesIn, idIn, setIn } from '../../messages/values.ts'
import { copiesOf, type VectorOf, vectorIn, vectorsOf } from '../../messages/vectors.ts'
import * as answers from './answers.ts'

/** Decodes and encodes the messages of an operation in gRPC. */
export interface Codec<Name extends GrpcOperationName> {
  /** Returns a promise for a request that is decoded in turns, such as one with a large filter. */
  readonly decode: (bytes: Buffer) => OperationTypes[Name]['input'] | Promise<OperationTypes[Name]['input']>
  /**
   * Returns a promise for an answer so large that it is encoded in turns.
   *
   * @param room counts the answer while it grows beyond what was read for it
   */
  readonly encode: (output: OperationTypes[Name]['output'], room?: AnswerRoom) => Buffer | Promise<Buffer>
}

/** The operations as messages of proto/vectordb.proto. */
export const codecs: { readonly [Name in GrpcOperationName]: Codec<Name> } = {
  InsertVector: {
    decode: (bytes) => pointIn(Encoded.of(messages.InsertVectorRequestSchema, bytes), copiesOf(bytes), alone),
    encode: answers.id,
  },
  InsertVectorsBatch: {
    decode(bytes) {
      const batch = new BatchMessage(bytes)
      const vectorOf = copiesOf(bytes)
      return {
        vectors: batch.items(messages.InsertVectorRequestSchema, (message, index) =>
          pointIn(message, vectorOf, index),
        ),
        onError: batch,
      }
    },
    encode: answers.inserted,
  },
  DeletePoint: { decode: pointIdIn, encode: answers.deleted },
  GetPoint: { decode: pointIdIn, encode: answers.point },
  SearchPoints: {
    decode(bytes) {
      const query = queryIn(Encoded.of(messages.SearchRequestSchema, bytes), vectorsOf(bytes), alone)
      return typeof query === 'function' ? inTurns(query()) : query
    },
    encode: answers.search,
  },
  SearchPointsBatch: {
    decode(bytes) {
      const vectorOf = vectorsOf(bytes)
      const items = new BatchMessage(bytes).items(messages.SearchRequestSchema, (message, index) =>
        queryIn(message, vectorOf, index),
      )
      return { queries: items }
    },
    encode: answers.searches,
  },
  EvaluatePoints: {
    decode(bytes) {
      const message = Encoded.of(messages.EvaluateRequestSchema, bytes)
      return inTurns(evaluationIn(message, vectorsOf(bytes)))
    },
    encode: answers.evaluated,
  },
  PutPoint: {
    decode: inSteps(messages.PutPointRequestSchema, function* ({ id, vector, text, payload, when }, bytes) {
      return {
        id: id && idIn(id),
        vector: vector && vectorIn(vector, copiesOf(bytes)),
        text,
        payload: payload && payloadIn(payload, alone),
        when: when && (yield* preconditionIn(when)),
      }
    }),
    encode: answers.written,
  },
  PatchPoint: {
    decode: inSteps(messages.PatchPointRequestSchema, function* ({ id, patch, when }, bytes) {
      return {
        id: id && idIn(id),
        patch: patch && patchIn(patch, copiesOf(bytes)),
        when: when && (yield* preconditionIn(when)),
      }
    }),
    encode: answers.written,
  },
  UpdatePoints: { decode: inSteps(messages.ChangeByFilterRequestSchema, changeIn), encode: answers.changed },
  DeletePoints: { decode: inSteps(messages.ChangeByFilterRequestSchema, changeIn), encode: answers.changed },
  ListPoints: {
    decode: inSteps(messages.ListRequestSchema, function* ({ filter, limit, cursor, include }) {
      return {
        limit: limit || undefined,
        cursor: cursor || undefined,
        include: include && includeIn(include),
        filter: yield* optionalFilterIn(filter),
      }
    }),
    encode: answers.list,
  },
  CountPoints: {
    decode: inSteps(messages.CountRequestSchema, function* ({ filter }) {
      return { filter: yield* optionalFilterIn(filter) }
    }),
    encode: answers.count,
  },
  FacetPoints: {
    decode: inSteps(messages.FacetsRequestSchema, function* ({ filter, paths, limit }) {
      return {
        paths: bounded(paths, 'paths'),
        limit: limit || undefined,
        filter: yield* optionalFilterIn(filter),
      }
    }),
    encode: answers.facets,
  },
  ListCollections: {
    decode: withoutFields(messages.ListCollectionsRequestSchema),
    encode: answers.collections,
  },
  GetCollection: {
    decode: (bytes) => nameIn(Encoded.of(messages.GetCollectionRequestSchema, bytes).read()),
    encode: answers.collection,
  },
  PutCollection: {
    decode(bytes) {
      const message = Encoded.of(messages.PutCollectionRequestSchema, bytes)
      const { hnsw, words, withoutWords, quotas, ...fields } = message.read()
      return {
        ...fields,
        ...nameIn(fields),
        hnsw: hnsw?.read(),
        words: withoutWords ? standing(null, words, 'words and without_words') : words && wordsIn(words),
        quotas: quotas?.read(),
      }
    },
    encode: answers.putCollection,
  },
  DeleteCollection: {
    decode: (bytes) => nameIn(Encoded.of(messages.DeleteCollectionRequestSchema, bytes).read()),
    encode: answers.nothing,
  },
  SetAliases: {
    decode(bytes): SetAliasesInput {
      const message = Encoded.of(messages.SetAliasesRequestSchema, bytes)
      return { set: new Map(message.entries('set')), remove: message.read().remove }
    },
    encode: answers.aliases,
  },
  ListAudit: {
    decode(bytes): ListAuditInput {
      const { sinceUs, untilUs, key, operation, collection, allowed, limit, cursor } = Encoded.of(
        messages.ListAuditRequestSchema,
        bytes,
      ).read()
      return {
        sinceUs: dateIn(sinceUs, 'since_us'),
        untilUs: dateIn(untilUs, 'until_us'),
        key: key || undefined,
        operation: operation || undefined,
        collection: collection || undefined,
        allowed,
        limit,
        cursor: cursor || undefined,
      }
    },
    encode: answers.audit,
  },
  CreateKey: {
    decode: inSteps(messages.KeyInfoSchema, function* ({ role, collections, filter, quotas, ...fields }) {
      return {
        ...nameIn(fields),
        role: role || undefined,
        collections: collections.length === 0 ? undefined : bounded(collections, 'collections'),
        expiresAtUs: dateIn(fields.expiresAtUs, 'expires_at_us'),
        quotas: quotas && valuesIn(quotas.read()),
        filter: yield* optionalFilterIn(filter),
      }
    }),
    encode: answers.createdKey,
  },
  ListKeys: {
    decode: withoutFields(messages.ListKeysRequestSchema),
    encode: answers.keys,
  },
  RevokeKey: {
    decode: (bytes) => nameIn(Encoded.of(messages.RevokeKeyRequestSchema, bytes).read()),
    encode: answers.nothing,
  },
}

/** Decodes a message whose filter is read in turns. */
function inSteps<Schema extends DescMessage, Input>(
  schema: Schema,
  read: (fields: Fields<MessageShape<Schema>>, bytes: Buffer) => Generator<undefined, Input, void>,
): (bytes: Buffer) => Input | Promise<Input> {
  return (bytes) => inTurns(read(Encoded.of(schema, bytes).read(), bytes))
}

/** Decodes a message without fields: all that it has is unknown, but must be well formed. */
function withoutFields(schema: DescMessage): (bytes: Buffer) => undefined {
  return (bytes) => {
    Encoded.of(schema, bytes).read()
    return undefined
  }
}

/** The index of a message that is not an item of a batch. */
const alone = -1

/** The path of a message in its request, with a trailing dot, or empty. */
function pathOf(field: string, index: number): string {
  return index === alone ? '' : `${field}[${index}].`
}

/** Microseconds since 1970. */
function dateIn(us: number | bigint | undefined, at: string): number | undefined {
  return us === undefined ? undefined : checkDateTime(us, at).us
}

/** The name in a request; undefined if it is empty, like an absent one. */
function nameIn({ name }: { readonly name: string }): { readonly name: string | undefined } {
  return { name: name || undefined }
}

/** Returns what a flag stands for, in place of a field beside it. @param names of both, for messages */
function standing<Value>(value: Value, field: unknown, names: string): Value {
  if (field !== undefined) throw invalid(`${names} are both given: a request has one of them`)
  return value
}

function wordsIn(message: Encoded<messages.WordSettings>): WordsInput {
  const { language, k1, b } = message.read()
  return {
    language: language || undefined,
    k1,
    b,
    paths: new Map(Array.from(message.items('paths'), pathIn)),
  }
}

function pathIn(message: Encoded<messages.WordPath>): readonly [path: string, weight: number] {
  const { path, weight } = message.read()
  return [path, weight]
}

function pointIdIn(bytes: Buffer): { id?: string | undefined } {
  return { id: Encoded.of(messages.PointIDSchema, bytes).read().id?.read().value }
}

function pointIn(
  message: Encoded<messages.InsertVectorRequest>,
  vectorOf: VectorOf,
  index: number,
): PointInput {
  const { vector, payload, id, onConflict, text } = message.read()
  return {
    vector: vector && vectorIn(vector, vectorOf),
    payload: payload && payloadIn(payload, index),
    id: id && idIn(id),
    onConflict: onConflict || undefined,
    text,
  }
}

/** @param index of the point in a batch */
function payloadIn(message: Encoded<messages.Payload>, index: number): PayloadInput {
  const { contentType, content, attributes, expiresAtUs } = message.read()
  if (attributes === undefined && expiresAtUs === undefined) return { contentType, content }
  const at = `${pathOf('vectors', index)}payload`
  return {
    contentType,
    content,
    attributes: attributes && attributesIn(attributes, `${at}.attributes`),
    expiresAtUs: dateIn(expiresAtUs, `${at}.expires_at_us`),
  }
}

/** An item of a batch, or a generator that reads it: it yields from time to time. */
type ItemSteps<Item> = Item | (() => Generator<undefined, Item, void>)

/** Reads a query. A filter is read in turns. */
function queryIn(
  message: Encoded<messages.SearchRequest>,
  vectorOf: VectorOf,
  index: number,
): ItemSteps<SearchInput> {
  const fields = message.read()
  // Named one by one: a copy of the other fields takes longer than reading them.
  const { queryVector, similarity, limit, ef, nearId, include, filter, exact, maxDistance, profile } = fields
  const { text, words, wordsOfText, balance, cursor, diversity, groupBy, rerank, onError } = fields
  const { statistics } = fields
  // Before the vector is read, which can move it within the message.
  const boosts = Array.from(message.items('boost'))
  const path = pathOf('queries', index)
  const [like, unlike] = [examplesIn(message, 'like', path), examplesIn(message, 'unlike', path)]
  const query = {
    vector: queryVector && vectorIn(queryVector, vectorOf),
    similarity,
    limit,
    ef,
    maxDistance,
    text,
    id: nearId && idIn(nearId),
    include: include && includeIn(include),
    exact: exact || undefined,
    profile: profile || undefined,
    words: wordsOfText ? standing(true, words, `${path}words and ${path}words_of_text`) : words,
    balance,
    cursor,
    like,
    unlike,
    diversity: diversity || undefined,
    groupBy: groupBy && groupByIn(groupBy),
    rerank,
    onError: onError || undefined,
  }
  if (filter === undefined && statistics === undefined && boosts.length === 0) return query
  if (boosts.length > boostsMax) throw tooManyBoosts(`${path}boost`)
  return function* () {
    const boost = yield* boostsIn(boosts, path)
    return {
      ...query,
      ...(filter && { filter: yield* filterIn(filter, `${path}filter`) }),
      ...(statistics && { statistics: { filter: yield* filterIn(statistics, `${path}statistics`) } }),
      ...(boost.length > 0 && { boost }),
    }
  }
}

function* evaluationIn(
  message: Encoded<messages.EvaluateRequest>,
  vectorOf: VectorOf,
): Generator<undefined, EvaluatePointsInput, void> {
  const { k, sweep, similarity, balance, ef, filter, diversity, rerank } = message.read()
  // Before vectors are read.
  const boosts = Array.from(message.items('boost'))
  if (boosts.length > boostsMax) throw tooManyBoosts('boost')
  const judgements: JudgementInput[] = []
  for (const item of message.items('judgements')) {
    if (judgements.length === judgementsMax) throw tooManyJudgements()
    const { words, wordsOfText, vector, text } = item.read()
    const path = `judgements[${judgements.length}].`
    const relevant = new Map<string, number>()
    for (const [id, grade] of item.entries('relevant')) {
      relevant.set(id, grade)
      if (relevant.size > gradesMax) throw tooManyGrades(`${path}relevant`)
    }
    judgements.push({
      words: wordsOfText ? standing(true, words, `${path}words and ${path}words_of_text`) : words,
      vector: vector && vectorIn(vector, vectorOf),
      text,
      relevant,
    })
    yield
  }
  return {
    judgements,
    k,
    sweep: bounded(sweep, 'sweep'),
    similarity,
    balance,
    ef,
    filter: yield* optionalFilterIn(filter),
    ...(boosts.length > 0 && { boost: yield* boostsIn(boosts, '') }),
    diversity: diversity || undefined,
    rerank,
  }
}

function examplesIn(
  message: Encoded<messages.SearchRequest>,
  field: 'like' | 'unlike',
  path: string,
): string[] | undefined {
  const ids: string[] = []
  for (const each of message.items(field)) {
    if (ids.length === examplesMax) throw tooManyExamples(`${path}${field}`)
    ids.push(idIn(each))
  }
  return ids.length === 0 ? undefined : ids
}

function* boostsIn(
  boosts: readonly Encoded<messages.Boost>[],
  path: string,
): Generator<undefined, BoostInput[], void> {
  const read: BoostInput[] = []
  for (const each of boosts) read.push(yield* boostIn(each, `${path}boost[${read.length}]`))
  return read
}

function* boostIn(message: Encoded<messages.Boost>, at: string): Generator<undefined, BoostInput, void> {
  const { weight, filter, recent } = message.read()
  return {
    weight,
    ...(filter && { filter: yield* filterIn(filter, `${at}.filter`) }),
    ...(recent && { recent: recent.read() }),
  }
}

function groupByIn(message: Encoded<messages.GroupBy>): GroupByInput {
  const { path, size } = message.read()
  return { path, size }
}

function includeIn(message: Encoded<messages.Include>): AskedInclude {
  const { attributes, ...flags } = message.read()
  return {
    ...flags,
    ...(attributes.length === 0 ? {} : { attributes: bounded(attributes, 'include.attributes') }),
  }
}

function bounded(paths: readonly string[], at: string): readonly string[] {
  if (paths.length > pathsMax) throw tooManyPaths(at)
  return paths
}

function* changeIn(
  { filter, patch, limit, dryRun, everything }: Fields<messages.ChangeByFilterRequest>,
  bytes: Buffer,
): Generator<undefined, ChangeByFilterInput, void> {
  return {
    dryRun,
    everything,
    limit: limit || undefined,
    patch: patch && patchIn(patch, copiesOf(bytes)),
    filter: yield* optionalFilterIn(filter),
  }
}

function patchIn(message: Encoded<messages.Patch>, vectorOf: VectorOf): PatchInput {
  const { set, unset, expiresAtUs, vector, ...same } = message.read()
  return {
    ...same,
    expiresAtUs: dateIn(expiresAtUs, 'patch.expires_at_us'),
    set: set && setIn(set, 'patch.set'),
    unset: unset.length === 0 ? undefined : bounded(unset, 'patch.unset'),
    vector: vector && vectorIn(vector, vectorOf),
  }
}

function* preconditionIn(
  message: Encoded<messages.Precondition>,
): Generator<undefined, PreconditionInput, void> {
  const { test } = message.read()
  if (test.case === 'version') return { version: test.value }
  if (test.case === 'filter') return { filter: yield* filterIn(test.value, 'when.filter') }
  return test.case === 'absent' ? { absent: test.value } : {}
}

function* optionalFilterIn(
  filter: Encoded<messages.Filter> | undefined,
): Generator<undefined, Filter | undefined, void> {
  return filter && (yield* filterIn(filter, 'filter'))
}

/** A request with `repeated … = 1`. An insert also has `continue_on_error = 2`, before or after the items. */
class BatchMessage implements OnErrorInput {
  readonly #bytes: Buffer
  #continues = false

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  get value(): 'continue' | undefined {
    return this.#continues ? 'continue' : undefined
  }

  /**
   * Yields the items, and decodes each one only when it is requested. An item can take as little as two bytes on the
   * wire and a hundred in memory, so items after a bad one are only created if the iteration continues. Yields a bad
   * item as its error. Yields undefined after many skipped fields without an item.
   */
  *items<Schema extends DescMessage, Item extends object>(
    schema: Schema,
    read: (message: Encoded<MessageShape<Schema>>, index: number) => ItemSteps<Item>,
  ): Generator<Item | DatabaseError | undefined, void, void> {
    const reader = new WireReader(this.#bytes)
    let index = 0
    let skipped = 0
    while (reader.next()) {
      if (reader.is(1, wireLength)) {
        const message = reader.message<MessageShape<Schema>>(schema)
        let item: Item | DatabaseError
        try {
          const steps = read(message, index)
          item = typeof steps === 'function' ? yield* steps() : steps
        } catch (error) {
          if (!(error instanceof DatabaseError)) throw error
          item = error
        }
        yield item
        index += 1
        continue
      }
      if (reader.is(continueField, wireVarint)) this.#continues = reader.bool()
      else reader.skip()
      skipped += 1
      if (skipped % skippedPerTurn === 0) yield undefined
    }
  }

  *find(): Generator<undefined, 'continue' | undefined, void> {
    const reader = new WireReader(this.#bytes)
    let continues = false
    let skipped = 0
    while (reader.next()) {
      if (reader.is(continueField, wireVarint)) continues = reader.bool()
      else reader.skip()
      skipped += 1
      if (skipped % skippedPerTurn === 0) yield undefined
    }
    return continues ? 'continue' : undefined
  }
}

/** The field `continue_on_error`; an unknown field in a batch of queries. */
const continueField = messages.InsertVectorsBatchRequestSchema.field.continueOnError.number

/** Skipping this many fields takes well under a millisecond. */
const skippedPerTurn = 4096
