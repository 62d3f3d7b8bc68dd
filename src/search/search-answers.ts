import type { AnswerRoom } from '../base/byte-budget.ts'
import { DatabaseError } from '../base/errors.ts'
import { IdLists } from '../base/id-lists.ts'
import { idBytes, idFromBytes } from '../base/ids.ts'
import type { SearchQuery } from '../base/point.ts'
import type { Profile } from '../base/profile.ts'
import type { HitDetails, Ranks, SearchPlan, SearchResults } from '../base/search-results.ts'
import type { Hit } from '../index/hit.ts'
import { emptyRanks, type FoundIds, inUnits, isTouched } from './found-ids.ts'
import { detailBytes, detailsOf, wantsDetails } from './hit-details.ts'
import type { HitLists } from './hit-lists.ts'
import { planOf, profileOf } from './search-profile.ts'
import type { Run } from './search-runs.ts'
import type { SearchedPoints } from './searched-points.ts'
import { settledHits } from './settled-hits.ts'

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
