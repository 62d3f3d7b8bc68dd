import type { Metric } from '../base/point.ts'
import type { Route } from './graph.ts'
import { GraphState, slotStates } from './graph-state.ts'
import type { Hit } from './hit.ts'
import { RowReader } from './row-reader.ts'
import type { IndexQuery, Searcher, SlotRange } from './searcher.ts'
import { queriesPerScanMax, type SegmentHandle } from './segment.ts'

export interface AuditRequest {
  /** Slots whose vectors are the queries; every part of them stands for the whole. */
  readonly slots: readonly number[]
  /** So many queries are asked of a route at least; the others only where these leave in doubt whether it will do. */
  readonly fewest: number
  readonly slotCount: number
  readonly k: number
  readonly ef: number
  /** The recall that ends the search for a metric's route. */
  readonly target: number
  /** A route below this recall is of no use: no more is asked of it than shows that it is. */
  readonly floor: number
  readonly metric: Metric
  readonly routes: readonly Route[]
}

/**
 * Measures what share of the k nearest of stored points each route of a metric finds, against the exact scan. Routes are
 * tried in order until one reaches the target.
 *
 * The point asked for is judged apart: it has to be found as surely as its neighbours, not to make up for them.
 * Where nearly all distances are equal, as under Hamming between vectors of continuous components, any ten points
 * are as near as any others, and only the point itself tells that no way led there.
 *
 * @param isStopped asked every few milliseconds; once true, nothing has been measured
 * @returns the routes that were tried, in order; undefined where it was stopped
 */
export function auditRoutes(
  searcher: Pick<Searcher, 'search'>,
  segments: readonly SegmentHandle[],
  request: AuditRequest,
  isStopped: () => boolean = () => false,
): { readonly route: Route; readonly recall: number }[] | undefined {
  const found: { route: Route; recall: number }[] = []
  const sample = new Sample(searcher, segments, request, isStopped)
  for (const route of request.routes) {
    const recall = sample.recallOf(route)
    // Of a search that was broken off the answer is short.
    if (isStopped()) return undefined
    found.push({ route, recall })
    if (recall >= request.target) break
  }
  return found
}

/** The points that a metric's routes are asked for, a few at a time, and their true neighbours as far as needed. */
class Sample {
  readonly #searcher: Pick<Searcher, 'search'>
  readonly #segments: readonly SegmentHandle[]
  readonly #request: AuditRequest
  readonly #ranges: readonly SlotRange[]
  readonly #isStopped: () => boolean
  /** In parts of `queriesPerScanMax`, as far as they were asked. */
  readonly #queries: (readonly IndexQuery[])[] = []
  /** The linked ones of the nearest, a list for each query, in the same parts. */
  readonly #truth: (readonly Hit[])[][] = []

  constructor(
    searcher: Pick<Searcher, 'search'>,
    segments: readonly SegmentHandle[],
    request: AuditRequest,
    isStopped: () => boolean,
  ) {
    this.#isStopped = isStopped
    this.#searcher = searcher
    this.#segments = segments
    this.#request = request
    this.#ranges = rangesOf(segments, request.slotCount)
  }

  /** Of as many queries as tell whether it is below the floor. */
  recallOf(route: Route): number {
    const { slots, k, floor } = this.#request
    const fewest = Math.min(this.#request.fewest, slots.length)
    const own = new Tally()
    const others = new Tally()
    for (let at = 0; at < slots.length && !this.#isStopped(); at += queriesPerScanMax) {
      // Before the answers: see what counts as missed.
      const truth = this.#truthAt(at)
      const queries = this.#queriesAt(at)
      const answers = this.#search(queries.map((query) => ({ ...query, route })))
      const isOwn = (slot: number, query: number): boolean => slot === slots[at + query]
      own.add(truth, answers, isOwn)
      others.add(truth, answers, (slot, query) => !isOwn(slot, query))
      const asked = Math.max(fewest, at + queries.length)
      if (own.bestOf(asked) < floor || others.bestOf(asked * k) < floor) break
      if (at + queries.length >= fewest && own.isSurelyAbove(floor) && others.isSurelyAbove(floor)) break
    }
    return Math.min(own.recall, others.recall)
  }

  #queriesAt(at: number): readonly IndexQuery[] {
    const { slots, k, ef, metric } = this.#request
    this.#queries[at / queriesPerScanMax] ??= vectorsOf(
      this.#segments,
      slots.slice(at, at + queriesPerScanMax),
    ).map((vector) => ({ vector, metric, k: k + 1, ef, route: undefined }))
    return this.#queries[at / queriesPerScanMax]!
  }

  #truthAt(at: number): readonly (readonly Hit[])[] {
    this.#truth[at / queriesPerScanMax] ??= this.#search(this.#queriesAt(at)).map((hits) =>
      hits.filter(({ slot }) => isLinked(this.#segments, slot, this.#request.routes[0]!.graph)),
    )
    return this.#truth[at / queriesPerScanMax]!
  }

  #search(queries: readonly IndexQuery[]): readonly (readonly Hit[])[] {
    return this.#searcher.search(queries, this.#ranges, this.#isStopped)
  }
}

/** A slot that still waits is found by a scan, and says nothing of the graph. */
function isLinked(segments: readonly SegmentHandle[], slot: number, graph: number): boolean {
  const { capacity } = segments[0]!.layout
  const { states } = new GraphState(segments[Math.floor(slot / capacity)]!, graph)
  return states[slot % capacity] === slotStates.linked
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

/** Copies of what stands in the slots. */
function vectorsOf(segments: readonly SegmentHandle[], slots: readonly number[]): Float32Array[] {
  const { layout, rowFile } = segments[0]!
  const { capacity, rowBytes, rows, dimension } = layout
  using reader = rowFile && new RowReader(rowFile, dimension)
  return slots.map((slot) => {
    const vector = new Float32Array(dimension)
    if (reader !== undefined) {
      reader.read(slot, 1, vector, dimension)
      return vector
    }
    const { buffer } = segments[Math.floor(slot / capacity)]!.memory
    vector.set(new Float32Array(buffer, rows + (slot % capacity) * rowBytes, dimension))
    return vector
  })
}

function rangesOf(segments: readonly SegmentHandle[], slotCount: number): SlotRange[] {
  return segments.map(({ ordinal, firstSlot, layout }) => ({
    ordinal,
    from: 0,
    to: Math.max(0, Math.min(layout.capacity, slotCount - firstSlot)),
  }))
}
