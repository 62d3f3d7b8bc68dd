import type { AnswerRoom } from '../../base/budgets.ts'
import { DatabaseError } from '../../base/errors.ts'
import { IdLists } from '../../base/id-lists.ts'
import { idBytes } from '../../base/ids.ts'
import type { PartitionSet } from '../../base/partitions.ts'
import { distanceMetrics, type Include, type Point, type SearchQuery } from '../../base/point.ts'
import type { Profile } from '../../base/profile.ts'
import type { HitDetails, SearchPlan, SearchResults } from '../../base/search-results.ts'
import { Turn } from '../../base/turns.ts'
import type { FacetCount, ListPage, ListQuery } from '../../points/database.ts'
import { detailBytes } from '../../search/search-answers.ts'
import { readFilter, readScalar, writeFilter, writeScalar } from '../log/filter-bytes.ts'
import {
  nameOf,
  type PackedReader,
  type PackedWriter,
  readOptional,
  readPartitions,
  readPayload,
  writeOptional,
  writePayload,
} from '../log/packed-bytes.ts'

/** The beginning of every read that a node sends to another one. */
export interface ReadHead {
  /** The name of the collection, or an alias. */
  readonly collection: string
  /** The log position that the answer must include. */
  readonly position: number
  /** The partitions that the node answers for. */
  readonly partitions: PartitionSet
}

export function writeHead(to: PackedWriter, { collection, position, partitions }: ReadHead): void {
  to.text(collection)
  to.count(position)
  to.raw(partitions.bytes)
}

export function readHead(from: PackedReader): ReadHead {
  return { collection: from.text(), position: from.count(), partitions: readPartitions(from) }
}

export function writePoint(to: PackedWriter, point: Point | undefined): void {
  writeOptional(to, point, ({ id, vector, payload, version }) => {
    to.id(id)
    to.vector(vector)
    writePayload(to, payload)
    to.float64(version)
  })
}

export function readPoint(from: PackedReader): Point | undefined {
  return readOptional(from, () => {
    const [id, vector] = [from.id(), from.vector()]
    return { id, vector, payload: readPayload(from), version: from.float64() }
  })
}

export function writeListQuery(to: PackedWriter, { filter, limit, cursor, include }: ListQuery): void {
  writeOptional(to, filter, (each) => writeFilter(to, each))
  to.count(limit)
  writeOptional(to, cursor, (each) => to.text(each))
  writeInclude(to, include)
}

export function readListQuery(from: PackedReader): ListQuery {
  return {
    filter: readOptional(from, () => readFilter(from)),
    limit: from.count(),
    cursor: readOptional(from, () => from.text()),
    include: readInclude(from),
  }
}

/** A page of an ordered query, from one node. */
export interface OrderedPage extends ListPage {
  readonly orders: readonly number[]
  /** The node had applied all records that can have inserted points with an order below this. */
  readonly knownBelow: number
  /** The highest log position of a record of which the page may include some effects. */
  readonly visible: number
}

/** Writes in turns. */
export async function writePage(to: PackedWriter, page: OrderedPage): Promise<void> {
  const turn = new Turn()
  const { points, orders, nextCursor, knownBelow, visible } = page
  to.count(visible)
  to.count(points.length)
  for (const [at, { id, ...details }] of points.entries()) {
    to.id(id)
    to.float64(orders[at]!)
    writeDetails(to, details)
    if (turn.isOver) await turn.next()
  }
  writeOptional(to, nextCursor, (cursor) => to.text(cursor))
  to.float64(knownBelow)
}

/** Reads in turns what `writePage` has written. @param room counts what is read */
export async function readPage(from: PackedReader, room?: AnswerRoom): Promise<OrderedPage> {
  const turn = new Turn()
  const visible = from.count()
  const orders: number[] = []
  const points: ListPage['points'][number][] = []
  for (let left = from.length(24); left > 0; left -= 1) {
    const id = from.id()
    orders.push(from.float64())
    const details = readDetails(from)
    room?.add(detailBytes(details))
    points.push({ id, ...details })
    if (turn.isOver) await turn.next()
  }
  const nextCursor = readOptional(from, () => from.text())
  // A node of the previous version does not say what it knows.
  const knownBelow = from.isAtEnd ? Number.POSITIVE_INFINITY : from.float64()
  return { points, orders, nextCursor, knownBelow, visible }
}

/**
 * Writes in turns, since there can be very many values.
 *
 * @throws DatabaseError `invalid_argument` for more bytes than a message between nodes may have
 */
export async function writeFacets(
  to: PackedWriter,
  facets: ReadonlyMap<string, readonly FacetCount[]>,
): Promise<void> {
  const turn = new Turn()
  to.count(facets.size)
  for (const [path, counts] of facets) {
    to.text(path)
    to.count(counts.length)
    for (const [at, { value, count }] of counts.entries()) {
      writeScalar(to, value)
      to.count(count)
      if (at % valuesPerLook !== 0) continue
      if (to.written.length > facetsBytesMax) throw tooManyValues([path])
      if (turn.isOver) await turn.next()
    }
  }
}

/** Reads in turns what `writeFacets` has written. */
export async function readFacets(from: PackedReader): Promise<ReadonlyMap<string, readonly FacetCount[]>> {
  const turn = new Turn()
  const facets = new Map<string, readonly FacetCount[]>()
  for (let left = from.length(2); left > 0; left -= 1) {
    const path = from.text()
    const counts: FacetCount[] = []
    for (let values = from.length(2); values > 0; values -= 1) {
      counts.push({ value: readScalar(from), count: from.count() })
      if (values % valuesPerLook === 0 && turn.isOver) await turn.next()
    }
    facets.set(path, counts)
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
/** This many values take about 0.1 ms. */
const valuesPerLook = 128

/** The encoding of searches and their results between nodes: one field after the other, as `PackedWriter` writes them. */
export function writeQueries(to: PackedWriter, queries: readonly SearchQuery[]): void {
  to.count(queries.length)
  for (const query of queries) {
    to.byte(distanceMetrics.indexOf(query.metric))
    to.byte((query.exact ? flags.exact : 0) | (query.profile ? flags.profile : 0))
    to.count(query.limit)
    to.count(query.ef)
    if (typeof query.vector === 'string') throw new RangeError('a query between nodes must have its vector')
    to.vector(query.vector)
    writeOptional(to, query.filter, (filter) => writeFilter(to, filter))
    writeOptional(to, query.maxDistance, (distance) => to.float64(distance))
    writeOptional(to, query.include, (include) => writeInclude(to, include))
  }
}

/** Reads queries. */
export function readQueries(from: PackedReader): SearchQuery[] {
  return Array.from({ length: from.length(queryBytesMin) }, () => {
    const metric = nameOf(distanceMetrics, from.byte())
    const set = from.byte()
    const [limit, ef, vector] = [from.count(), from.count(), from.vector()]
    return {
      metric,
      limit,
      ef,
      vector,
      filter: readOptional(from, () => readFilter(from)),
      exact: (set & flags.exact) !== 0,
      maxDistance: readOptional(from, () => from.float64()),
      include: readOptional(from, () => readInclude(from)),
      profile: (set & flags.profile) !== 0,
    }
  })
}

const flags = { exact: 1, profile: 2 } as const
const queryBytesMin = 8

/** Writes results in turns. */
export async function writeResults(
  to: PackedWriter,
  { ids, distances, sequences, details, profiles, plans }: SearchResults,
): Promise<void> {
  const turn = new Turn()
  to.count(ids.length)
  for (let list = 0; list < ids.length; list += 1) to.count(ids.lengthOf(list))
  to.raw(ids.bytes.subarray(0, ids.total * idBytes))
  to.float64s(distances)
  to.float64s(sequences)
  for (const [at, each] of details.entries()) {
    writeOptional(to, each, () => {})
    for (const hit of each ?? []) {
      writeDetails(to, hit)
      if (turn.isOver) await turn.next()
    }
    writeOptional(to, profiles[at], (profile) => writeProfile(to, profile))
    writeOptional(to, plans[at], (plan) => writePlan(to, plan))
  }
}

/** Reads in turns what `writeResults` has written. @param room counts what is read */
export async function readResults(from: PackedReader, room?: AnswerRoom): Promise<SearchResults> {
  const turn = new Turn()
  let end = 0
  const ends = Array.from({ length: from.length(1) }, () => (end += from.count()))
  const ids = new IdLists(from.raw(end * idBytes), ends)
  const distances = from.float64s(end)
  const sequences = from.float64s(end)
  const details: (readonly HitDetails[] | undefined)[] = []
  const profiles: (Profile | undefined)[] = []
  const plans: (SearchPlan | undefined)[] = []
  for (let list = 0; list < ids.length; list += 1) {
    const hits = readOptional(from, (): HitDetails[] => [])
    for (let left = ids.lengthOf(list); hits !== undefined && left > 0; left -= 1) {
      const hit = readDetails(from)
      room?.add(detailBytes(hit))
      hits.push(hit)
      if (turn.isOver) await turn.next()
    }
    details.push(hits)
    profiles.push(readOptional(from, () => readProfile(from)))
    plans.push(readOptional(from, () => readPlan(from)))
  }
  return { ids, distances, sequences, details, profiles, plans }
}

function writeInclude(to: PackedWriter, include: Include): void {
  const names = ['distance', 'payload', 'vector', 'version'] as const
  to.byte(names.reduce((set, name, bit) => set | (Number(include[name]) << bit), 0))
  const { attributes } = include
  to.byte(attributes === undefined ? 0 : attributes === 'all' ? 1 : 2)
  if (typeof attributes !== 'object') return
  to.count(attributes.length)
  for (const path of attributes) to.text(path)
}

function readInclude(from: PackedReader): Include {
  const set = from.byte()
  const [distance, payload, vector, version] = [1, 2, 4, 8].map((bit) => (set & bit) !== 0) as [
    boolean,
    boolean,
    boolean,
    boolean,
  ]
  const kind = from.byte()
  const attributes =
    kind === 2 ? Array.from({ length: from.length(1) }, () => from.text()) : kind === 1 ? 'all' : undefined
  return { distance, payload, vector, version, attributes }
}

function writeDetails(to: PackedWriter, { payload, vector, version }: HitDetails): void {
  writeOptional(to, payload, (each) => writePayload(to, each))
  writeOptional(to, vector, (each) => to.vector(each))
  writeOptional(to, version, (each) => to.float64(each))
}

function readDetails(from: PackedReader): HitDetails {
  return {
    payload: readOptional(from, () => readPayload(from)),
    vector: readOptional(from, () => from.vector()),
    version: readOptional(from, () => from.float64()),
  }
}

function writePlan(to: PackedWriter, { plan, reason }: SearchPlan): void {
  to.byte(planNames.indexOf(plan))
  to.text(reason)
}

function readPlan(from: PackedReader): SearchPlan {
  return { plan: nameOf(planNames, from.byte()), reason: from.text() }
}

function writeProfile(to: PackedWriter, profile: Profile): void {
  writePlan(to, profile)
  for (const name of profileNumbers) to.float64(profile[name])
  writeOptional(to, profile.recallEstimate, (recall) => to.float64(recall))
}

function readProfile(from: PackedReader): Profile {
  const plan = readPlan(from)
  const numbers = Object.fromEntries(profileNumbers.map((name) => [name, from.float64()])) as Pick<
    Profile,
    (typeof profileNumbers)[number]
  >
  return { ...plan, ...numbers, recallEstimate: readOptional(from, () => from.float64()) }
}

/** The index of a plan is its number. */
const planNames: readonly Profile['plan'][] = [
  'empty',
  'scan of all points',
  'scan of matching points',
  'graph',
]

const profileNumbers = [
  ...(['points', 'matching', 'compared', 'measured', 'ef', 'efMultiplier'] as const),
  ...(['filterUs', 'queueUs', 'searchUs'] as const),
]
