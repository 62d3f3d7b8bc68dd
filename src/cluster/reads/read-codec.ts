import type { AnswerRoom } from '../../base/budgets.ts'
import { DatabaseError } from '../../base/errors.ts'
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
} from '../../base/point.ts'
import { filterMessage, filterOf } from '../../messages/filters.ts'
import {
  type PageOfNode,
  PageOfNodeSchema,
  type PlanOfNode,
  type Queries,
  ReadAnswerSchema,
  type ReadQuestion,
  ReadQuestionSchema,
  type Results,
  ResultsOfQuerySchema,
  ResultsSchema,
  type Wanted,
} from '../../messages/generated/cluster_pb.js'
import type * as messages from '../../messages/generated/vectordb_pb.js'
import {
  FacetSchema,
  FacetsResponseSchema,
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
import { attributeOf, idMessage, valueMessage } from '../../messages/values.ts'
import { bytesOfIds, bytesOfNumbers, copiesOf, idsOf, numbersOf } from '../../messages/vectors.ts'
import { encode, type Init, type MessageWriter } from '../../messages/writer.ts'
import type { ChangeByFilter, FacetCount, ListPage, ListQuery } from '../../points/database.ts'
import type { NodeFacets, NodePlan, OrderedPage } from './merged-answers.ts'
import type { FacetsQuery } from './node-reads.ts'

/**
 * Reads between nodes as messages of proto/cluster.proto. Long answers are written and read in steps, and written from
 * their end.
 */

type Steps<Value = void> = Generator<undefined, Value, void>

/** The beginning of every read that a node sends to another one. */
export interface ReadHead {
  /** The name of the collection, or an alias. */
  readonly collection: string
  /** The log position that the answer must include. */
  readonly position: number
  /** The partitions that the node answers for. */
  readonly partitions: PartitionSet
}

export type AskMessage = Extract<NonNullable<Init<ReadQuestion>['ask']>, { readonly value: unknown }>
type AskFields = Fields<ReadQuestion>['ask']

export function encodeQuestion({ partitions, ...head }: ReadHead, ask: AskMessage): Buffer {
  return encode(ReadQuestionSchema, { ...head, partitions: partitions.bytes, ask })
}

export function decodeQuestion(bytes: Buffer): { readonly head: ReadHead; readonly ask: AskFields } {
  const { collection, position, partitions, ask } = Encoded.of(ReadQuestionSchema, bytes).read()
  return { head: { collection, position: Number(position), partitions: new PartitionSet(partitions) }, ask }
}

export function searchMessage(queries: readonly VectorQuery[]): AskMessage {
  const items = queries.map((query) => ({
    search: queryMessage(query),
    wanted: wantedMessage(query.include),
  }))
  return { case: 'search', value: { items } }
}

export function* queriesOf(message: Encoded<Queries>, bytes: Buffer): Steps<VectorQuery[]> {
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

export function listMessage({ filter, limit, cursor, include }: ListQuery): AskMessage {
  const list = { filter: filter && filterMessage(filter), limit, cursor }
  return { case: 'list', value: { list, wanted: wantedMessage(include) } }
}

export function* listQueryOf(message: Extract<AskFields, { case: 'list' }>['value']): Steps<ListQuery> {
  const { list, wanted } = message.read()
  const { filter, limit, cursor } = list!.read()
  return {
    filter: filter && (yield* filterOf(filter)),
    limit: Number(limit),
    cursor: cursor || undefined,
    include: includeOf(wanted!),
  }
}

export function facetsMessage({ filter, paths, limit }: FacetsQuery): AskMessage {
  return { case: 'facets', value: { filter: filter && filterMessage(filter), paths, limit } }
}

export function* facetsQueryOf(message: Encoded<messages.FacetsRequest>): Steps<FacetsQuery> {
  const { filter, paths, limit } = message.read()
  return { filter: filter && (yield* filterOf(filter)), paths, limit }
}

export function planMessage({ filter, change, limit, dryRun }: ChangeByFilter): AskMessage {
  const patch = change === 'delete' ? undefined : patchMessage(change)
  return { case: 'plan', value: { filter: filterMessage(filter), patch, limit, dryRun } }
}

export function* changeOf(
  message: Encoded<messages.ChangeByFilterRequest>,
  bytes: Buffer,
): Steps<ChangeByFilter> {
  const { filter, patch, limit, dryRun } = message.read()
  return {
    filter: yield* filterOf(filter!),
    change: patch === undefined ? 'delete' : patchOf(patch, copiesOf(bytes)),
    limit: Number(limit) || undefined,
    dryRun,
  }
}

export function writePoint(writer: MessageWriter, point: Point | undefined): void {
  if (point === undefined) return
  const { id, ...details } = point
  const value = { id: idMessage(id), ...detailsMessage(details) }
  writer.write(ReadAnswerSchema, { answer: { case: 'get', value } })
}

export function pointOf(message: Encoded<messages.Point>): Point {
  return detailsOf(message) as Point
}

export function* writePage(writer: MessageWriter, page: OrderedPage): Steps {
  const { points, orders, nextCursor, knownBelow } = page
  for (const { id, ...details } of points.toReversed()) {
    writer.item(ListResponseSchema.field.points, { id: idMessage(id), ...detailsMessage(details) })
    yield
  }
  writer.write(ListResponseSchema, { nextCursor })
  writer.head(PageOfNodeSchema.field.page.number, 0)
  writer.write(PageOfNodeSchema, { orders: bytesOfNumbers(orders), knownBelow })
  writer.head(ReadAnswerSchema.field.list.number, 0)
}

/** @param room counts what is read */
export function* pageOf(
  message: Encoded<PageOfNode>,
  visible: number,
  room?: AnswerRoom,
): Steps<OrderedPage> {
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
export function* writeFacets(writer: MessageWriter, facets: NodeFacets): Steps {
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
  writer.head(ReadAnswerSchema.field.facets.number, 0)
}

export function* facetsOf(message: Encoded<messages.FacetsResponse>): Steps<NodeFacets> {
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

export function* writePlan(writer: MessageWriter, { ids, orders, more, matching }: NodePlan): Steps {
  const value = { ids: yield* bytesOfIds(ids), orders: bytesOfNumbers(orders), more, matching }
  writer.write(ReadAnswerSchema, { answer: { case: 'plan', value } })
}

export function* planOf(message: Encoded<PlanOfNode>): Steps<NodePlan> {
  const { ids, orders, more, matching } = message.read()
  return { ids: yield* idsOf(ids), orders: [...numbersOf(orders)], more, matching: Number(matching) }
}

/** @param before what the node had applied when it began */
export function* writeResults(
  writer: MessageWriter,
  before: number,
  { ids, distances, sequences, details, profiles, plans }: SearchResults,
): Steps {
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
  writer.head(ReadAnswerSchema.field.search.number, 0)
}

/** @param room counts what is read */
export function* resultsOf(
  message: Encoded<Results>,
  room?: AnswerRoom,
): Steps<{ readonly before: number; readonly found: SearchResults }> {
  const { before, ends, ids, distances, sequences } = message.read()
  const details: (readonly HitDetails[] | undefined)[] = []
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
    plans.push(plan && planIn(plan))
    yield
  }
  const found = { distances: numbersOf(distances), sequences: numbersOf(sequences), details, profiles, plans }
  return { before: Number(before), found: { ids: new IdLists(ids, [...numbersOf(ends)]), ...found } }
}

function planIn(message: Encoded<messages.Profile>): SearchPlan {
  const { plan, reason } = message.read()
  return { plan: plan as SearchPlan['plan'], reason }
}
