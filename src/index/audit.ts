import type { Metric } from '../base/point.ts'
import { slotStates } from './graph-state.ts'
import type { Hit } from './hit.ts'
import type { Route } from './routes.ts'
import type { IndexQuery } from './searcher.ts'
import { queriesPerScanMax } from './segment.ts'
import type { VectorIndex } from './vector-index.ts'

export interface AuditRequest {
  /** Slots whose vectors are the queries, in an order in which every part is a representative sample. */
  readonly slots: readonly number[]
  /** At least this many queries are run on a route; the rest only if it is then still uncertain whether it reaches `floor`. */
  readonly fewest: number
  readonly k: number
  readonly ef: number
  /** The recall at which no further routes are tried. */
  readonly target: number
  /** A route below this recall is unusable: its audit ends once that is certain. */
  readonly floor: number
  readonly metric: Metric
  readonly routes: readonly Route[]
}

/** Searches the whole index, a few queries at a time; returns undefined to abort the audit. */
export type AuditSearch = (
  queries: readonly IndexQuery[],
) => Promise<readonly (readonly Hit[])[] | undefined> | readonly (readonly Hit[])[] | undefined

/**
 * Measures what share of the k nearest of stored points each route of a metric finds, against the exact scan. Routes are
 * tried in order until one reaches the target. It searches a few queries at a time, so that other work can be done in
 * between.
 *
 * The neighbours of a point are searched for as if the point itself were not stored: a walk that visits the point finds its
 * neighbours in its list, and a query vector that is not stored has no such help. Of 20,000 vectors of 64 random bytes, walks
 * that found .985 of the neighbours of stored points found .94 of those of others. Every other query is moved a little towards
 * another point: where points lie in dense clusters far from each other, that is outside of all clusters, as queries can be.
 *
 * Whether the point itself is found is counted separately: it has to be found as reliably as its neighbours, and must not make
 * up for them. Where nearly all distances are equal, as under Hamming between vectors of continuous components, any ten points
 * are as near as any others, and only the point itself shows whether the walk missed anything.
 *
 * @returns the routes that were tried, in order; undefined if the audit was aborted
 */
export async function auditRoutes(
  index: VectorIndex,
  request: AuditRequest,
  search: AuditSearch,
): Promise<{ readonly route: Route; readonly recall: number }[] | undefined> {
  const found: { route: Route; recall: number }[] = []
  const sample = new Sample(index, request, search)
  for (const route of request.routes) {
    const recall = await sample.recallOf(route)
    if (recall === undefined) return undefined
    found.push({ route, recall })
    if (recall >= request.target) break
  }
  return found
}

/** The vector of a query: that of a slot, every other one moved a little towards that of the next slot. */
export function auditVector(index: VectorIndex, slots: readonly number[], place: number): Float32Array {
  const vector = index.read(slots[place]!)
  if (isPlain(undefined, place)) return vector
  const other = index.read(slots[(place + 1) % slots.length]!)
  return vector.map((component, at) => component + moved * (other[at]! - component))
}

/** The queries of an audit, a few at a time, and their true neighbours, which are searched for when needed. */
class Sample {
  readonly #index: VectorIndex
  readonly #request: AuditRequest
  readonly #search: AuditSearch
  /** In parts of `queriesPerScanMax`, as far as they were needed. */
  readonly #queries: (readonly IndexQuery[])[] = []
  /** The linked ones of the nearest, a list for each query, in the same parts. */
  readonly #truth: (readonly Hit[])[][] = []

  constructor(index: VectorIndex, request: AuditRequest, search: AuditSearch) {
    this.#index = index
    this.#request = request
    this.#search = search
  }

  /** The recall of a route, over enough queries to tell whether it is below the floor; undefined if the audit is aborted. */
  async recallOf(route: Route): Promise<number | undefined> {
    const { slots, k, floor } = this.#request
    const fewest = Math.min(this.#request.fewest, slots.length)
    const own = new Tally()
    const near = new Tally()
    const off = new Tally()
    for (let at = 0; at < slots.length; at += queriesPerScanMax) {
      // Before the route's own searches: `Tally` relies on this order.
      const truth = await this.#truthAt(at)
      if (truth === undefined) return undefined
      const queries = this.#queriesAt(at)
      const apart = await this.#search(
        queries.map((query, place) => ({
          ...query,
          route,
          hidden: hideable(slots[at + place]!, truth[place]!),
        })),
      )
      if (apart === undefined) return undefined
      const plain = await this.#search(queries.filter(isPlain).map((query) => ({ ...query, route })))
      if (plain === undefined) return undefined
      const isOwn = (slot: number, query: number): boolean => slot === slots[at + 2 * query]
      own.add(truth.filter(isPlain), plain, isOwn)
      near.add(truth.filter(isPlain), apart.filter(isPlain), (slot, query) => !isOwn(slot, query))
      off.add(
        truth.filter(isMoved),
        apart.filter(isMoved),
        (slot, query) => slot !== slots[at + 2 * query + 1],
      )
      const asked = Math.max(fewest, at + queries.length) / 2
      if (own.bestOf(asked) < floor || near.bestOf(asked * k) < floor || off.bestOf(asked * k) < floor) break
      const isSure = [own, near, off].every((tally) => tally.isSurelyAbove(floor))
      if (at + queries.length >= fewest && isSure) break
    }
    return Math.min(own.recall, near.recall, off.recall)
  }

  #queriesAt(at: number): readonly IndexQuery[] {
    const { slots, k, ef, metric } = this.#request
    this.#queries[at / queriesPerScanMax] ??= slots.slice(at, at + queriesPerScanMax).map((_, place) => {
      return { vector: auditVector(this.#index, slots, at + place), metric, k: k + 1, ef, route: undefined }
    })
    return this.#queries[at / queriesPerScanMax]!
  }

  async #truthAt(at: number): Promise<readonly (readonly Hit[])[] | undefined> {
    const part = at / queriesPerScanMax
    if (this.#truth[part] === undefined) {
      const found = await this.#search(this.#queriesAt(at))
      if (found === undefined) return undefined
      const { graph } = this.#request.routes[0]!
      this.#truth[part] = found.map((hits) => hits.filter(({ slot }) => isLinked(this.#index, slot, graph)))
    }
    return this.#truth[part]
  }
}

/** The slot if it is among the nearest and has no copies there; copies are only reachable through one of them, so none is hidden. */
function hideable(slot: number, nearest: readonly Hit[]): number | undefined {
  const own = nearest.find((hit) => hit.slot === slot)
  const isAlone = own !== undefined && !nearest.some((hit) => hit !== own && hit.distance === own.distance)
  return isAlone ? slot : undefined
}

/** Whether a query of a part is an unchanged stored vector. */
function isPlain(_: unknown, place: number): boolean {
  return place % 2 === 0
}

function isMoved(query: unknown, place: number): boolean {
  return !isPlain(query, place)
}

/** How far the other queries are moved, as a share of the way to another point. */
const moved = 0.01

/** Whether a graph contains a slot: one that still waits is found by a scan, and tells nothing about the graph. */
export function isLinked(index: VectorIndex, slot: number, graph: number): boolean {
  const { ordinal, local } = index.locate(slot)
  return index.linkQueue(ordinal, graph).state.states[local] === slotStates.linked
}

/**
 * The share of the true neighbours that were found, of those that count. A true neighbour counts as missed only if it
 * is nearer than the last hit of the answer: points inserted between the two searches rightly push others out of the
 * answer, and of points at equal distances any are as good.
 */
class Tally {
  #found = 0
  #missed = 0
  #queries = 0
  /** The sum of squares of the shares that single queries missed. */
  #squares = 0

  add(
    truth: readonly (readonly Hit[])[],
    answers: readonly (readonly Hit[])[],
    counts: (slot: number, query: number) => boolean,
  ): void {
    for (const [query, nearest] of truth.entries()) {
      const answer = answers[query]!
      const slots = new Set(answer.map(({ slot }) => slot))
      const last = answer.length < nearest.length ? undefined : answer.at(-1)
      let found = 0
      let missed = 0
      for (const hit of nearest) {
        if (!counts(hit.slot, query)) continue
        if (slots.has(hit.slot)) found += 1
        else if (last === undefined || hit.distance < last.distance) missed += 1
      }
      this.#found += found
      this.#missed += missed
      this.#queries += 1
      this.#squares += (missed / Math.max(found + missed, 1)) ** 2
    }
  }

  get recall(): number {
    return this.#found + this.#missed === 0 ? 1 : this.#found / (this.#found + this.#missed)
  }

  /** Whether the recall is above the floor by three standard errors of the mean, so that more queries would hardly change it. */
  isSurelyAbove(floor: number): boolean {
    const variance = this.#squares / this.#queries - (1 - this.recall) ** 2
    return this.recall - 3 * Math.sqrt(Math.max(variance, 0) / this.#queries) >= floor
  }

  /** The highest recall still possible if this many neighbours count in all. */
  bestOf(all: number): number {
    return 1 - this.#missed / Math.max(all, 1)
  }
}
