import { randomBytes } from 'node:crypto'
import type { AnswerRoom } from '../base/budgets.ts'
import { DatabaseError, invalid } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import { filterKey } from '../base/filter-key.ts'
import { idBytes, idFromBytes } from '../base/ids.ts'
import type { HitDetails, SearchResults } from '../base/point.ts'
import { type Include, type Metric, nearness, pinnedHitsMax, type SearchQuery } from '../base/point.ts'
import { atOnce, inTurns } from '../base/turns.ts'
import { Hits } from '../index/hits.ts'
import { scalarDistance } from '../kernels/scalar.ts'
import { TouchedSlots } from './one-moment.ts'
import type { MatchingSlots, QueryPlanner, Run, SearchedPoints } from './query-planner.ts'
import { SearchAnswers } from './search-answers.ts'

interface WordSearchOptions {
  readonly points: SearchedPoints
  readonly planner: QueryPlanner
  readonly maxDetailBytes: number
  /** Runs planned queries on any threads. */
  readonly find: (runs: readonly Run[], signal: AbortSignal | undefined) => Promise<Hits>
  /** Runs one at once. */
  readonly findNow: (run: Run) => Hits
}

/** A point that may be in the answer. */
interface Candidate {
  readonly slot: number
  readonly sequence: number
  /** As the index computes it; NaN without a vector. */
  readonly distance: number
  /** The BM25 score. */
  readonly words: number
  readonly score: number
}

/** The slots that match the query's filter, and those that the caller's key may see; undefined for all. */
interface Matching {
  readonly slots: MatchingSlots | undefined
  readonly whole: MatchingSlots | undefined
}

/** Candidates by score, as of a position of the journal. */
interface Scored {
  readonly candidates: readonly Candidate[]
  readonly position: number
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
  readonly #pages = new PinnedPages()

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
    const { cursor, keyFilter } = query
    const owner = keyFilter === undefined ? '' : await inTurns(filterKey(keyFilter))
    if (cursor !== undefined && cursor !== '') {
      return await this.#page(query, this.#pages.find(cursor, owner), room)
    }
    for (let attempt = 1; ; attempt += 1) {
      const scored = await this.#scored(query, owner, attempt >= attemptsMax, signal)
      if (scored === undefined) continue
      if (scored.pinned !== undefined) return await this.#page(query, scored.pinned, room)
      const { candidates, position } = scored
      const isLast = attempt >= attemptsMax
      const results = await this.#answer(query, candidates.slice(0, query.limit), position, room, isLast)
      if (results !== undefined) return results
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
    owner: string,
    isLast: boolean,
    signal: AbortSignal | undefined,
  ): Promise<Scored | undefined> {
    const { filter, keyFilter, cursor } = query
    const hasVector = typeof query.vector === 'string' || query.vector.length > 0
    const room = cursor === undefined ? candidatesMin : pinnedHitsMax
    const size = Math.max(query.limit, room)
    if (!hasVector) {
      for (const each of [filter, keyFilter]) {
        if (each !== undefined) await inTurns(this.#points.attributes.matching(each))
      }
      this.#points.hideExpired()
      return this.#kept(query, owner, this.#byWords(query, size, this.#matchingNow(query)))
    }
    const leg: SearchQuery = {
      ...query,
      words: undefined,
      cursor: undefined,
      include: undefined,
      limit: size,
      ef: Math.max(query.ef, size),
    }
    const best: SearchQuery = { ...leg, filter: keyFilter, limit: 1, ef: query.ef }
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
    return this.#kept(query, owner, this.#together(query, runs[0]!, found, size, this.#matchingNow(query)))
  }

  #matchingNow({ filter, keyFilter }: SearchQuery): Matching {
    const matching = (each: Filter | undefined): MatchingSlots | undefined =>
      each && atOnce(this.#points.attributes.matching(each))
    const slots = matching(filter)
    return { slots, whole: filter === keyFilter ? slots : matching(keyFilter) }
  }

  /** Notes of which moment the candidates are, in their turn. */
  #kept({ cursor }: SearchQuery, owner: string, candidates: readonly Candidate[]): Scored {
    const { position } = this.#points.attributes.journal
    if (cursor === undefined) return { candidates, position }
    const hits = pinnedHits(candidates.slice(0, pinnedHitsMax), this.#points)
    return { candidates, position, pinned: { token: this.#pages.add(hits, owner), hits, offset: 0 } }
  }

  /** Returns a list of hits for each run. */
  async #find(runs: readonly Run[], signal: AbortSignal | undefined): Promise<readonly Hits[]> {
    const found: Hits[] = []
    for (const run of runs) found.push(await this.#options.find([run], signal))
    return found
  }

  #byWords({ words }: SearchQuery, size: number, { slots, whole }: Matching): Candidate[] {
    const hits = this.#points.words!.search(words!, size, slots)
    const best = slots === whole ? hits[0] : this.#points.words!.search(words!, 1, whole)[0]
    return hits.map(({ slot, score }) => ({
      slot,
      sequence: this.#points.versionOf(slot),
      distance: Number.NaN,
      words: score,
      score: score / best!.score,
    }))
  }

  /** Scores the best of both legs. */
  #together(
    { words: wanted, metric, maxDistance }: SearchQuery,
    run: Run,
    [near, nearest = near]: readonly Hits[],
    size: number,
    { slots: matching, whole }: Matching,
  ): Candidate[] {
    const words = this.#points.words!
    const { searches } = this.#points
    if (searches === undefined) return []
    const { balance } = wanted!
    const byWords = words.search(wanted!, size, matching)
    const bestWords = (matching === whole ? byWords[0] : words.search(wanted!, 1, whole)[0])?.score ?? 0
    const slots = new Set(byWords.map(({ slot }) => slot))
    for (const { slot } of near!.length === 0 ? [] : near!.list(0)) slots.add(slot)
    slots.delete(run.near)
    const all = Uint32Array.from(slots).sort()
    const wordScores = words.scores(wanted!, all)
    const { vector } = run.planned
    // Measured again, so that a distance is the same whichever leg has found the point.
    const distanceOf = (slot: number): number => scalarDistance(metric, vector, searches.index.read(slot))
    const distances = Float64Array.from(all, distanceOf)
    let bestNear = distances.reduce(
      (sum, distance) => Math.max(sum, nearness(metric, inUnits(metric, distance))),
      0,
    )
    for (const { slot } of nearest!.length === 0 ? [] : nearest!.list(0)) {
      if (slot !== run.near)
        bestNear = Math.max(bestNear, nearness(metric, inUnits(metric, distanceOf(slot))))
    }
    const candidates: Candidate[] = []
    for (const [index, slot] of all.entries()) {
      const distance = distances[index]!
      if (maxDistance !== undefined && inUnits(metric, distance) > maxDistance) continue
      const byNearness = bestNear === 0 ? 0 : nearness(metric, inUnits(metric, distance)) / bestNear
      const byWords = bestWords === 0 ? 0 : wordScores[index]! / bestWords
      candidates.push({
        slot,
        sequence: this.#points.versionOf(slot),
        distance,
        words: wordScores[index]!,
        score: balance * byNearness + (1 - balance) * byWords,
      })
    }
    return candidates.sort((a, b) => b.score - a.score || a.sequence - b.sequence)
  }

  /** Reads the details of hits; undefined if one of them has changed since a position of the journal. */
  async #answer(
    query: SearchQuery,
    candidates: readonly Candidate[],
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
    const shown = details.map((each, rank) => this.#detailsOf(each, candidates[rank]!, include, words!.text))
    return { ...results, details: [shown] }
  }

  #detailsOf(
    details: HitDetails,
    { score, words }: Pick<Candidate, 'score' | 'words'>,
    include: Include,
    text: string,
  ): HitDetails {
    const { payload } = details
    return {
      ...details,
      payload: include.payload || include.attributes !== undefined ? payload : undefined,
      ...(include.scores === true && { score, words }),
      ...(include.highlight === true && {
        highlight: payload === undefined ? [] : this.#points.words!.highlights(text, payload),
      }),
    }
  }

  /** Answers with the next hits that are still stored. */
  async #page(
    query: SearchQuery,
    { token, hits, offset }: Pinned,
    room: AnswerRoom | undefined,
  ): Promise<SearchResults> {
    for (let attempt = 1; ; attempt += 1) {
      const candidates: Candidate[] = []
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

function inUnits(metric: Metric, distance: number): number {
  return metric === 'Euclidean' ? Math.sqrt(distance) : distance
}

/** The hits of all pages of a search, as of its first page. */
interface PinnedHits {
  /** 16 bytes each. */
  readonly ids: Buffer
  readonly scores: Float64Array
  readonly words: Float64Array
  readonly distances: Float64Array
}

interface Pinned {
  readonly token: string
  readonly hits: PinnedHits
  readonly offset: number
}

function pinnedHits(candidates: readonly Candidate[], { ids }: SearchedPoints): PinnedHits {
  const bytes = Buffer.alloc(candidates.length * idBytes)
  for (const [index, { slot }] of candidates.entries()) ids.copyId(slot, bytes, index * idBytes)
  return {
    ids: bytes,
    scores: Float64Array.from(candidates, ({ score }) => score),
    words: Float64Array.from(candidates, ({ words }) => words),
    distances: Float64Array.from(candidates, ({ distance }) => distance),
  }
}

/**
 * The searches whose pages are being read: no page repeats or loses a hit while points change. Each has an owner, the
 * key of the filter of the caller's key: for others it does not exist.
 */
class PinnedPages {
  /** By token, the least recently used first. */
  readonly #pinned = new Map<
    string,
    { readonly hits: PinnedHits; readonly owner: string; readonly untilMs: number }
  >()

  add(hits: PinnedHits, owner: string): string {
    const token = randomBytes(12).toString('base64url')
    this.#pinned.set(token, { hits, owner, untilMs: performance.now() + pageLifeMs })
    if (this.#pinned.size > searchesMax) this.#pinned.delete(this.#pinned.keys().next().value!)
    return token
  }

  /** @throws DatabaseError `invalid_argument`, or `cursor_expired` */
  find(cursor: string, owner: string): Pinned {
    const [, token, at] = /^([\w-]{16})\.(\d{1,4})$/.exec(cursor) ?? []
    if (token === undefined) throw invalid('cursor is not one of an answer, and not empty for the first page')
    const known = this.#pinned.get(token)
    const hasExpired = known !== undefined && known.untilMs < performance.now()
    if (known === undefined || hasExpired || known.owner !== owner) {
      if (hasExpired) this.#pinned.delete(token)
      const life = `the hits of a search are kept for ${pageLifeMs / 60_000} minutes after its first page`
      throw new DatabaseError(
        'cursor_expired',
        `cursor has expired: ${life}, of the last ${searchesMax} searches`,
      )
    }
    this.#pinned.delete(token)
    this.#pinned.set(token, known)
    return { token, hits: known.hits, offset: Number(at) }
  }
}

const noVector = new Float32Array(0)

/** The best of each leg that are scored by both. More change the first ten hits of hardly any query. */
const candidatesMin = 100
/** The last attempt runs in one turn. */
const attemptsMax = 3
const pageAttemptsMax = 5
/** One search keeps at most 40 KB. */
const searchesMax = 256
const pageLifeMs = 300_000
