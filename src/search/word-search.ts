import type { AnswerRoom } from '../base/budgets.ts'
import { DatabaseError, invalid } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import { filterKey } from '../base/filter-key.ts'
import type { SearchResults } from '../base/id-lists.ts'
import { idBytes } from '../base/ids.ts'
import type { HitDetails, Include, Profile, SearchQuery, WordCounts, WordStatistics } from '../base/point.ts'
import { atOnce, inTurns } from '../base/turns.ts'
import { Hits } from '../index/hits.ts'
import {
  type Candidate,
  fused,
  LegSearch,
  type LegSearchOptions,
  type Legs,
  legSizeOf,
  type Scored,
  withStep,
} from './leg-search.ts'
import { TouchedSlots } from './one-moment.ts'
import {
  cursorAt,
  hitAt,
  type PageOwner,
  type Pinned,
  type PinnedPages,
  pageOwnerOf,
} from './pinned-pages.ts'
import type { Run, SearchedPoints, SearchedWords } from './query-planner.ts'
import { SearchAnswers } from './search-answers.ts'

interface WordSearchOptions extends LegSearchOptions {
  readonly maxDetailBytes: number
  readonly pages: PinnedPages
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
 *                 │ meanwhile               └───────────── in one turn: nothing changes between ─────────┘
 *                 └ again in that turn if anything has changed
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
  readonly #legs: LegSearch
  /** What was found for the `shared` of a query, as of a position of the journal. */
  readonly #shared = new WeakMap<object, { readonly legs: Legs<Candidate>; readonly position: number }>()

  constructor(options: WordSearchOptions) {
    this.#options = options
    this.#points = options.points
    this.#legs = new LegSearch(options)
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
      return await this.#ranked(await this.#withStatistics(query, signal), owner, signal, room)
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
      const languages = asked.words!.statistics?.languages
      const startMs = performance.now()
      const results =
        scored.pinned === undefined
          ? await this.#answer(asked, candidates.slice(0, asked.limit), languages, position, room, isLast)
          : await this.#page(asked, scored.pinned, room)
      if (results === undefined) continue
      if (profile === undefined) return results
      return { ...results, profiles: [withStep(profile, 'page', results.ids.total, startMs)] }
    }
  }

  /** Counts what a query wants counted in other points than all. If none of them has words, all points count. */
  async #withStatistics(query: SearchQuery, signal: AbortSignal | undefined): Promise<SearchQuery> {
    const { text, population } = query.words!
    if (population === undefined) return query
    const statistics = await statisticsOf(this.#points.words!, text, (terms) =>
      this.counts(terms, population, signal),
    )
    return statistics.documents === 0 ? query : { ...query, words: { ...query.words!, statistics } }
  }

  /** Counts the words of the points that match. */
  async counts(terms: readonly string[], filter: Filter, signal?: AbortSignal): Promise<WordCounts> {
    const { attributes, words } = this.#points
    const named = await inTurns(filterKey(filter))
    return await inTurns(
      (function* () {
        const slots = yield* attributes.matching(filter)
        // A change of any point can be one of what matches.
        const key = `${named} ${slots.position ?? attributes.journal.position}`
        return yield* words!.countsWithin(terms, key, slots)
      })(),
      signal,
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
      const wanted = { size: query.limit, answered: Number.POSITIVE_INFINITY, own, isLast, signal }
      const legs = await this.#legs.find(query, wanted, (legs, profile) => {
        const bytes = Buffer.alloc(legs.found.length * idBytes)
        for (const [index, { slot }] of legs.found.entries()) ids.copyId(slot, bytes, index * idBytes)
        return { ...legs, ids: bytes, profile }
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
      const profile = work && withStep(work, 'fusion', candidates.length, startMs)
      const { position } = journal
      if (shared !== undefined) this.#shared.set(shared, { legs, position })
      if (query.cursor === undefined) return { candidates, position, profile }
      const { ids } = this.#points
      const copyId = ({ slot }: Candidate, target: Uint8Array, at: number): void =>
        ids.copyId(slot, target, at)
      const { languages } = query.words!.statistics ?? {}
      const pinned = this.#options.pages.pin(candidates, languages, copyId, owner)
      return { candidates, position, profile, pinned }
    }
    if (shared !== undefined) {
      this.#points.hideExpired()
      const known = this.#shared.get(shared)
      if (known?.position === journal.position) return rank(known.legs)
    }
    // Others look at all candidates.
    const isPlain = query.cursor === undefined && shared === undefined && query.profile !== true
    const answered = isPlain ? query.limit : Number.POSITIVE_INFINITY
    const wanted = { size: legSizeOf(query), answered, own: -1, isLast, signal }
    return await this.#legs.find(query, wanted, rank)
  }

  /**
   * Reads the details of hits; undefined if one of them has changed since a position of the journal.
   *
   * @param languages see `PinnedHits`
   */
  async #answer(
    query: SearchQuery,
    candidates: readonly (Candidate & Scored)[],
    languages: readonly number[] | undefined,
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
    const limit = Math.max(1, candidates.length)
    // Full, and without a filter: a change of any other point does not concern the hits.
    const plain = {
      ...query,
      filter: undefined,
      maxDistance: undefined,
      include: include && withHighlighted(include),
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
      include.highlight === true ? this.#points.words!.highlighter(words!.text, languages) : undefined
    const shown: HitDetails[] = []
    for (const [rank, each] of details.entries()) {
      const { score, words } = candidates[rank]!
      // What is shown has been read: it does not matter whether points change meanwhile.
      const details = await highlighted(each, include, find)
      shown.push({ ...details, ...(include.scores === true && { score, words }) })
    }
    return { ...results, details: [shown] }
  }

  /** Answers with the next hits that are still stored. */
  async #page(query: SearchQuery, pinned: Pinned, room: AnswerRoom | undefined): Promise<SearchResults> {
    const { hits, offset } = pinned
    for (let attempt = 1; ; attempt += 1) {
      const candidates: (Candidate & Scored)[] = []
      let at = offset
      for (; at < hits.scores.length && candidates.length < query.limit; at += 1) {
        const { id, ...figures } = hitAt(hits, at)
        const slot = this.#points.ids.find(id)
        if (slot === -1 || !this.#points.canMatch(slot, query.keyFilter)) continue
        candidates.push({ slot, sequence: this.#points.versionOf(slot), ...figures })
      }
      const { position } = this.#points.attributes.journal
      const isLast = attempt >= attemptsMax
      const results = await this.#answer(query, candidates, hits.languages, position, room, isLast)
      if (results === undefined && attempt < pageAttemptsMax) continue
      if (results === undefined) {
        throw new DatabaseError('overloaded', 'points change too fast for this page: try again')
      }
      return { ...results, nextCursors: [cursorAt(pinned, at)] }
    }
  }
}

/** What is read of points: all of the payload where some of it is highlighted. */
export function withHighlighted(include: Include): Include {
  return include.highlight === true ? { ...include, payload: true, attributes: undefined } : include
}

/**
 * What an answer shows of a point.
 *
 * @param details what `withHighlighted` asks for
 * @param find absent: nothing is highlighted
 */
export async function highlighted(
  { payload, ...others }: HitDetails,
  include: Include,
  find: ReturnType<SearchedWords['highlighter']> | undefined,
): Promise<HitDetails> {
  const highlight = payload && find && (await inTurns(find(payload)))
  return {
    ...others,
    payload: include.payload || include.attributes !== undefined ? payload : undefined,
    ...(find && { highlight: highlight ?? [] }),
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

/** What the legs find on a node of a cluster. */
export interface NodeLegs extends Legs {
  /** 16 bytes for each that was found. */
  readonly ids: Buffer
  /** Up to the legs; undefined unless the query wants one. */
  readonly profile: Profile | undefined
}

const noVector = new Float32Array(0)

/** The last attempt runs in one turn. */
const attemptsMax = 3
const pageAttemptsMax = 5
/** Languages decide which terms are counted: the first time can be with those of other points. */
const countsMax = 3
