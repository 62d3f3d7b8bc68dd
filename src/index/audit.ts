import type { Metric } from '../base/point.ts'
import type { Route } from './graph.ts'
import { slotStates } from './graph-state.ts'
import type { Hit } from './hit.ts'
import type { IndexQuery } from './searcher.ts'
import { queriesPerScanMax } from './segment.ts'
import type { VectorIndex } from './vector-index.ts'

export interface AuditRequest {
  /** Slots whose vectors are the queries; every part of them stands for the whole. */
  readonly slots: readonly number[]
  /** So many queries are asked of a route at least; the others only where these leave in doubt whether it will do. */
  readonly fewest: number
  readonly k: number
  readonly ef: number
  /** The recall that ends the search for a metric's route. */
  readonly target: number
  /** A route below this recall is of no use: no more is asked of it than shows that it is. */
  readonly floor: number
  readonly metric: Metric
  readonly routes: readonly Route[]
}

/** Searches the whole index, a few queries at a time; undefined where the audit is to be broken off. */
export type AuditSearch = (
  queries: readonly IndexQuery[],
) => Promise<readonly (readonly Hit[])[] | undefined> | readonly (readonly Hit[])[] | undefined

/**
 * Measures what share of the k nearest of stored points each route of a metric finds, against the exact scan. Routes are
 * tried in order until one reaches the target. It searches a few queries at a time, so that whoever carries that out can do
 * other work in between.
 *
 * The neighbours are searched for as if the point itself were not there: a walk that comes by a point has found its neighbours, in its
 * list, and who asks for a vector that is not stored has no such help. Of 20,000 vectors of 64 random bytes, walks that found
 * .985 of the neighbours of stored points found .94 of those of others. Every other query is moved a little towards another
 * point: where points lie in dense clusters far from each other, that is outside of all of them, as queries can be.
 *
 * The point asked for is judged apart: it has to be found as surely as its neighbours, not to make up for them.
 * Where nearly all distances are equal, as under Hamming between vectors of continuous components, any ten points
 * are as near as any others, and only the point itself tells that the walk missed it.
 *
 * @returns the routes that were tried, in order; undefined where it was broken off
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

/** The points that a metric's routes are asked for, a few at a time, and their true neighbours as far as needed. */
class Sample {
  readonly #index: VectorIndex
  readonly #request: AuditRequest
  readonly #search: AuditSearch
  /** In parts of `queriesPerScanMax`, as far as they were asked. */
  readonly #queries: (readonly IndexQuery[])[] = []
  /** The linked ones of the nearest, a list for each query, in the same parts. */
  readonly #truth: (readonly Hit[])[][] = []

  constructor(index: VectorIndex, request: AuditRequest, search: AuditSearch) {
    this.#index = index
    this.#request = request
    this.#search = search
  }

  /** Of as many queries as tell whether it is below the floor; undefined where the audit is broken off. */
  async recallOf(route: Route): Promise<number | undefined> {
    const { slots, k, floor } = this.#request
    const fewest = Math.min(this.#request.fewest, slots.length)
    const own = new Tally()
    const near = new Tally()
    const off = new Tally()
    for (let at = 0; at < slots.length; at += queriesPerScanMax) {
      // Before the answers: see what counts as missed.
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
    this.#queries[at / queriesPerScanMax] ??= slots
      .slice(at, at + queriesPerScanMax)
      .map((_, place) => ({ vector: this.#vectorAt(at + place), metric, k: k + 1, ef, route: undefined }))
    return this.#queries[at / queriesPerScanMax]!
  }

  #vectorAt(place: number): Float32Array {
    const { slots } = this.#request
    const vector = this.#index.read(slots[place]!)
    if (isPlain(undefined, place)) return vector
    const other = this.#index.read(slots[(place + 1) % slots.length]!)
    return vector.map((component, at) => component + moved * (other[at]! - component))
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

/** A slot that is among the nearest, unless there are copies of its vector: the way to those goes through one of them. */
function hideable(slot: number, nearest: readonly Hit[]): number | undefined {
  const own = nearest.find((hit) => hit.slot === slot)
  const isAlone = own !== undefined && !nearest.some((hit) => hit !== own && hit.distance === own.distance)
  return isAlone ? slot : undefined
}

/** Whether a query of a part is a stored vector as it is. */
function isPlain(_: unknown, place: number): boolean {
  return place % 2 === 0
}

function isMoved(query: unknown, place: number): boolean {
  return !isPlain(query, place)
}

/** How far the other queries are moved, of the way to another point. */
const moved = 0.01

/** A slot that still waits is found by a scan, and says nothing of the graph. */
export function isLinked(index: VectorIndex, slot: number, graph: number): boolean {
  const { ordinal, local } = index.locate(slot)
  return index.linkQueue(ordinal, graph).state.states[local] === slotStates.linked
}

/**
 * The share of the true neighbours that were found, of those that count. A true neighbour counts as missed
 * only where it is nearer than the last of the answer: points that came between the two searches push others
 * out of the answer, and rightly so; and of more equal points than were asked for any are as good.
 */
class Tally {
  #found = 0
  #missed = 0
  #queries = 0
  /** Of the shares that single queries missed. */
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

  /** Whether more queries would hardly show it below: by three times the standard error of the mean. */
  isSurelyAbove(floor: number): boolean {
    const variance = this.#squares / this.#queries - (1 - this.recall) ** 2
    return this.recall - 3 * Math.sqrt(Math.max(variance, 0) / this.#queries) >= floor
  }

  /** What the recall can come to at most, with as many neighbours in all. */
  bestOf(all: number): number {
    return 1 - this.#missed / Math.max(all, 1)
  }
}
