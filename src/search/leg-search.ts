import type { Filter } from '../base/filter.ts'
import { type Metric, nearness, type Profile, pinnedHitsMax, type SearchQuery } from '../base/point.ts'
import { atOnce, inTurns } from '../base/turns.ts'
import type { Hit, Hits } from '../index/hits.ts'
import { scalarDistances } from '../kernels/scalar.ts'
import type {
  MatchingSlots,
  QueryPlanner,
  Run,
  SearchedPoints,
  SearchedWords,
  WordHit,
} from './query-planner.ts'
import { profileOf, SearchAnswers } from './search-answers.ts'

export interface LegSearchOptions {
  readonly points: SearchedPoints
  readonly planner: QueryPlanner
  /** Runs a planned query on any thread. */
  readonly find: (run: Run, signal: AbortSignal | undefined) => Promise<Hits>
  /** Runs one at once. */
  readonly findNow: (run: Run) => Hits
}

/** A point that may be in the answer. */
export interface Candidate extends Leg {
  readonly slot: number
}

interface Work {
  readonly filterUs: number
  readonly startMs: number
  readonly matching: Matching
  readonly legs: Legs
  readonly run: Run | undefined
}

interface LegsWanted {
  /** Of each leg. */
  readonly size: number
  /** How many of the best by both scores are needed: points that cannot be among them may be left out. */
  readonly answered: number
  /** The slot of a point that does not count as the nearest; -1 for none. */
  readonly own: number
  /** Whether to search without a pause. */
  readonly isLast: boolean
  readonly signal: AbortSignal | undefined
}

/** The slots that match the query's filter, and those that the caller's key may see; undefined for all. */
interface Matching {
  readonly slots: MatchingSlots | undefined
  readonly whole: MatchingSlots | undefined
}

/** What the words alone find. */
interface ByWords {
  readonly matching: Matching
  readonly hits: readonly WordHit[]
  /** The best BM25 score; 0 if no point has the words. */
  readonly best: number
}

/** With the distances from the vector of the query. */
interface Measured extends ByWords {
  /** Of the hits. */
  readonly distances: Float64Array
  /** The state that it is of. */
  readonly state: State
}

type State = SearchedWords['state'] & { readonly position: number }

/**
 * Finds the best points by words, and the nearest ones if a query has a vector, too.
 *
 *   filter ─> nearest (threads) ──────────────────┬─> both figures of each, if nothing has changed meanwhile;
 *      └────> best by words, and their distances ─┘   otherwise, the words are searched again first
 *
 * Main thread only.
 */
export class LegSearch {
  readonly #options: LegSearchOptions
  readonly #points: SearchedPoints
  /** Searches of the words by hybrid queries while threads search: under steady writes, all of them are in vain. */
  readonly #early = { pause: 0, left: 0 }

  constructor(options: LegSearchOptions) {
    this.#options = options
    this.#points = options.points
  }

  /**
   * Finds both legs. Returns undefined if a change may concern them.
   *
   * @param use called in the turn as of which they are
   */
  async find<Result>(
    query: SearchQuery,
    wanted: LegsWanted,
    use: (legs: Legs<Candidate>, profile: Profile | undefined) => Result,
  ): Promise<Result | undefined> {
    const { filter, keyFilter } = query
    const { size, own, isLast, signal } = wanted
    const startMs = performance.now()
    if (!isHybrid(query)) {
      for (const each of [filter, keyFilter]) {
        if (each !== undefined) await inTurns(this.#points.attributes.matching(each), signal)
      }
      const filterUs = microsecondsSince(startMs)
      this.#points.hideExpired()
      const { matching, hits, best: bestWords } = this.#byWords(query, size)
      const found = hits.map(({ slot, score }) => ({
        slot,
        sequence: this.#points.versionOf(slot),
        distance: Number.NaN,
        words: score,
      }))
      const legs = { found, bestWords, nearest: 0 }
      return use(legs, this.#profile(query, { filterUs, startMs, matching, legs, run: undefined }))
    }
    const leg: SearchQuery = {
      ...query,
      words: undefined,
      cursor: undefined,
      include: undefined,
      limit: size,
      ef: Math.max(query.ef, size),
    }
    const limit = own === -1 ? 1 : 2
    const best: SearchQuery = { ...leg, filter: keyFilter, limit, ef: query.ef }
    const legs = filter === keyFilter ? [leg] : [leg, best]
    const runs: Run[] = []
    for (const each of legs)
      runs.push(
        isLast
          ? atOnce(this.#options.planner.plan(each))
          : await inTurns(this.#options.planner.plan(each), signal),
      )
    const [run] = runs as [Run]
    const { find, findNow } = this.#options
    const [found, early] = isLast
      ? [runs.map(findNow), undefined]
      : await Promise.all([
          Promise.all(runs.map((each) => find(each, signal))),
          this.#whileThreadsSearch(query, size, run),
        ])
    this.#points.hideExpired()
    const isUsed = early !== undefined && this.#isOf(early.state)
    if (early !== undefined) this.#earlyWas(isUsed)
    const answers = new SearchAnswers(this.#points, 0, 0, undefined)
    for (const [index, run] of runs.entries()) {
      if (run.near !== -1 && run.touched.now()?.has(run.near) !== false) return undefined
      if (answers.isTouched(run, found[index]!, 0)) return undefined
    }
    const { report } = run.planned
    if (report !== undefined) report.elapsedUs = microsecondsSince(startMs) - run.filterUs
    const words = isUsed ? early : this.#measured(query, size, run)
    const both = this.#together(query, run, found, words, wanted)
    const { matching } = words
    return use(both, this.#profile(query, { filterUs: run.filterUs, startMs, matching, legs: both, run }))
  }

  /** Describes the steps up to the legs, for a query that wants to know. @param run of the leg by vector */
  #profile(query: SearchQuery, { filterUs, startMs, matching, legs, run }: Work): Profile | undefined {
    if (query.profile !== true) return undefined
    const { filter, ef } = query
    const points = this.#points.ids.size
    const count = matching.slots?.count ?? points
    const us = Math.max(0, microsecondsSince(startMs) - Math.round(filterUs))
    const found = { step: 'legs', points: legs.found.length, us }
    const filtered = { step: 'filter', points: count, us: Math.round(filterUs) }
    const steps = filter === undefined ? [found] : [filtered, found]
    if (run !== undefined) return { ...profileOf(run.query, run.planned, points, run.filterUs), steps }
    return {
      plan: count === 0 ? 'empty' : filter === undefined ? 'scan of all points' : 'scan of matching points',
      reason: 'the index of words finds the best of them',
      points,
      matching: count,
      ...{ compared: 0, measured: 0, ef, efMultiplier: 1 },
      ...{ filterUs: filter === undefined ? 0 : Math.round(filterUs), queueUs: 0, searchUs: us },
      steps,
    }
  }

  #matchingNow({ filter, keyFilter }: SearchQuery): Matching {
    const matching = (each: Filter | undefined): MatchingSlots | undefined =>
      each && atOnce(this.#points.attributes.matching(each))
    const slots = matching(filter)
    return { slots, whole: filter === keyFilter ? slots : matching(keyFilter) }
  }

  #byWords(query: SearchQuery, size: number): ByWords {
    const words = this.#points.words!
    const matching = this.#matchingNow(query)
    const { slots, whole } = matching
    const hits = words.search(query.words!, size, slots)
    const best = slots === whole ? hits[0] : words.search(query.words!, 1, whole)[0]
    return { matching, hits, best: best?.score ?? 0 }
  }

  /** Searches the words early, unless that was in vain the last times. */
  async #whileThreadsSearch(query: SearchQuery, size: number, run: Run): Promise<Measured | undefined> {
    if (this.#early.left === 0) return this.#measured(query, size, run)
    this.#early.left -= 1
    return undefined
  }

  /** Notes whether an early search was of use. Each in vain doubles how many are then left out. */
  #earlyWas(isUsed: boolean): void {
    this.#early.pause = isUsed ? 0 : Math.min(earlyPauseMax, Math.max(1, 2 * this.#early.pause))
    this.#early.left = this.#early.pause
  }

  #measured(query: SearchQuery, size: number, run: Run): Measured {
    const found = this.#byWords(query, size)
    return { ...found, distances: this.#distances(run, found.hits), state: this.#state }
  }

  /** While it stays the same, the words find the same, at the same distances. */
  get #state(): State {
    const { attributes, words } = this.#points
    return { position: attributes.journal.position, ...words!.state }
  }

  #isOf({ position, of, changes }: State): boolean {
    const now = this.#state
    return position === now.position && of === now.of && changes === now.changes
  }

  /** Measured by their definition, so that a distance is the same whichever leg has found the point. */
  #distances(
    { planned: { metric, vector } }: Run,
    points: readonly { readonly slot: number }[],
  ): Float64Array {
    const { searches } = this.#points
    if (searches === undefined) return new Float64Array(points.length)
    return scalarDistances(
      metric,
      vector,
      points.map(({ slot }) => searches.index.view(slot)),
    )
  }

  /** Returns the best of both legs, with the figures of both. */
  #together(
    query: SearchQuery,
    run: Run,
    [near, nearest = near]: readonly Hits[],
    { hits, best: bestWords, distances }: Measured,
    { size, own, answered }: LegsWanted,
  ): Legs<Candidate> {
    if (this.#points.searches === undefined) return { found: [], bestWords: 0, nearest: 0 }
    const { words: wanted, metric } = query
    const found: Candidate[] = []
    const add = (slot: number, words: number, distance: number): void => {
      if (slot !== run.near) found.push({ slot, sequence: this.#points.versionOf(slot), distance, words })
    }
    for (const [at, { slot, score }] of hits.entries()) add(slot, score, distances[at]!)
    const known = new Set(hits.map(({ slot }) => slot)).add(run.near)
    const counted = [...listOf(near!), ...(nearest === near ? [] : listOf(nearest!))].filter(
      ({ slot }) => slot !== run.near && slot !== own,
    )
    const least = counted.reduce((least, { distance }) => Math.min(least, distance), far)
    const first = counted.filter(({ distance }) => distance <= least + (Math.abs(least) + 1) * kernelError)
    const legs = {
      found,
      bestWords,
      nearest: this.#distances(run, first).reduce(
        (most, distance) => Math.max(most, nearness(metric, inUnits(metric, distance))),
        0,
      ),
    }
    let others: readonly Hit[] = listOf(near!).filter(({ slot }) => !known.has(slot))
    // Whatever has one of the words is then among the hits.
    const areAll = hits.length < Math.min(size, pinnedHitsMax)
    const wordsMax = areAll ? 0 : hits.at(-1)!.score
    if (answered < hits.length + others.length)
      others = contenders(query, legs, others, { wordsMax, limit: answered })
    const slots = Uint32Array.from(others, ({ slot }) => slot)
    const scores = areAll ? undefined : this.#points.words!.scores(wanted!, slots)
    const measured = this.#distances(run, others)
    for (const [at, slot] of slots.entries()) add(slot, scores?.[at] ?? 0, measured[at]!)
    return legs
  }
}

/** Adds a step that began at a time to a profile. */
export function withStep(profile: Profile, step: string, points: number, startMs: number): Profile {
  const us = Math.max(0, microsecondsSince(startMs))
  return { ...profile, steps: [...(profile.steps ?? []), { step, points, us }] }
}

function microsecondsSince(startMs: number): number {
  return Math.round((performance.now() - startMs) * 1000)
}

/** The only list of some hits; empty if nothing was searched. */
function listOf(hits: Hits): readonly Hit[] {
  return hits.length === 0 ? [] : hits.list(0)
}

const far = Number.POSITIVE_INFINITY

/** Then the searches in vain cost a few percent at most, and a pause in the writes is noticed within as many queries. */
const earlyPauseMax = 32

/**
 * The legs of a search by words, and how both make a score. A node of a cluster finds the legs among its points, and
 * the asking node joins them.
 */

/** A point that one of the legs has found, with the figures of both. */
export interface Leg {
  readonly sequence: number
  /** As the index computes it; NaN without a vector. */
  readonly distance: number
  /** The BM25 score. */
  readonly words: number
}

export interface Scored extends Leg {
  readonly score: number
}

/** What both legs have found. Scores are relative to the best of all points that the caller's key may see. */
export interface Legs<Found extends Leg = Leg> {
  readonly found: readonly Found[]
  /** The best BM25 score; 0 if no point has the words. */
  readonly bestWords: number
  /** The greatest nearness that is not known from `found`. */
  readonly nearest: number
}

/** Returns how many points each leg of a query finds. */
export function legSizeOf({ cursor, limit }: Pick<SearchQuery, 'cursor' | 'limit'>): number {
  return Math.max(limit, cursor === undefined ? candidatesMin : pinnedHitsMax)
}

/** Whether a query has a vector beside its words. */
export function isHybrid({ vector }: Pick<SearchQuery, 'vector'>): boolean {
  return typeof vector === 'string' || vector.length > 0
}

/** Scores what the legs have found: the best first, and the first inserted of equal scores. */
export function fused<Found extends Leg>(query: SearchQuery, legs: Legs<Found>): (Found & Scored)[] {
  const scoreOf = scorer(query, legs)
  const scored: (Found & Scored)[] = []
  for (const each of legs.found) {
    const score = scoreOf(each.distance, each.words)
    if (score >= 0) scored.push({ ...each, score })
  }
  return scored.sort(byScore)
}

/** Returns a function that scores a point; -1 if it is too far away. */
function scorer(query: SearchQuery, legs: Legs): (distance: number, words: number) => number {
  const { metric, maxDistance = Number.POSITIVE_INFINITY } = query
  const { bestWords } = legs
  const { balance } = query.words!
  const byWords = (words: number): number => (bestWords === 0 ? 0 : words / bestWords)
  if (!isHybrid(query)) return (_, words) => byWords(words)
  const best = greatestNearness(metric, legs)
  return (distance, words) => {
    const inMetric = inUnits(metric, distance)
    if (inMetric > maxDistance) return -1
    const byNearness = best === 0 ? 0 : nearness(metric, inMetric) / best
    return balance * byNearness + (1 - balance) * byWords(words)
  }
}

function greatestNearness(metric: Metric, { found, nearest }: Legs): number {
  let most = nearest
  for (const { distance } of found) most = Math.max(most, nearness(metric, inUnits(metric, distance)))
  return most
}

/**
 * Returns those of some points, whose BM25 is not known, that can be among the best `limit` of all candidates.
 *
 * @param legs all others; `nearest` is of these points, too
 * @param points with the distances of kernels
 * @param wordsMax no BM25 score of these points is greater
 */
export function contenders<Point extends Pick<Leg, 'distance'>>(
  query: SearchQuery,
  legs: Legs,
  points: readonly Point[],
  { wordsMax, limit }: { readonly wordsMax: number; readonly limit: number },
): readonly Point[] {
  const { metric, maxDistance } = query
  const scoreOf = scorer(query, legs)
  const scores = legs.found.map(({ distance, words }) => scoreOf(distance, words))
  // Which points are too far away is not certain.
  const mostOf = maxDistance === undefined ? scoreOf : scorer({ ...query, maxDistance: undefined }, legs)
  if (maxDistance === undefined) for (const { distance } of points) scores.push(scoreOf(distance, 0))
  if (scores.length < limit) return points
  const error = kernelError * (1 + 1 / greatestNearness(metric, legs))
  const needed = Float64Array.from(scores).sort()[scores.length - limit]! - 2 * error
  return points.filter(({ distance }) => mostOf(distance, wordsMax) >= needed)
}

/** Much more than the rounding of kernels, which add in another order than the definition of a distance. */
const kernelError = 1e-9

function byScore(a: Scored, b: Scored): number {
  return b.score - a.score || a.sequence - b.sequence
}

/** Returns a distance in the units of its metric, given one of the index. */
export function inUnits(metric: Metric, distance: number): number {
  return metric === 'Euclidean' ? Math.sqrt(distance) : distance
}

/** The best of each leg that are scored by both. More change the first ten hits of hardly any query. */
const candidatesMin = 100
