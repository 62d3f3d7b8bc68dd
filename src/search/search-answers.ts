import type { AnswerRoom } from '../base/budgets.ts'
import { DatabaseError } from '../base/errors.ts'
import { IdLists } from '../base/id-lists.ts'
import { idBytes, idFromBytes } from '../base/ids.ts'
import type { Metric, SearchQuery } from '../base/point.ts'
import type { HitDetails, Profile, Ranks, SearchPlan, SearchResults } from '../base/search-results.ts'
import type { Hit, HitLists } from '../index/hit.ts'
import type { VectorIndex } from '../index/vector-index.ts'
import type { IdTable } from '../points/id-table.ts'
import { isScan } from './filter-planner.ts'
import { detailBytes, detailsOf, wantsDetails } from './hit-details.ts'
import type { SlotQuery } from './search-pieces.ts'
import type { Run, SearchedPoints, TouchedSlots } from './search-runs.ts'

/** The answer to one query. */
export interface Answer {
  readonly ids: Uint8Array
  readonly distances: readonly number[]
  /** Only for queries that are ranked. */
  readonly hits: readonly Hit[] | undefined
  readonly details: readonly HitDetails[] | undefined
  readonly profile: Profile | undefined
  readonly plan: SearchPlan | undefined
}

/** The hits of one query: one of the lists of a search. */
export interface FoundList {
  readonly hits: HitLists
  readonly list: number
}

/** How much the answers of a request may still contain, and where it counts. */
export interface Room {
  detailBytes: number
  readonly answer: AnswerRoom | undefined
}

/** Answers queries from their hits. Each answer is valid for one moment, that of its last step. Main thread only. */
export class SearchAnswers {
  readonly #points: SearchedPoints
  readonly #maxDetailBytes: number

  /** @param maxDetailBytes the limit of one request */
  constructor(points: SearchedPoints, maxDetailBytes: number) {
    this.#points = points
    this.#maxDetailBytes = maxDetailBytes
  }

  /** Returns the room for the answers of one request. @param answer counts them */
  room(answer: AnswerRoom | undefined): Room {
    return { detailBytes: this.#maxDetailBytes, answer }
  }

  /**
   * Returns the answer to a query as of the last step; undefined if the search must be repeated.
   *
   * @param found the hits of the search
   */
  *answer(run: Run, found: FoundList, room: Room): Generator<void, Answer | undefined> {
    const { journal } = this.#points.attributes
    const { detailBytes } = room
    for (let attempt = 1; ; attempt += 1) {
      // What the attempt before has read is dropped.
      if (room.detailBytes < detailBytes) take(room, room.detailBytes - detailBytes)
      this.#points.hideExpired()
      // The point that is searched near may have another vector now.
      if (run.near !== -1 && run.touched.now()?.has(run.near) !== false) return undefined
      const isTouched = this.#isTouched(run, found)
      // The usual case: all hits are the answer.
      if (!isTouched && wantsAllFound(run.query)) return this.#copied(run, found)
      const searched = found.hits.list(found.list)
      const hits = isTouched ? this.#settled(run, searched) : searched
      if (hits === undefined) return undefined
      const { position } = journal
      const reading = this.#read(run, this.#cut(run, hits), room)
      // The last attempt runs without a pause, in case points change all the time.
      const answer = attempt < attemptsMax ? yield* reading : finish(reading)
      this.#points.hideExpired()
      // Points can have changed between two steps, and reading a payload can make a change take effect.
      if (journal.position === position) return answer
    }
  }

  /** Whether a change since the search began may concern the hits. */
  #isTouched({ query: { filter }, slots, touched, replacements }: Run, { hits, list }: FoundList): boolean {
    if (touched.isNone) return false
    if (filter !== undefined || this.#points.searches?.index.replacements !== replacements) return true
    return isTouched(hits, list, slots.limit, touched)
  }

  #settled({ query: { filter }, slots, touched }: Run, hits: readonly Hit[]): readonly Hit[] | undefined {
    const { searches, attributes } = this.#points
    if (searches === undefined) return []
    return settledHits({
      ...{ hits, limit: slots.limit, index: searches.index, touched: touched.now() },
      matches: filter && ((slot) => attributes.matches(filter, slot)),
      hitAt: (slot) => searches.hitAt(slot, slots),
    })
  }

  /** Leaves out the point that is searched near, and hits that are too far away. */
  #cut({ query, near }: Run, hits: readonly Hit[]): readonly Hit[] {
    const { metric, limit, maxDistance } = query
    const isIn = ({ slot, distance }: Hit): boolean =>
      slot !== near && (maxDistance === undefined || inUnits(metric, distance) <= maxDistance)
    return hits.filter(isIn).slice(0, limit)
  }

  /** Returns the hits as an answer, in a fraction of the time that an object for each hit would take. */
  #copied(run: Run, { hits, list }: FoundList): Answer {
    const { metric, ranked } = run.query
    const length = hits.lengthOf(list)
    const bytes = new Uint8Array(length * idBytes)
    const distances: number[] = []
    for (let rank = 0; rank < length; rank += 1) {
      this.#points.ids.copyId(hits.slot(list, rank), bytes, rank * idBytes)
      distances.push(inUnits(metric, hits.distance(list, rank)))
    }
    return {
      ids: bytes,
      distances,
      hits: ranked === true ? hits.list(list) : undefined,
      details: undefined,
      ...this.#reportOf(run),
    }
  }

  *#read(run: Run, hits: readonly Hit[], room: Room): Generator<void, Answer> {
    const { query } = run
    const bytes = new Uint8Array(hits.length * idBytes)
    for (const [rank, { slot }] of hits.entries()) this.#points.ids.copyId(slot, bytes, rank * idBytes)
    return {
      ids: bytes,
      distances: hits.map(({ distance }) => inUnits(query.metric, distance)),
      hits: query.ranked === true ? hits : undefined,
      details: yield* this.#details(query, hits, bytes, room),
      ...this.#reportOf(run),
    }
  }

  /** Reports how a query was answered. */
  #reportOf({ query, slots, filterUs }: Run): Pick<Answer, 'profile' | 'plan'> {
    const points = this.#points.searches?.index.liveCount ?? 0
    return {
      profile: query.profile === true ? profileOf({ query, slots, points, filterUs }) : undefined,
      plan: slots.report && planOf(slots.report, slots.matching?.count ?? points, query.filter !== undefined),
    }
  }

  *#details(
    { include }: SearchQuery,
    hits: readonly Hit[],
    ids: Uint8Array,
    room: Room,
  ): Generator<void, readonly HitDetails[] | undefined> {
    if (include === undefined) return undefined
    // An empty collection has no index to read from.
    if (hits.length === 0 || !wantsDetails(include)) return hits.map(() => noDetails)
    const { index } = this.#points.searches!
    const details: HitDetails[] = []
    for (const [rank, { slot }] of hits.entries()) {
      const each = detailsOf(
        {
          payload: () => this.#points.payload(slot, idFromBytes(ids, rank * idBytes)),
          vector: () => index.read(slot),
          version: () => this.#points.versionOf(slot),
        },
        include,
      )
      const bytes = detailBytes(each)
      if (bytes > room.detailBytes) throw this.#tooManyDetails()
      take(room, bytes)
      details.push(each)
      // Changes made meanwhile are in the journal; everything is then read again.
      if (details.length % detailsPerStep === 0) yield
    }
    return details
  }

  #tooManyDetails(): DatabaseError {
    const maxDetailBytes = this.#maxDetailBytes
    return new DatabaseError(
      'request_too_large',
      `what include asks for takes more than ${maxDetailBytes} bytes, the most of one answer (MAX_BUFFERED_BYTES): ask for fewer results or less of each`,
    )
  }
}

/** @throws DatabaseError `overloaded` */
function take(room: Room, bytes: number): void {
  room.answer?.add(bytes)
  room.detailBytes -= bytes
}

/** Whether a query wants all its hits, without details. */
export function wantsAllFound({ vector, maxDistance, include }: SearchQuery): boolean {
  return typeof vector !== 'string' && maxDistance === undefined && include === undefined
}

/** Returns the results of queries that only want ids and distances. */
export function plainResults(
  queries: readonly unknown[],
  { ids, distances, ranks }: FoundIds,
): SearchResults {
  const none = queries.map(() => undefined)
  return { ids, distances, details: none, profiles: none, ...(ranks && { ranks }) }
}

/** Combines the answers to all queries of a request. */
export function packed(answers: readonly Answer[]): SearchResults {
  const bytes = Buffer.concat(answers.map(({ ids }) => ids))
  const distances = new Float64Array(bytes.length / idBytes)
  let end = 0
  const ends = answers.map((answer) => {
    distances.set(answer.distances, end)
    end += answer.distances.length
    return end
  })
  return {
    ids: new IdLists(bytes, ends),
    distances,
    details: answers.map(({ details }) => details),
    profiles: answers.map(({ profile }) => profile),
    plans: answers.map(({ plan }) => plan),
    ...(answers.some(({ hits }) => hits !== undefined) && { ranks: ranksOf(answers, end) }),
  }
}

function ranksOf(answers: readonly Answer[], count: number): Ranks {
  const ranks = emptyRanks(count)
  let at = 0
  for (const { hits = [] } of answers) {
    for (const { distance, sequence } of hits) {
      ranks.keys[at] = distance
      ranks.sequences[at] = sequence
      at += 1
    }
  }
  return ranks
}

/** Runs all steps in one turn. */
export function finish<Result>(work: Iterator<void, Result>): Result {
  for (;;) {
    const step = work.next()
    if (step.done) return step.value
  }
}

const noDetails: HitDetails = {}

/** Reading this many payloads takes a few tenths of a millisecond. */
const detailsPerStep = 64
const attemptsMax = 3

/** Lists of found points. */
export interface FoundIds {
  readonly ids: IdLists
  /** The distance of each id, in the units of its query's metric. */
  readonly distances: Float64Array | readonly number[]
  readonly ranks: Ranks | undefined
}

/**
 * Returns the ids of all hits with their distances, in steps if there are many; undefined if changes made meanwhile
 * touched a list: one of its hits, or any slot if it is not full, because then it should contain every point.
 *
 * @param queries one query for each list of hits
 * @param touched the slots touched since the search began
 */
export function* foundIds(
  hits: HitLists,
  queries: readonly Pick<SearchQuery, 'metric' | 'ranked' | 'limit'>[],
  ids: Pick<IdTable, 'copyId'>,
  touched: TouchedSlots,
): Generator<void, FoundIds | undefined> {
  const { total } = hits
  const bytes = Buffer.allocUnsafe(total * idBytes)
  // For the few hits of one search, an array is created in a fraction of the time of a typed array.
  const distances: number[] = []
  const isRanked = queries.some(({ ranked }) => ranked)
  const ranks = isRanked ? emptyRanks(total) : undefined
  const ends: number[] = []
  let copied = 0
  for (let list = 0; list < hits.length; list += 1) {
    const length = hits.lengthOf(list)
    const { metric, limit } = queries[list]!
    for (let rank = 0; rank < length; rank += 1) {
      ids.copyId(hits.slot(list, rank), bytes, copied * idBytes)
      distances.push(inUnits(metric, hits.distance(list, rank)))
      if (ranks !== undefined) {
        ranks.keys[copied] = hits.distance(list, rank)
        ranks.sequences[copied] = hits.sequence(list, rank)
      }
      copied += 1
      if (copied % idsPerStep === 0) yield
    }
    if (!touched.isNone && isTouched(hits, list, limit, touched)) return undefined
    ends.push(copied)
  }
  return { ids: new IdLists(bytes, ends), distances, ranks }
}

/**
 * Whether changes touched a list of hits, so that it can lack points, or have points that it should not have. Does not
 * notice vectors that were replaced, or points that came to match a filter.
 */
export function isTouched(hits: HitLists, list: number, limit: number, touched: TouchedSlots): boolean {
  const length = hits.lengthOf(list)
  const slots = touched.now()
  if (slots === undefined || length < limit) return true
  for (let rank = 0; rank < length; rank += 1) if (slots.has(hits.slot(list, rank))) return true
  return false
}

export function emptyRanks(count: number): Ranks {
  return { keys: new Float64Array(count), sequences: new Float64Array(count) }
}

/** Converts the index's distance to the units of the metric: the index compares squared Euclidean distances. */
export function inUnits(metric: Metric, distance: number): number {
  return metric === 'Euclidean' ? Math.sqrt(distance) : distance
}

/** Copying this many takes a tenth of a millisecond, because each copy waits for memory. */
const idsPerStep = 512

/** A finished search for one query, and the data needed to update its hits. */
export interface SearchedHits {
  /** Ascending, at most `limit`. */
  readonly hits: readonly Hit[]
  readonly limit: number
  readonly index: VectorIndex
  /** The slots touched since the search began; undefined if they are too many. */
  readonly touched: ReadonlySet<number> | undefined
  /** Whether the point in a slot matches; undefined if all do. */
  readonly matches: ((slot: number) => boolean) | undefined
  /** Returns a live slot as a hit with its exact distance. */
  readonly hitAt: (slot: number) => Hit | undefined
}

/**
 * Updates the hits of a search to the present, in one turn of the event loop. Drops points that were removed, moved to
 * another slot or no longer match, and adds touched points that are now among the nearest.
 *
 * @returns undefined if another search is needed: a full list has lost hits, and the next nearest are unknown, or a
 *   touched point may have displaced a match
 */
export function settledHits(searched: SearchedHits): readonly Hit[] | undefined {
  const { hits, limit, touched } = searched
  if (touched === undefined) return undefined
  // A search for more points than match keeps as many as matched at its start. One that matches only since then can be
  // in the place of another.
  if (hits.length < limit && hits.some(({ slot }) => touched.has(slot))) return undefined
  // A touched slot is measured again, also if it still has a point: a thread may have read the row of another one.
  const kept = hits.filter(({ slot }) => !touched.has(slot))
  const offered = offeredHits(touched, searched)
  if (offered === undefined) return undefined
  if (kept.length === hits.length && offered.length === 0) return hits
  const settled = [...kept, ...offered].sort(inOrder).slice(0, limit)
  // If the list was not full, it contained every match, so no other hits can follow.
  const last = hits.length === limit ? hits.at(-1) : undefined
  if (last === undefined || kept.length === hits.length) return settled
  return settled.length === limit && inOrder(settled.at(-1)!, last) <= 0 ? settled : undefined
}

/** Returns the touched points that match, with their present distances; undefined if they are too many. */
function offeredHits(
  touched: ReadonlySet<number>,
  { index, matches, hitAt }: SearchedHits,
): readonly Hit[] | undefined {
  const offered: Hit[] = []
  for (const slot of touched) {
    if (!index.isLive(slot) || matches?.(slot) === false) continue
    if (offered.length === offeredMax) return undefined
    const hit = hitAt(slot)
    if (hit !== undefined) offered.push(hit)
  }
  return offered
}

function inOrder(a: Hit, b: Hit): number {
  return a.distance - b.distance || a.sequence - b.sequence
}

/** Computing this many distances takes a millisecond or two. */
const offeredMax = 512

/** Describes for an operator how a query was answered. */
export function profileOf({
  query: { filter, ef },
  slots: { matching, report },
  points,
  filterUs,
}: {
  readonly query: SearchQuery
  readonly slots: SlotQuery
  readonly points: number
  readonly filterUs: number
}): Profile {
  const work = report!.work
  const count = matching?.count ?? points
  const { plan, reason } = planOf(report!, count, filter !== undefined)
  return {
    plan,
    reason,
    points,
    matching: count,
    compared: work.compared,
    measured: work.measured,
    ef,
    efMultiplier: plan === 'graph' ? report!.plan!.route!.efMultiplier : 1,
    filterUs: filter === undefined ? 0 : Math.round(filterUs),
    queueUs: Math.max(0, Math.round(report!.elapsedUs - work.microseconds)),
    searchUs: Math.round(work.microseconds),
    recallEstimate: plan === 'graph' ? report!.plan!.recall : (report!.plan?.scanRecall ?? 1),
  }
}

export function planOf(
  { plan, work }: NonNullable<SlotQuery['report']>,
  matching: number,
  isFiltered: boolean,
): SearchPlan {
  if (matching === 0)
    return { plan: 'empty', reason: isFiltered ? 'no point matches' : 'there are no points' }
  const scan = isFiltered ? 'scan of matching points' : 'scan of all points'
  if (plan === undefined) return { plan: scan, reason: 'the points are few' }
  if (isScan(plan))
    return { plan: scan, reason: `${plan.reason}${plan.codeScan === undefined ? '' : byCodes}` }
  if (work.hasGivenUp)
    return {
      plan: scan,
      reason: `a walk through the graph found too few points, or cost as much as the scan${plan.codeScan === undefined ? '' : byCodes}`,
    }
  return { plan: 'graph', reason: plan.reason }
}

const byCodes = '; codes are compared first, and the nearest of them exactly'
