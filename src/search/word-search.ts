import type { AnswerRoom } from '../base/budgets.ts'
import { DatabaseError, invalid } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import { filterKey } from '../base/filter-key.ts'
import { idBytes, idFromBytes } from '../base/ids.ts'
import type { HitDetails, Profile, SearchResults, WordCounts, WordStatistics } from '../base/point.ts'
import { nearness, pinnedHitsMax, type SearchQuery } from '../base/point.ts'
import { atOnce, inTurns } from '../base/turns.ts'
import { Hits } from '../index/hits.ts'
import { scalarDistance } from '../kernels/scalar.ts'
import { TouchedSlots } from './one-moment.ts'
import { type PageOwner, type Pinned, type PinnedPages, pageOwnerOf, pinnedHits } from './pinned-pages.ts'
import type { MatchingSlots, QueryPlanner, Run, SearchedPoints, SearchedWords } from './query-planner.ts'
import { profileOf, SearchAnswers } from './search-answers.ts'
import { fused, inUnits, isHybrid, type Leg, type Legs, legSizeOf, type Scored } from './word-legs.ts'

interface WordSearchOptions {
  readonly points: SearchedPoints
  readonly planner: QueryPlanner
  readonly maxDetailBytes: number
  /** Runs planned queries on any threads. */
  readonly find: (runs: readonly Run[], signal: AbortSignal | undefined) => Promise<Hits>
  /** Runs one at once. */
  readonly findNow: (run: Run) => Hits
  readonly pages: PinnedPages
}

/** A point that may be in the answer. */
interface Candidate extends Leg {
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

/** Candidates by score, as of a position of the journal. */
interface Ranked {
  readonly candidates: readonly (Candidate & Scored)[]
  readonly position: number
  /** Undefined unless the query wants one. */
  readonly profile: Profile | undefined
  /** The first page, if the query has pages. */
  readonly pinned?: Pinned
}

/**
 * Searches that rank by words, alone or together with a vector.
 *
 *   filter ─> best by vector (threads) ─┐
 *      └────> best by words ────────────┴─> candidates ─> both scores of each, exactly ─> score ─> page ─> details
 *                                           └───────────── in one turn: nothing changes between ─────────┘
 *
 * The score of a point does not depend on limit, page or filter: each leg is divided by the best of the whole
 * collection, or of the points that the caller's key may see: BM25 for words, 1 + cosine or 1 / (1 + distance) for
 * vectors.
 *
 * Main thread only.
 */
export class WordSearch {
  readonly #options: WordSearchOptions
  readonly #points: SearchedPoints
  /** What was found for the `shared` of a query, as of a position of the journal. */
  readonly #shared = new WeakMap<object, { readonly legs: Legs<Candidate>; readonly position: number }>()

  constructor(options: WordSearchOptions) {
    this.#options = options
    this.#points = options.points
  }

  /** Answers a query that has `words`. */
  async search(
    query: SearchQuery,
    signal: AbortSignal | undefined,
    room: AnswerRoom | undefined,
  ): Promise<SearchResults> {
    const { words } = this.#points
    if (words === undefined) throw invalid('words are not possible here')
    await words.ready()
    const { cursor } = query
    const owner = await pageOwnerOf(query)
    if (cursor !== undefined && cursor !== '') {
      return await this.#page(query, this.#options.pages.find(cursor, owner), room)
    }
    const startMs = performance.now()
    try {
      return await this.#ranked(await this.#withStatistics(query), owner, signal, room)
    } finally {
      words.searched((performance.now() - startMs) / 1000)
    }
  }

  async #ranked(
    asked: SearchQuery,
    owner: PageOwner,
    signal: AbortSignal | undefined,
    room: AnswerRoom | undefined,
  ): Promise<SearchResults> {
    for (let attempt = 1; ; attempt += 1) {
      const scored = await this.#scored(asked, owner, attempt >= attemptsMax, signal)
      if (scored === undefined) continue
      const { candidates, position, profile } = scored
      const isLast = attempt >= attemptsMax
      const startMs = performance.now()
      const results =
        scored.pinned === undefined
          ? await this.#answer(asked, candidates.slice(0, asked.limit), position, room, isLast)
          : await this.#page(asked, scored.pinned, room)
      if (results === undefined) continue
      if (profile === undefined) return results
      const page = { step: 'page', points: results.ids.total, us: microsecondsSince(startMs) }
      return { ...results, profiles: [{ ...profile, steps: [...profile.steps!, page] }] }
    }
  }

  /** Counts what a query wants counted in other points than all. If none of them has words, all points count. */
  async #withStatistics(query: SearchQuery): Promise<SearchQuery> {
    const { text, population } = query.words!
    if (population === undefined) return query
    const statistics = await statisticsOf(this.#points.words!, text, (terms) =>
      this.counts(terms, population),
    )
    return statistics.documents === 0 ? query : { ...query, words: { ...query.words!, statistics } }
  }

  /** Counts the words of the points that match. */
  async counts(terms: readonly string[], filter: Filter): Promise<WordCounts> {
    const { attributes, words } = this.#points
    const named = await inTurns(filterKey(filter))
    return await inTurns(
      (function* () {
        const slots = yield* attributes.matching(filter)
        // A change of any point can be one of what matches.
        const key = `${named} ${slots.position ?? attributes.journal.position}`
        return yield* words!.countsWithin(terms, key, slots)
      })(),
    )
  }

  /**
   * Returns what the legs of a query find here, for another node.
   *
   * @param without the point that the query's vector is of: it is found, but not the nearest
   */
  async legs(
    query: SearchQuery,
    without: string | undefined,
    signal: AbortSignal | undefined,
  ): Promise<NodeLegs> {
    const { words, ids } = this.#points
    if (words === undefined) throw invalid('words are not possible here')
    await words.ready()
    for (let attempt = 1; ; attempt += 1) {
      const own = without === undefined ? -1 : ids.find(without)
      const isLast = attempt >= attemptsMax
      const legs = await this.#legs(query, { size: query.limit, own, isLast, signal }, (legs) => {
        const bytes = Buffer.alloc(legs.found.length * idBytes)
        for (const [index, { slot }] of legs.found.entries()) ids.copyId(slot, bytes, index * idBytes)
        return { ...legs, ids: bytes }
      })
      if (legs !== undefined) return legs
    }
  }

  /**
   * Returns the candidates by score, as of one moment; undefined if a change may concern them.
   *
   * @param owner see `PinnedPages`
   * @param isLast whether to search without a pause
   */
  async #scored(
    query: SearchQuery,
    owner: PageOwner,
    isLast: boolean,
    signal: AbortSignal | undefined,
  ): Promise<Ranked | undefined> {
    const { shared } = query.words!
    const { journal } = this.#points.attributes
    const rank = (legs: Legs<Candidate>, work?: Profile): Ranked => {
      const startMs = performance.now()
      const candidates = fused(query, legs)
      const fusion = { step: 'fusion', points: candidates.length, us: microsecondsSince(startMs) }
      const profile = work && { ...work, steps: [...work.steps!, fusion] }
      const { position } = journal
      if (shared !== undefined) this.#shared.set(shared, { legs, position })
      if (query.cursor === undefined) return { candidates, position, profile }
      const { ids } = this.#points
      const hits = pinnedHits(candidates.slice(0, pinnedHitsMax), ({ slot }, target, at) =>
        ids.copyId(slot, target, at),
      )
      return {
        candidates,
        position,
        profile,
        pinned: { token: this.#options.pages.add(hits, owner), hits, offset: 0 },
      }
    }
    if (shared !== undefined) {
      this.#points.hideExpired()
      const known = this.#shared.get(shared)
      if (known?.position === journal.position) return rank(known.legs)
    }
    return await this.#legs(query, { size: legSizeOf(query), own: -1, isLast, signal }, rank)
  }

  /**
   * Finds both legs. Returns undefined if a change may concern them.
   *
   * @param use called in the turn as of which they are
   */
  async #legs<Result>(
    query: SearchQuery,
    { size, own, isLast, signal }: LegsWanted,
    use: (legs: Legs<Candidate>, profile: Profile | undefined) => Result,
  ): Promise<Result | undefined> {
    const { filter, keyFilter } = query
    const startMs = performance.now()
    if (!isHybrid(query)) {
      for (const each of [filter, keyFilter]) {
        if (each !== undefined) await inTurns(this.#points.attributes.matching(each))
      }
      const filterUs = microsecondsSince(startMs)
      this.#points.hideExpired()
      const matching = this.#matchingNow(query)
      const legs = this.#byWords(query, size, matching)
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
        isLast ? atOnce(this.#options.planner.plan(each)) : await inTurns(this.#options.planner.plan(each)),
      )
    const found = isLast ? runs.map((run) => this.#options.findNow(run)) : await this.#find(runs, signal)
    this.#points.hideExpired()
    const answers = new SearchAnswers(this.#points, 0, 0, undefined)
    for (const [index, run] of runs.entries()) {
      if (run.near !== -1 && run.touched.now()?.has(run.near) !== false) return undefined
      if (answers.isTouched(run, found[index]!, 0)) return undefined
    }
    const [run] = runs as [Run]
    const { report } = run.planned
    if (report !== undefined) report.elapsedUs = microsecondsSince(startMs) - run.filterUs
    const matching = this.#matchingNow(query)
    const both = this.#together(query, run, found, size, own, matching)
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

  /** Returns a list of hits for each run. */
  async #find(runs: readonly Run[], signal: AbortSignal | undefined): Promise<readonly Hits[]> {
    const found: Hits[] = []
    for (const run of runs) found.push(await this.#options.find([run], signal))
    return found
  }

  #byWords({ words }: SearchQuery, size: number, { slots, whole }: Matching): Legs<Candidate> {
    const hits = this.#points.words!.search(words!, size, slots)
    const best = slots === whole ? hits[0] : this.#points.words!.search(words!, 1, whole)[0]
    const found = hits.map(({ slot, score }) => ({
      slot,
      sequence: this.#points.versionOf(slot),
      distance: Number.NaN,
      words: score,
    }))
    return { found, bestWords: best?.score ?? 0, nearest: 0 }
  }

  /** Returns the best of both legs, with the figures of both. */
  #together(
    { words: wanted, metric }: SearchQuery,
    run: Run,
    [near, nearest = near]: readonly Hits[],
    size: number,
    own: number,
    { slots: matching, whole }: Matching,
  ): Legs<Candidate> {
    const words = this.#points.words!
    const { searches } = this.#points
    if (searches === undefined) return { found: [], bestWords: 0, nearest: 0 }
    const byWords = words.search(wanted!, size, matching)
    const bestWords = (matching === whole ? byWords[0] : words.search(wanted!, 1, whole)[0])?.score ?? 0
    const slots = new Set(byWords.map(({ slot }) => slot))
    for (const { slot } of near!.length === 0 ? [] : near!.list(0)) slots.add(slot)
    slots.delete(run.near)
    const all = Uint32Array.from(slots).sort()
    const wordScores = words.scores(wanted!, all)
    const { vector } = run.planned
    // Measured again, so that a distance is the same whichever leg has found the point.
    const distanceOf = (slot: number): number => scalarDistance(metric, vector, searches.index.view(slot))
    let bestNear = 0
    for (const { slot } of nearest!.length === 0 ? [] : nearest!.list(0)) {
      if (slot !== run.near && slot !== own)
        bestNear = Math.max(bestNear, nearness(metric, inUnits(metric, distanceOf(slot))))
    }
    const found = Array.from(all, (slot, index) => ({
      slot,
      sequence: this.#points.versionOf(slot),
      distance: distanceOf(slot),
      words: wordScores[index]!,
    }))
    return { found, bestWords, nearest: bestNear }
  }

  /** Reads the details of hits; undefined if one of them has changed since a position of the journal. */
  async #answer(
    query: SearchQuery,
    candidates: readonly (Candidate & Scored)[],
    position: number,
    room: AnswerRoom | undefined,
    isLast: boolean,
  ): Promise<SearchResults | undefined> {
    const { include, words, metric } = query
    const { searches, attributes } = this.#points
    const hits = new Hits(
      [candidates.length],
      {
        slots: Uint32Array.from(candidates, ({ slot }) => slot),
        sequences: Float64Array.from(candidates, ({ sequence }) => sequence),
        distances: Float64Array.from(candidates, ({ distance }) => distance),
      },
      [candidates.length],
    )
    const read = include?.highlight === true ? { ...include, payload: true, attributes: undefined } : include
    const limit = Math.max(1, candidates.length)
    // Full, and without a filter: a change of any other point does not concern the hits.
    const plain = {
      ...query,
      filter: undefined,
      maxDistance: undefined,
      include: read,
      limit,
      profile: false,
      vector: noVector,
    }
    const run: Run = {
      query: plain,
      planned: { vector: noVector, metric, limit: candidates.length, ef: limit },
      near: -1,
      touched: new TouchedSlots(attributes.journal, position),
      replacements: searches?.index.replacements ?? 0,
      filterUs: 0,
    }
    const answers = new SearchAnswers(this.#points, candidates.length, this.#options.maxDetailBytes, room)
    const adding = answers.add(run, hits, 0)
    if (!(isLast ? atOnce(adding) : await inTurns(adding))) return undefined
    const results = answers.results()
    if (include === undefined) return results
    const [details = []] = results.details
    const find =
      include.highlight === true
        ? this.#points.words!.highlighter(words!.text, words!.statistics?.languages)
        : undefined
    const shown: HitDetails[] = []
    for (const [rank, each] of details.entries()) {
      const { payload } = each
      const { score, words } = candidates[rank]!
      // What is shown has been read: it does not matter whether points change meanwhile.
      const highlight = payload && find && (await inTurns(find(payload)))
      shown.push({
        ...each,
        payload: include.payload || include.attributes !== undefined ? payload : undefined,
        ...(include.scores === true && { score, words }),
        ...(find && { highlight: highlight ?? [] }),
      })
    }
    return { ...results, details: [shown] }
  }

  /** Answers with the next hits that are still stored. */
  async #page(
    query: SearchQuery,
    { token, hits, offset }: Pinned,
    room: AnswerRoom | undefined,
  ): Promise<SearchResults> {
    for (let attempt = 1; ; attempt += 1) {
      const candidates: (Candidate & Scored)[] = []
      let at = offset
      for (; at < hits.scores.length && candidates.length < query.limit; at += 1) {
        const slot = this.#points.ids.find(idFromBytes(hits.ids, at * idBytes))
        if (slot === -1 || !this.#points.canMatch(slot, query.keyFilter)) continue
        candidates.push({
          slot,
          sequence: this.#points.versionOf(slot),
          distance: hits.distances[at]!,
          words: hits.words[at]!,
          score: hits.scores[at]!,
        })
      }
      const { position } = this.#points.attributes.journal
      const results = await this.#answer(query, candidates, position, room, attempt >= attemptsMax)
      if (results === undefined && attempt < pageAttemptsMax) continue
      if (results === undefined) {
        throw new DatabaseError('overloaded', 'points change too fast for this page: try again')
      }
      const nextCursors = [at < hits.scores.length ? `${token}.${at}` : undefined]
      return { ...results, nextCursors }
    }
  }
}

/** Returns the statistics of some points, and the terms of a text, which depend on their languages. */
export async function statisticsOf(
  words: Pick<SearchedWords, 'wanted'>,
  text: string,
  count: (terms: readonly string[]) => Promise<WordCounts>,
): Promise<WordStatistics> {
  let wanted = words.wanted(text)
  for (let attempt = 1; ; attempt += 1) {
    const asked = wanted.map(([term]) => term)
    const counts = await count(asked)
    wanted = words.wanted(text, counts.languages)
    const known = new Map(asked.map((term, at) => [term, counts.terms[at]!]))
    if (attempt < countsMax && wanted.some(([term]) => !known.has(term))) continue
    wanted = wanted.filter(([term]) => known.has(term))
    return { ...counts, wanted, terms: wanted.map(([term]) => known.get(term)!) }
  }
}

function microsecondsSince(startMs: number): number {
  return Math.round((performance.now() - startMs) * 1000)
}

/** What the legs find on a node of a cluster. */
export interface NodeLegs extends Legs {
  /** 16 bytes for each that was found. */
  readonly ids: Buffer
}

const noVector = new Float32Array(0)

/** The last attempt runs in one turn. */
const attemptsMax = 3
const pageAttemptsMax = 5
/** Languages decide which terms are counted: the first time can be with those of other points. */
const countsMax = 3
