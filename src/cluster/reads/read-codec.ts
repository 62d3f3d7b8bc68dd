import type { AnswerRoom } from '../../base/budgets.ts'
import { DatabaseError } from '../../base/errors.ts'
import type { Filter } from '../../base/filter.ts'
import { IdLists, type SearchResults } from '../../base/id-lists.ts'
import { idBytes } from '../../base/ids.ts'
import { PartitionSet } from '../../base/partitions.ts'
import {
  detailBytes,
  type HitDetails,
  type Include,
  type Point,
  type Profile,
  type SearchPlan,
  type VectorQuery,
  type WordCounts,
} from '../../base/point.ts'
import { inTurns } from '../../base/turns.ts'
import { filterMessage, filterOf } from '../../messages/filters.ts'
import {
  type WordCounts as CountsMessage,
  type LegsWanted,
  type PageOfNode,
  PageOfNodeSchema,
  type Queries,
  type ReadAnswer,
  ReadAnswerSchema,
  type ReadQuestion,
  ReadQuestionSchema,
  type Results,
  ResultsOfQuerySchema,
  ResultsSchema,
  type Wanted,
} from '../../messages/generated/cluster_pb.js'
import {
  FacetSchema,
  type FacetsResponse,
  FacetsResponseSchema,
  type Filter as FilterMessage,
  ListResponseSchema,
} from '../../messages/generated/vectordb_pb.js'
import {
  detailsMessage,
  detailsOf,
  patchMessage,
  patchOf,
  profileOf,
  queryMessage,
  queryOf,
} from '../../messages/points.ts'
import { Encoded, type Fields } from '../../messages/reader.ts'
import { attributeOf, idIn, idMessage, valueMessage } from '../../messages/values.ts'
import { bytesOfIds, bytesOfNumbers, copiesOf, idsOf, numbersOf } from '../../messages/vectors.ts'
import { encode, type Init, type MessageWriter } from '../../messages/writer.ts'
import type { FacetCount, ListPage } from '../../points/database.ts'
import type { NodeFacets, NodeResults, OrderedPage } from './merged-answers.ts'
import type { LegsAsked, ReadAnswers, ReadKind, ReadQueries } from './node-reads.ts'

/**
 * Reads between nodes as messages of proto/cluster.proto. Long answers are written and read in steps, and written from
 * their end.
 */

/** The beginning of every read that a node sends to another one. */
interface ReadHead {
  /** The name of the collection, or an alias. */
  readonly collection: string
  /** The log position that the answer must include. */
  readonly position: number
  /** The partitions that the node answers for. */
  readonly partitions: PartitionSet
}

export function encodeQuestion<Kind extends ReadKind>(
  { partitions, ...head }: ReadHead,
  kind: Kind,
  query: ReadQueries[Kind],
): Buffer {
  const ask = { case: kind, value: codecs[kind].ask(query) } as Init<ReadQuestion>['ask']
  return encode(ReadQuestionSchema, { ...head, partitions: partitions.bytes, ask })
}

/** @throws DatabaseError `not_ready` for a question of a later program */
export function decodeQuestion(bytes: Buffer): {
  readonly head: ReadHead
  readonly kind: ReadKind
  readonly query: () => Promise<ReadQueries[ReadKind]>
} {
  const { collection, position, partitions, ask } = Encoded.of(ReadQuestionSchema, bytes).read()
  if (ask.case === undefined) throw new DatabaseError('not_ready', 'this node does not know the question yet')
  const head = { collection, position: Number(position), partitions: new PartitionSet(partitions) }
  const { query } = codecs[ask.case] as Codec<ReadKind>
  return { head, kind: ask.case, query: async () => await query(ask.value, bytes) }
}

/** @param visible the highest log position of which the answer may include some effects */
export async function writeAnswer<Kind extends ReadKind>(
  writer: MessageWriter,
  kind: Kind,
  answer: ReadAnswers[Kind],
  visible: number,
): Promise<void> {
  const value = answer === undefined ? undefined : await codecs[kind].write(answer, writer)
  if (value !== undefined)
    writer.write(ReadAnswerSchema, { answer: { case: kind, value } } as Init<ReadAnswer>)
  else if (answer !== undefined) writer.head(ReadAnswerSchema.field[kind].number, 0)
  writer.write(ReadAnswerSchema, { visible })
}

/**
 * @param room counts what is read
 * @throws RangeError for the answer to another question
 */
export async function decodeAnswer<Kind extends ReadKind>(
  kind: Kind,
  bytes: Buffer,
  room?: AnswerRoom,
): Promise<{ readonly visible: number; readonly answer: ReadAnswers[Kind] }> {
  const message = Encoded.of(ReadAnswerSchema, bytes).read()
  const visible = Number(message.visible)
  const { answer } = message
  if (answer.case === undefined && kind === 'get') return { visible, answer: undefined as ReadAnswers[Kind] }
  if (answer.case !== kind) throw new RangeError(`a node has answered ${answer.case} to ${kind}`)
  return { visible, answer: await codecs[kind].answer(answer.value as AnswerOf<Kind>, visible, room) }
}

/** How a question and its answer are written and read. */
interface Codec<Kind extends ReadKind> {
  ask(query: ReadQueries[Kind]): Value<Init<ReadQuestion>['ask'], Kind>
  /** @param bytes all of the question */
  query(message: Value<Fields<ReadQuestion>['ask'], Kind>, bytes: Buffer): Later<ReadQueries[Kind]>
  /** Returns the answer as a message, or writes it. */
  write(
    answer: NonNullable<ReadAnswers[Kind]>,
    writer: MessageWriter,
  ): Later<Value<Init<ReadAnswer>['answer'], Kind> | undefined>
  answer(message: AnswerOf<Kind>, visible: number, room?: AnswerRoom): Later<ReadAnswers[Kind]>
}

type Value<Oneof, Kind> = Extract<Oneof, { readonly case: Kind; readonly value: unknown }>['value']
type AnswerOf<Kind> = Value<Fields<ReadAnswer>['answer'], Kind>
type Later<Result> = Result | Promise<Result>
type Steps<Result = void> = Generator<undefined, Result, void>

const codecs: { readonly [Kind in ReadKind]: Codec<Kind> } = {
  search: {
    ask: (queries) => ({
      items: queries.map((query) => ({ search: queryMessage(query), wanted: wantedMessage(query.include) })),
    }),
    query: (message, bytes) => inTurns(queriesOf(message, bytes)),
    write: (results, writer) => inTurns(writeResults(writer, results)),
    answer: (message, after, room) => inTurns(resultsOf(message, after, room)),
  },
  get: {
    ask: idMessage,
    query: idIn,
    write: ({ id, ...details }) => ({ id: idMessage(id), ...detailsMessage(details) }),
    answer: (message, _, room) => {
      const point = detailsOf(message) as Point
      room?.add(detailBytes(point))
      return point
    },
  },
  list: {
    ask: ({ filter, limit, cursor, include }) => ({
      list: { filter: filter && filterMessage(filter), limit, cursor },
      wanted: wantedMessage(include),
    }),
    query: async (message) => {
      const { list, wanted } = message.read()
      const { filter, limit, cursor } = list!.read()
      const include = includeOf(wanted!)
      return { filter: await filterIn(filter), limit: Number(limit), cursor: cursor || undefined, include }
    },
    write: (page, writer) => inTurns(writePage(writer, page)),
    answer: (message, visible, room) => inTurns(pageOf(message, visible, room)),
  },
  count: {
    ask: (filter) => ({ filter: filter && filterMessage(filter) }),
    query: (message) => filterIn(message.read().filter),
    write: (count) => count,
    answer: Number,
  },
  facets: {
    ask: ({ filter, paths, limit }) => ({ filter: filter && filterMessage(filter), paths, limit }),
    query: async (message) => {
      const { filter, paths, limit } = message.read()
      return { filter: await filterIn(filter), paths, limit }
    },
    write: (facets, writer) => inTurns(writeFacets(writer, facets)),
    answer: (message) => inTurns(facetsOf(message)),
  },
  plan: {
    ask: ({ filter, change, limit, dryRun }) => {
      const patch = change === 'delete' ? undefined : patchMessage(change)
      return { filter: filterMessage(filter), patch, limit, dryRun }
    },
    query: async (message, bytes) => {
      const { filter, patch, limit, dryRun } = message.read()
      return {
        filter: (await filterIn(filter))!,
        change: patch === undefined ? 'delete' : patchOf(patch, copiesOf(bytes)),
        limit: Number(limit) || undefined,
        dryRun,
      }
    },
    write: async ({ ids, orders, more, matching }) => ({
      ids: await inTurns(bytesOfIds(ids)),
      orders: bytesOfNumbers(orders),
      more,
      matching,
    }),
    answer: async (message) => {
      const { ids, orders, more, matching } = message.read()
      return {
        ids: await inTurns(idsOf(ids)),
        orders: [...numbersOf(orders)],
        more,
        matching: Number(matching),
      }
    },
  },
  words: {
    ask: ({ terms, filter, declared }) => ({ terms, filter: filter && filterMessage(filter), declared }),
    query: async (message) => {
      const { filter, ...asked } = message.read()
      return { ...asked, filter: await filterIn(filter) }
    },
    write: countsMessage,
    answer: countsOf,
  },
  legs: {
    ask: ({ query, without, declared }) => {
      const { words, keyFilter } = query
      const { balance, weights = [], statistics } = words!
      const { wanted } = statistics!
      return {
        search: { ...queryMessage(query), balance },
        keyFilter: keyFilter && filterMessage(keyFilter),
        without,
        declared,
        terms: wanted.map(([term]) => term),
        termWeights: bytesOfNumbers(wanted.map(([, weight]) => weight)),
        pathWeights: bytesOfNumbers(weights),
        counts: countsMessage(statistics!),
      }
    },
    query: legsAskedOf,
    write: ({ ids, found, bestWords, nearest, profile }) => ({
      ids,
      sequences: bytesOfNumbers(found.map(({ sequence }) => sequence)),
      distances: bytesOfNumbers(found.map(({ distance }) => distance)),
      words: bytesOfNumbers(found.map(({ words }) => words)),
      bestWords,
      nearest,
      profile,
    }),
    answer: (message) => {
      const { ids, sequences, distances, words, bestWords, nearest, profile } = message.read()
      const [byDistance, byWords] = [numbersOf(distances), numbersOf(words)]
      const found = Array.from(numbersOf(sequences), (sequence, index) => ({
        sequence,
        distance: byDistance[index]!,
        words: byWords[index]!,
      }))
      return { ids: Buffer.from(ids), found, bestWords, nearest, profile: profile && profileOf(profile) }
    },
  },
}

export const readKinds = Object.keys(codecs) as readonly ReadKind[]

async function filterIn(message: Encoded<FilterMessage> | undefined): Promise<Filter | undefined> {
  return message && (await inTurns(filterOf(message)))
}

function* queriesOf(message: Encoded<Queries>, bytes: Buffer): Steps<VectorQuery[]> {
  const vectorOf = copiesOf(bytes)
  const queries: VectorQuery[] = []
  for (const item of message.items('items')) {
    const { search, wanted } = item.read()
    if (search === undefined) throw new RangeError('a query is missing')
    queries.push({ ...(yield* queryOf(search, vectorOf)), include: wanted && includeOf(wanted) })
    yield
  }
  return queries
}

function wantedMessage(include: Include | undefined): Init<Wanted> | undefined {
  if (include === undefined) return undefined
  const { attributes, ...flags } = include
  if (attributes === 'all') return { include: flags, allAttributes: true }
  return { include: { ...flags, attributes }, someAttributes: attributes !== undefined }
}

function includeOf(message: Encoded<Wanted>): Include {
  const { include, allAttributes, someAttributes } = message.read()
  const { attributes, ...flags } = include!.read()
  return { ...flags, attributes: allAttributes ? 'all' : someAttributes ? attributes : undefined }
}

function* writeResults(
  writer: MessageWriter,
  { before, found: { ids, distances, sequences, details, profiles, plans } }: NodeResults,
): Steps<undefined> {
  for (let list = ids.length - 1; list >= 0; list -= 1) {
    const end = writer.length
    const hits = details[list]
    for (let rank = (hits?.length ?? 0) - 1; rank >= 0; rank -= 1) {
      writer.item(ResultsOfQuerySchema.field.hits, detailsMessage(hits![rank]!))
      yield
    }
    const [profile, plan] = [profiles[list], plans[list]]
    writer.write(ResultsOfQuerySchema, { hasHits: hits !== undefined, profile, plan })
    writer.head(ResultsSchema.field.queries.number, end)
    yield
  }
  writer.write(ResultsSchema, {
    before,
    ends: bytesOfNumbers(ids.ends),
    ids: ids.bytes.subarray(0, ids.total * idBytes),
    distances: bytesOfNumbers(distances),
    sequences: bytesOfNumbers(sequences),
  })
}

function* resultsOf(message: Encoded<Results>, after: number, room?: AnswerRoom): Steps<NodeResults> {
  const { before, ends, ids, distances, sequences } = message.read()
  const details: SearchResults['details'][number][] = []
  const profiles: (Profile | undefined)[] = []
  const plans: (SearchPlan | undefined)[] = []
  for (const item of message.items('queries')) {
    const { hasHits, profile, plan } = item.read()
    const hits: HitDetails[] = []
    for (const hit of item.items('hits')) {
      const found = detailsOf(hit)
      room?.add(detailBytes(found))
      hits.push(found)
      yield
    }
    details.push(hasHits ? hits : undefined)
    profiles.push(profile && profileOf(profile))
    const { plan: name, reason } = plan?.read() ?? {}
    plans.push(name === undefined ? undefined : { plan: name as SearchPlan['plan'], reason: reason! })
    yield
  }
  const found = { distances: numbersOf(distances), sequences: numbersOf(sequences), details, profiles, plans }
  return { before: Number(before), after, found: { ids: new IdLists(ids, [...numbersOf(ends)]), ...found } }
}

function* writePage(writer: MessageWriter, page: OrderedPage): Steps<undefined> {
  const { points, orders, nextCursor, knownBelow } = page
  for (const { id, ...details } of points.toReversed()) {
    writer.item(ListResponseSchema.field.points, { id: idMessage(id), ...detailsMessage(details) })
    yield
  }
  writer.write(ListResponseSchema, { nextCursor })
  writer.head(PageOfNodeSchema.field.page.number, 0)
  writer.write(PageOfNodeSchema, { orders: bytesOfNumbers(orders), knownBelow })
}

function* pageOf(message: Encoded<PageOfNode>, visible: number, room?: AnswerRoom): Steps<OrderedPage> {
  const { page, orders, knownBelow } = message.read()
  const points: ListPage['points'][number][] = []
  for (const item of page!.items('points')) {
    const details = detailsOf(item)
    room?.add(detailBytes(details))
    points.push(details as ListPage['points'][number])
    yield
  }
  const { nextCursor } = page!.read()
  const known = { orders: [...numbersOf(orders)], knownBelow, visible }
  return { points, nextCursor: nextCursor || undefined, ...known }
}

/** @throws DatabaseError `invalid_argument` for more bytes than a message between nodes may have */
function* writeFacets(writer: MessageWriter, facets: NodeFacets): Steps<undefined> {
  for (const [path, counts] of [...facets].reverse()) {
    const end = writer.length
    for (const { value, count } of counts.toReversed()) {
      writer.item(FacetSchema.field.counts, { value: valueMessage(value), count })
      if (writer.length > facetsBytesMax) throw tooManyValues([path])
      yield
    }
    writer.write(FacetSchema, { path })
    writer.head(FacetsResponseSchema.field.facets.number, end)
  }
}

function* facetsOf(message: Encoded<FacetsResponse>): Steps<NodeFacets> {
  const facets = new Map<string, readonly FacetCount[]>()
  for (const facet of message.items('facets')) {
    const counts: FacetCount[] = []
    for (const item of facet.items('counts')) {
      const { value, count } = item.read()
      counts.push({ value: attributeOf(value!) as FacetCount['value'], count: Number(count) })
      yield
    }
    facets.set(facet.read().path, counts)
  }
  return facets
}

/** The error when nodes would have to tell each other too much to rank the values of paths. */
export function tooManyValues(paths: readonly string[]): DatabaseError {
  return new DatabaseError(
    'invalid_argument',
    `paths: ${paths.join(', ')} has too many different values of about the same frequency for a cluster whose nodes have a part of the points each: select fewer points with a filter`,
  )
}

/** A quarter of the largest message between nodes. */
const facetsBytesMax = 8 * 1024 * 1024

function countsMessage({ documents, lengths, languages, terms }: WordCounts): Init<CountsMessage> {
  return {
    documents,
    lengths: bytesOfNumbers(lengths),
    languages: bytesOfNumbers(languages),
    termDocuments: bytesOfNumbers(terms.map((term) => term.documents)),
    termOccurrences: bytesOfNumbers(terms.map(({ occurrences }) => occurrences)),
  }
}

function countsOf(message: Encoded<CountsMessage>): WordCounts {
  const { documents, lengths, languages, termDocuments, termOccurrences } = message.read()
  const occurrences = numbersOf(termOccurrences)
  return {
    documents,
    lengths: [...numbersOf(lengths)],
    languages: [...numbersOf(languages)],
    terms: Array.from(numbersOf(termDocuments), (having, index) => ({
      documents: having,
      occurrences: occurrences[index]!,
    })),
  }
}

async function legsAskedOf(message: Encoded<LegsWanted>, bytes: Buffer): Promise<LegsAsked> {
  const { search, keyFilter, without, declared, terms, termWeights, pathWeights, counts } = message.read()
  const query = await inTurns(queryOf(search!, copiesOf(bytes)))
  const { balance = 0 } = search!.read()
  const [weights, inQuery] = [[...numbersOf(pathWeights)], numbersOf(termWeights)]
  const wanted = terms.map((term, index) => [term, inQuery[index]!] as const)
  const words = {
    text: '',
    balance,
    weights: weights.length === 0 ? undefined : weights,
    statistics: { ...countsOf(counts!), wanted },
  }
  return { query: { ...query, words, keyFilter: await filterIn(keyFilter) }, without, declared }
}
