import type { Filter } from '../../base/filter.ts'
import { onlyIds } from '../../base/filter-builder.ts'
import { IdLists, type SearchResults } from '../../base/id-lists.ts'
import { idBytes, idFromBytes, idToBytes } from '../../base/ids.ts'
import {
  type HitDetails,
  type Include,
  type Profile,
  pinnedHitsMax,
  type SearchQuery,
  type VectorQuery,
  type WordCounts,
  type WordQuery,
  type WordStatistics,
} from '../../base/point.ts'
import { inTurns } from '../../base/turns.ts'
import type { Collection } from '../../collections/collection.ts'
import type { ListPage, ListQuery, ReadCall } from '../../points/database.ts'
import { microsecondsSince } from '../../search/leg-search.ts'
import { type PageOwner, type Pinned, pageOwnerOf, pinnedHits } from '../../search/pinned-pages.ts'
import {
  fused,
  inUnits,
  isHybrid,
  type Leg,
  type Legs,
  legSizeOf,
  type Scored,
} from '../../search/word-legs.ts'
import { type NodeLegs, statisticsOf } from '../../search/word-search.ts'
import { mergedProfile } from './merged-answers.ts'
import type { ReadAnswers, ReadKind, ReadQueries } from './node-reads.ts'

/** What a search needs from the reads of a collection that is on several nodes: see `ScatteredReads`. */
interface Reads {
  gather<Kind extends ReadKind>(
    kind: Kind,
    query: ReadQueries[Kind],
    call: ReadCall,
  ): Promise<readonly ReadAnswers[Kind][]>
  list(query: ListQuery, call: ReadCall): Promise<ListPage>
  withVectors(queries: readonly SearchQuery[], call: ReadCall): Promise<readonly VectorQuery[]>
}

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
  readonly #reads: Reads
  readonly #local: Collection

  constructor(reads: Reads, local: Collection) {
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
    const { cursor } = query
    const owner = await pageOwnerOf(query)
    if (cursor !== undefined && cursor !== '') return await this.#page(query, pages.find(cursor, owner), call)
    // Words that are declared anew meanwhile have other statistics: then the nodes refuse.
    const declared = this.#declared
    const statistics = await this.#statistics(query.words!, declared, call)
    const { candidates, profile } = await this.#ranked(query, statistics, declared, call)
    const startMs = performance.now()
    const results = await this.#answer(query, owner, candidates, statistics, call)
    return profile === undefined
      ? results
      : { ...results, profiles: [withStep(profile, 'page', results.ids.total, startMs)] }
  }

  async #answer(
    query: SearchQuery,
    owner: PageOwner,
    candidates: readonly (Candidate & Scored)[],
    statistics: WordStatistics,
    call: ReadCall,
  ): Promise<SearchResults> {
    const { pages } = this.#local
    const { cursor, filter, limit } = query
    if (cursor !== undefined) {
      const best = candidates.slice(0, pinnedHitsMax)
      const hits = pinnedHits(best, statistics.languages, ({ id }, target, at) =>
        target.set(idToBytes(id), at),
      )
      return await this.#page(query, { token: pages.add(hits, owner), hits, offset: 0 }, call)
    }
    const isRead = query.include !== undefined && readsPoints(query.include)
    const { shown, details } = isRead
      ? await this.#read(query, filter, candidates, statistics.languages, call)
      : { shown: candidates.slice(0, limit), details: new Map<string, HitDetails>() }
    return answerOf(query, shown, details)
  }

  get #declared(): string {
    return JSON.stringify(this.#local.livePoints.words.index().settings)
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
        const counted = await this.#reads.gather('words', { terms, filter, declared }, call)
        return sumOf(counted, terms.length)
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
  async #page(query: SearchQuery, { token, hits, offset }: Pinned, call: ReadCall): Promise<SearchResults> {
    const candidates: (Candidate & Scored)[] = []
    for (let at = offset; at < hits.scores.length; at += 1) {
      candidates.push({
        id: idFromBytes(hits.ids, at * idBytes),
        sequence: 0,
        distance: hits.distances[at]!,
        words: hits.words[at]!,
        score: hits.scores[at]!,
      })
    }
    const { keyFilter } = query
    const { shown, details, looked } = await this.#read(query, keyFilter, candidates, hits.languages, call)
    const at = offset + looked
    const nextCursors = [at < hits.scores.length ? `${token}.${at}` : undefined]
    return { ...answerOf(query, shown, details), nextCursors }
  }

  /**
   * Reads the details of the first candidates that are still stored.
   *
   * @param filter that points still have to match
   * @param languages the number of points by language
   */
  async #read(
    { include, limit, words }: SearchQuery,
    filter: Filter | undefined,
    candidates: readonly (Candidate & Scored)[],
    languages: readonly number[] | undefined,
    call: ReadCall,
  ): Promise<Read> {
    const isHighlighted = include?.highlight === true
    const find = isHighlighted ? this.#local.livePoints.words.highlighter(words!.text, languages) : undefined
    const wanted: Include = {
      ...(include ?? nothing),
      distance: false,
      scores: undefined,
      highlight: undefined,
      ...(isHighlighted && { payload: true, attributes: undefined }),
    }
    const isWithPayload = include !== undefined && (include.payload || include.attributes !== undefined)
    const details = new Map<string, HitDetails>()
    const shown: (Candidate & Scored)[] = []
    let looked = 0
    while (shown.length < limit && looked < candidates.length) {
      const next = candidates.slice(looked, looked + Math.min(idsPerRead, limit - shown.length))
      looked += next.length
      const some = onlyIds(next.map(({ id }) => id))
      const matching: Filter = filter === undefined ? some : { kind: 'all', of: [some, filter] }
      let cursor: string | undefined
      do {
        const page = await this.#reads.list(
          { filter: matching, limit: idsPerRead, include: wanted, cursor },
          call,
        )
        for (const { id, payload, vector, version } of page.points) {
          const found = payload && find && (await inTurns(find(payload)))
          details.set(id, {
            payload: isWithPayload ? payload : undefined,
            vector,
            version,
            ...(find && { highlight: found ?? [] }),
          })
        }
        cursor = page.nextCursor
      } while (cursor !== undefined)
      shown.push(...next.filter(({ id }) => details.has(id)))
    }
    return { shown, details, looked }
  }
}

interface Read {
  readonly shown: readonly (Candidate & Scored)[]
  readonly details: ReadonlyMap<string, HitDetails>
  /** How many candidates were looked at. */
  readonly looked: number
}

/** Whether an answer has anything of the stored points. */
function readsPoints({ payload, attributes, vector, version, highlight }: Include): boolean {
  return payload || attributes !== undefined || vector || version || highlight === true
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

function withStep(profile: Profile, step: string, points: number, startMs: number): Profile {
  const us = Math.max(0, microsecondsSince(startMs))
  return { ...profile, steps: [...(profile.steps ?? []), { step, points, us }] }
}

/** Adds up what nodes have counted in partitions of their own. */
function sumOf(nodes: readonly WordCounts[], terms: number): WordCounts {
  const sum = (numbersOf: (counts: WordCounts) => readonly number[]): readonly number[] =>
    nodes.map(numbersOf).reduce((all, each) => all.map((value, at) => value + each[at]!))
  const documents = sum((each) => each.terms.map((term) => term.documents))
  const occurrences = sum((each) => each.terms.map((term) => term.occurrences))
  return {
    documents: sum((each) => [each.documents])[0]!,
    lengths: sum(({ lengths }) => lengths),
    languages: sum(({ languages }) => languages),
    terms: Array.from({ length: terms }, (_, at) => ({
      documents: documents[at]!,
      occurrences: occurrences[at]!,
    })),
  }
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
