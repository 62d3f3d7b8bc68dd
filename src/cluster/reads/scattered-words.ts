import { wordsText } from '../../base/collection.ts'
import type { Filter } from '../../base/filter.ts'
import { onlyIds } from '../../base/filter-builder.ts'
import { IdLists, type SearchResults } from '../../base/id-lists.ts'
import { idBytes, idFromBytes, idToBytes } from '../../base/ids.ts'
import { both } from '../../base/key-filter.ts'
import type {
  HitDetails,
  Include,
  Profile,
  SearchQuery,
  WordCounts,
  WordQuery,
  WordStatistics,
} from '../../base/point.ts'
import type { Collection } from '../../collections/collection.ts'
import type { ReadCall } from '../../points/database.ts'
import {
  fused,
  inUnits,
  isHybrid,
  type Leg,
  type Legs,
  legSizeOf,
  type Scored,
  withStep,
} from '../../search/leg-search.ts'
import { cursorAt, hitAt, type Pinned, pageOwnerOf } from '../../search/pinned-pages.ts'
import { highlighted, type NodeLegs, statisticsOf, withHighlighted } from '../../search/word-search.ts'
import { mergedProfile } from './merged-answers.ts'
import type { ScatteredReads } from './scattered-reads.ts'

/** A point that a node has found. */
interface Candidate extends Leg {
  readonly id: string
}

/**
 * Searches by words whose points are on several nodes. Scores have the same bits as on one node with all points:
 *
 *   terms ─> each node counts them in its partitions ─> sums ─> each node finds both legs, with these statistics
 *                                                                        │
 *                    details, from the owners <─ the best <─ scores <─ the best of each leg
 *
 * Main thread only.
 */
export class ScatteredWords {
  readonly #reads: ScatteredReads
  readonly #local: Collection

  constructor(reads: ScatteredReads, local: Collection) {
    this.#reads = reads
    this.#local = local
  }

  async search(query: SearchQuery, call: ReadCall): Promise<SearchResults> {
    const { words } = this.#local.livePoints
    await words.ready()
    const startMs = performance.now()
    try {
      return await this.#search(query, call)
    } finally {
      words.searched((performance.now() - startMs) / 1000)
    }
  }

  async #search(query: SearchQuery, call: ReadCall): Promise<SearchResults> {
    const { pages } = this.#local
    const { cursor, filter } = query
    const owner = await pageOwnerOf(query)
    if (cursor !== undefined && cursor !== '') return await this.#page(query, pages.find(cursor, owner), call)
    // Words that are declared anew meanwhile have other statistics: then the nodes refuse.
    const declared = wordsText(this.#local.livePoints.words.index().settings)
    const statistics = await this.#statistics(query.words!, declared, call)
    const { candidates, profile } = await this.#ranked(query, statistics, declared, call)
    const { languages } = statistics
    const startMs = performance.now()
    const copyId = ({ id }: Candidate, target: Uint8Array, at: number): void => target.set(idToBytes(id), at)
    const results =
      cursor === undefined
        ? (await this.#answer(query, filter, candidates, languages, call)).results
        : await this.#page(query, pages.pin(candidates, languages, copyId, owner), call)
    return profile === undefined
      ? results
      : { ...results, profiles: [withStep(profile, 'page', results.ids.total, startMs)] }
  }

  /** Returns the statistics of all points, or of those that a query wants counted, unless these have no words. */
  async #statistics(
    { text, population }: WordQuery,
    declared: string,
    call: ReadCall,
  ): Promise<WordStatistics> {
    const { words } = this.#local.livePoints
    const statisticsAmong = (filter: Filter | undefined): Promise<WordStatistics> =>
      statisticsOf(words, text, async (terms) => {
        return sumOf(await this.#reads.gather('words', { terms, filter, declared }, call))
      })
    const some = population && (await statisticsAmong(population))
    if (some !== undefined && some.documents > 0) return some
    const all = await statisticsAmong(undefined)
    const isUsed = all.terms.map(({ documents }) => documents > 0)
    return {
      ...all,
      wanted: all.wanted.filter((_, at) => isUsed[at]),
      terms: all.terms.filter((_, at) => isUsed[at]),
    }
  }

  /** Returns the best points of both legs by score, and what the nodes did for them if the query wants to know. */
  async #ranked(
    query: SearchQuery,
    statistics: WordStatistics,
    declared: string,
    call: ReadCall,
  ): Promise<{ candidates: readonly (Candidate & Scored)[]; profile: Profile | undefined }> {
    const own = typeof query.vector === 'string' ? query.vector : undefined
    const [near] = await this.#reads.withVectors([query], call)
    const size = legSizeOf(query)
    // The point itself is found, too, and left out.
    const limit = size + Number(own !== undefined)
    const words = { ...query.words!, statistics }
    const asked = {
      ...near!,
      words,
      limit,
      ef: Math.max(query.ef, limit),
      cursor: undefined,
      include: undefined,
    }
    const startMs = performance.now()
    const nodes = await this.#reads.gather('legs', { query: asked, without: own, declared }, call)
    const legs = joined(nodes, { size, limit, isHybrid: isHybrid(asked) })
    const found = legs.found.filter(({ id }) => id !== own)
    const ofNodes = mergedProfile(nodes.map(({ profile }) => profile))
    const filterUs = ofNodes?.filterUs ?? 0
    const filtered = { step: 'filter', points: ofNodes?.matching ?? 0, us: filterUs }
    const steps = query.filter === undefined ? [] : [filtered]
    const upToLegs =
      ofNodes && withStep({ ...ofNodes, steps }, 'legs', found.length, startMs + filterUs / 1000)
    const fusionMs = performance.now()
    const candidates = fused(asked, { ...legs, found })
    return { candidates, profile: upToLegs && withStep(upToLegs, 'fusion', candidates.length, fusionMs) }
  }

  /** Answers with the next hits that are still stored. */
  async #page(query: SearchQuery, pinned: Pinned, call: ReadCall): Promise<SearchResults> {
    const { hits, offset } = pinned
    const candidates = Array.from({ length: hits.scores.length - offset }, (_, index) => ({
      sequence: 0,
      ...hitAt(hits, offset + index),
    }))
    const { keyFilter } = query
    const { results, looked } = await this.#answer(query, keyFilter, candidates, hits.languages, call)
    return { ...results, nextCursors: [cursorAt(pinned, offset + looked)] }
  }

  /**
   * Answers with the first candidates. If the answer has anything of the points, or is a page, they have to be stored
   * still.
   *
   * @param filter that they then have to match
   * @param languages the number of points by language
   */
  async #answer(
    query: SearchQuery,
    filter: Filter | undefined,
    candidates: readonly (Candidate & Scored)[],
    languages: readonly number[] | undefined,
    call: ReadCall,
  ): Promise<{ readonly results: SearchResults; readonly looked: number }> {
    const { include = nothing, limit, words, cursor } = query
    const { payload, attributes, vector, version, highlight = false } = include
    if (cursor === undefined && !(payload || attributes !== undefined || vector || version || highlight))
      return { results: answerOf(query, candidates.slice(0, limit), new Map()), looked: limit }
    const find = highlight ? this.#local.livePoints.words.highlighter(words!.text, languages) : undefined
    const wanted = { ...withHighlighted(include), distance: false, scores: undefined, highlight: undefined }
    const details = new Map<string, HitDetails>()
    const shown: (Candidate & Scored)[] = []
    let looked = 0
    while (shown.length < limit && looked < candidates.length) {
      const next = candidates.slice(looked, looked + Math.min(idsPerRead, limit - shown.length))
      looked += next.length
      const matching = both(onlyIds(next.map(({ id }) => id)), filter)
      let after: string | undefined
      do {
        const asked = { filter: matching, limit: idsPerRead, include: wanted, cursor: after }
        const { points, nextCursor } = await this.#reads.list(asked, call)
        for (const { id, ...each } of points) details.set(id, await highlighted(each, include, find))
        after = nextCursor
      } while (after !== undefined)
      shown.push(...next.filter(({ id }) => details.has(id)))
    }
    return { results: answerOf(query, shown, details), looked }
  }
}

function answerOf(
  { include, metric }: SearchQuery,
  shown: readonly (Candidate & Scored)[],
  details: ReadonlyMap<string, HitDetails>,
): SearchResults {
  const detailsOf = ({ id, score, words }: Candidate & Scored): HitDetails => ({
    ...details.get(id),
    ...(include?.scores === true && { score, words }),
  })
  return {
    ids: IdLists.of([shown.map(({ id }) => id)]),
    distances: Float64Array.from(shown, ({ distance }) => inUnits(metric, distance)),
    sequences: Float64Array.from(shown, ({ sequence }) => sequence),
    details: [include && shown.map(detailsOf)],
    profiles: [undefined],
    plans: [undefined],
  }
}

/** Adds up what nodes have counted in partitions of their own. */
function sumOf(nodes: readonly WordCounts[]): WordCounts {
  const sum = (one: readonly number[], other: readonly number[]): readonly number[] =>
    one.map((value, at) => value + other[at]!)
  return nodes.reduce((one, other) => ({
    documents: one.documents + other.documents,
    lengths: sum(one.lengths, other.lengths),
    languages: sum(one.languages, other.languages),
    terms: one.terms.map(({ documents, occurrences }, at) => ({
      documents: documents + other.terms[at]!.documents,
      occurrences: occurrences + other.terms[at]!.occurrences,
    })),
  }))
}

/** Joins what nodes have found: of each leg the best, as one node with all points would find them. */
function joined(
  nodes: readonly NodeLegs[],
  { size, limit, isHybrid }: { readonly size: number; readonly limit: number; readonly isHybrid: boolean },
): Legs<Candidate> {
  const points = new Map<string, Candidate>()
  for (const { ids, found } of nodes) {
    for (const [at, leg] of found.entries()) {
      const id = idFromBytes(ids, at * idBytes)
      // Nodes have points in common, and the latest state of one counts.
      if (!((points.get(id)?.sequence ?? -1) >= leg.sequence)) points.set(id, { ...leg, id })
    }
  }
  const all = [...points.values()]
  const byWords = all
    .filter(({ words }) => words > 0)
    .sort((a, b) => b.words - a.words || a.sequence - b.sequence)
    .slice(0, size)
  const byDistance = isHybrid
    ? all.toSorted((a, b) => a.distance - b.distance || a.sequence - b.sequence).slice(0, limit)
    : []
  return {
    found: [...new Set([...byWords, ...byDistance])],
    bestWords: Math.max(0, ...nodes.map(({ bestWords }) => bestWords)),
    nearest: Math.max(0, ...nodes.map(({ nearest }) => nearest)),
  }
}

const nothing: Include = { distance: false, payload: false, vector: false, version: false }
const idsPerRead = 1000
