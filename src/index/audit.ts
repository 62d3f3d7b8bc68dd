import type { Metric } from '../base/point.ts'
import type { GraphAccess } from './graph.ts'
import { slotStates } from './graph-state.ts'
import type { Hit } from './hits.ts'
import { type DistanceSource, distanceKindOf, graphDistanceMetrics, isOnCodes, type Route } from './routes.ts'
import type { IndexQuery } from './searcher.ts'
import { queriesPerScanMax, type SegmentHandle } from './segment.ts'
import { newFilterId, type SlotBits } from './slot-filter.ts'
import type { VectorIndex } from './vector-index.ts'

export interface AuditRequest {
  /** Slots whose vectors are the queries, in an order in which every part is a representative sample. */
  readonly slots: readonly number[]
  /**
   * Minimum number of queries to run on a route. More are run only while it is uncertain whether it reaches `floor`.
   */
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
 * Measures the recall of each route of a metric: the share of the k nearest neighbours of stored points that it finds,
 * compared with the exact scan. Tries the routes in order until one reaches the target. Runs a few queries at a time,
 * so that other work can run in between.
 *
 * The search for a point's neighbours ignores the point itself. A walk that visits the point finds the neighbours in
 * its list, and a query that is not stored has no such help. With 20,000 vectors of 64 random bytes, walks that found
 * .985 of the neighbours of stored points found .94 of the neighbours of other vectors. Every second query is moved
 * slightly towards another point. Where points lie in dense clusters far from each other, such a query lies outside all
 * clusters, as real queries can.
 *
 * Finding the point itself is counted separately: it must be as reliable as finding the neighbours, and must not make
 * up for missed ones. Where nearly all distances are equal, as under Hamming between vectors of continuous components,
 * any ten points are as near as any others. Only the point itself then shows whether the walk missed anything.
 *
 * @returns the routes that were tried, in order; none if there are no slots; undefined if the audit was aborted
 */
export async function auditRoutes(
  index: VectorIndex,
  request: AuditRequest,
  search: AuditSearch,
): Promise<{ readonly route: Route; readonly recall: number }[] | undefined> {
  const found: { route: Route; recall: number }[] = []
  // No queries, no recall: nothing is known about any route.
  if (request.slots.length === 0) return found
  const sample = new Sample(index, request, search)
  for (const route of request.routes) {
    const recall = await sample.recallOf(route)
    if (recall === undefined) return undefined
    found.push({ route, recall })
    if (recall >= request.target) break
  }
  return found
}

/**
 * Returns the vector of a query: the vector of a slot. Every second one is moved slightly towards that of the next
 * slot.
 */
export function auditVector(index: VectorIndex, slots: readonly number[], place: number): Float32Array {
  const vector = index.read(slots[place]!)
  if (isPlain(undefined, place)) return vector
  const other = index.read(slots[(place + 1) % slots.length]!)
  return vector.map((component, at) => component + moved * (other[at]! - component))
}

/** The queries of an audit, in parts, with their true neighbours. Both are computed when first needed. */
class Sample {
  readonly #index: VectorIndex
  readonly #request: AuditRequest
  readonly #search: AuditSearch
  /** The queries used so far, in parts of `queriesPerScanMax`. */
  readonly #queries: (readonly IndexQuery[])[] = []
  /** In the same parts, for each query: its nearest slots that are linked. */
  readonly #truth: (readonly Hit[])[][] = []

  constructor(index: VectorIndex, request: AuditRequest, search: AuditSearch) {
    this.#index = index
    this.#request = request
    this.#search = search
  }

  /** Measures a route over enough queries to decide whether its recall is below the floor; undefined if aborted. */
  async recallOf(route: Route): Promise<number | undefined> {
    const { slots, k, floor } = this.#request
    const fewest = Math.min(this.#request.fewest, slots.length)
    const own = new Tally()
    const near = new Tally()
    const off = new Tally()
    // The number of queries of either kind if all of them run. A limit for the first of them only would reject a good
    // route that by chance misses two of its first fifty points.
    const half = slots.length / 2
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
      // Walks rightly do not find what was removed after the scan.
      const still = truth.map((hits) => hits.filter((hit) => this.#isStored(hit)))
      own.add(still.filter(isPlain), plain, isOwn)
      near.add(still.filter(isPlain), apart.filter(isPlain), (slot, query) => !isOwn(slot, query))
      off.add(
        still.filter(isMoved),
        apart.filter(isMoved),
        (slot, query) => slot !== slots[at + 2 * query + 1],
      )
      if (own.bestOf(half) < floor || near.bestOf(half * k) < floor || off.bestOf(half * k) < floor) break
      const isSure = [own, near, off].every((tally) => tally.isSurelyAbove(floor))
      if (at + queries.length >= fewest && isSure) break
    }
    return Math.min(own.recall, near.recall, off.recall)
  }

  #isStored({ slot, sequence }: Hit): boolean {
    return this.#index.isLive(slot) && this.#index.sequenceOf(slot) === sequence
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

/**
 * Returns the slot if it is among the nearest and has no copies there. Copies can only be reached through one of them,
 * so none of them may be hidden.
 */
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

/** How far a query is moved, as a share of the way to another point. */
const moved = 0.01

/** Whether a graph contains a slot. A waiting slot is found by a scan, so it shows nothing about the graph. */
export function isLinked(index: VectorIndex, slot: number, graph: number): boolean {
  const { ordinal, local } = index.locate(slot)
  return index.linkQueue(ordinal, graph).state.states[local] === slotStates.linked
}

/**
 * Counts which of the relevant true neighbours were found. A true neighbour counts as missed only if it is nearer than
 * the last hit of the answer. Points inserted between the two searches rightly displace others, and points at equal
 * distances are interchangeable.
 */
class Tally {
  #found = 0
  #missed = 0
  #queries = 0
  /** Sum over all queries of the square of the share that the query missed. */
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

  /**
   * Whether the recall is above the floor by three standard errors of the mean: more queries would hardly change that.
   */
  isSurelyAbove(floor: number): boolean {
    const variance = this.#squares / this.#queries - (1 - this.recall) ** 2
    return this.recall - 3 * Math.sqrt(Math.max(variance, 0) / this.#queries) >= floor
  }

  /** Returns the highest recall still possible if this many neighbours count in total. */
  bestOf(all: number): number {
    return 1 - this.#missed / Math.max(all, 1)
  }
}

/** Queries with the same filter and without a route. */
export type FilteredBatch = readonly IndexQuery[]

/** Batches whose recall is measured together, separately from other groups. */
export type FilteredGroup = readonly FilteredBatch[]

/** The measurements of an audit. */
interface FilteredFindings {
  /** The routes that were tried, in order. */
  readonly tried: readonly { readonly route: Route; readonly recall: number }[]
  /** Recall of scans by codes; undefined if they were not measured. */
  readonly scanRecall: number | undefined
}

/**
 * Measures the recall of each route, and of a scan of the matching slots by their codes: the share of the nearest
 * matching points found, compared with the exact scan. The lowest recall of all groups counts. Tries the routes in
 * order until one reaches the target.
 *
 * @returns undefined if the audit was aborted
 */
export async function auditFiltered(
  groups: readonly FilteredGroup[],
  routes: readonly Route[],
  target: number,
  search: AuditSearch,
): Promise<FilteredFindings | undefined> {
  const measured: MeasuredBatch[] = []
  for (const [group, batches] of groups.entries()) {
    for (const batch of batches) {
      const truth = await search(batch)
      if (truth === undefined) return undefined
      measured.push({ batch, truth, group })
    }
  }
  const tried: { route: Route; recall: number }[] = []
  let scanRecall: number | undefined
  for (const route of routes) {
    // The scan by codes is measured together with the first route, because waiting for turns dominates the audit's
    // time.
    const isFirst = tried.length === 0 && isOnCodes(route.distanceKind)
    const ways: readonly Way[] = isFirst ? [{ route }, { route, codeScan: 'instead' }] : [{ route }]
    const recalls = await recallsOf(measured, groups.length, ways, search)
    if (recalls === undefined) return undefined
    const [recall] = recalls
    tried.push({ route, recall: recall! })
    scanRecall ??= recalls[1]
    if (recall! >= target) break
  }
  return { tried, scanRecall }
}

type Way = Pick<IndexQuery, 'route' | 'codeScan'>

interface MeasuredBatch {
  readonly batch: FilteredBatch
  readonly truth: readonly (readonly Hit[])[]
  readonly group: number
}

/** Returns the lowest recall of all groups for each way; undefined if the audit was aborted. */
async function recallsOf(
  measured: readonly MeasuredBatch[],
  groups: number,
  ways: readonly Way[],
  search: AuditSearch,
): Promise<readonly number[] | undefined> {
  const tallies = ways.map(() => Array.from({ length: groups }, () => new Tally()))
  for (const { batch, truth, group } of measured) {
    const found = await search(ways.flatMap((way) => batch.map((query) => ({ ...query, ...way }))))
    if (found === undefined) return undefined
    for (const [way, of] of tallies.entries()) {
      of[group]!.add(truth, found.slice(way * batch.length, (way + 1) * batch.length), () => true)
    }
  }
  return tallies.map((of) => Math.min(...of.map(({ recall }) => recall)))
}

/**
 * Generates random bits for the slots below `slotCount`, in steps. Each bit is set with probability 1 / 2^halvings.
 *
 * @param random returns numbers in [0, 1)
 */
export function* randomBits(
  slotCount: number,
  halvings: number,
  random: () => number = Math.random,
): Generator<void, SlotBits> {
  const words = new Uint32Array(new SharedArrayBuffer(4 * Math.ceil(slotCount / 32)))
  for (let at = 0; at < words.length; at += 1) {
    let word = 0xffff_ffff
    for (let halving = 0; halving < halvings; halving += 1) word &= Math.floor(random() * 2 ** 32)
    words[at] = word
    if (at % wordsPerStep === 0) yield
  }
  return { id: newFilterId(), version: 0, words }
}

/** Generating this many words takes a few tenths of a millisecond. */
const wordsPerStep = 8192

/** A check of the distance sources of a graph, query by query. */
export interface SourceCheck {
  /** The graph whose metric is checked. */
  readonly graph: number
  /** Local slots, a subset of `others`, whose rows are in memory. */
  readonly queries: readonly number[]
  /** Local slots to search. */
  readonly others: readonly number[]
  /** The position of the first query that is left. */
  readonly from: number
}

/**
 * For each distance source: the share of the true nearest that are among the first slots, as many as a search reranks.
 */
export type SourceRecall = Readonly<Partial<Record<DistanceSource, number>>>

/**
 * Checks whether distances between codes, and between float32 rows, tell the points of a segment apart. If one
 * component, a few outliers or a common offset is thousands of times as large as everything else, all codes are nearly
 * equal. A graph built on them is then no better than chance. Rows do not help if lengths are too large for float32 to
 * square.
 *
 * For each query, the nearest of `others` are found by exact distance. The share of them that are among the `ranked`
 * nearest by a distance kind is the best recall that a graph with this kind can reach, however well it is linked.
 *
 * @param isOver called after each query; once it returns true, the remaining queries are left
 * @returns the shares of the first queries from `from` on, at least of one
 */
export function checkSources(
  { layout }: SegmentHandle,
  access: GraphAccess,
  { graph, queries, others, from }: SourceCheck,
  isOver: () => boolean,
): SourceRecall[] {
  const metric = graphDistanceMetrics[graph]!
  // Slots are encoded when they are linked, and most of these are not linked yet. Points can replace others between
  // the parts of a check, which must not make codes look worse than rows.
  access.encode(others)
  const recalls: SourceRecall[] = []
  const sources = layout.codeBytes > 0 ? (['codes', 'rows'] as const) : (['rows'] as const)
  do {
    const slot = queries[from + recalls.length]!
    const distances = Float64Array.from(others, (other) => access.exactDistance(slot, other, metric))
    const farthest = distances.toSorted()[Math.min(nearest, others.length) - 1]!
    const shares = sources.map((on) => {
      const measured = access.distances(slot, others, distanceKindOf(metric, layout, on))
      return [on, shareOf({ distances, farthest }, measured)]
    })
    recalls.push(Object.fromEntries(shares))
  } while (from + recalls.length < queries.length && !isOver())
  return recalls
}

/** Returns the mean recall of the queries of a check. */
export function meanRecall(recalls: readonly SourceRecall[]): SourceRecall {
  const sources = Object.keys(recalls[0]!) as DistanceSource[]
  return Object.fromEntries(
    sources.map((on) => [on, recalls.reduce((sum, recall) => sum + recall[on]!, 0) / recalls.length]),
  )
}

/** Distances of one query to all slots; `farthest` is that of the last of the nearest. */
interface Truth {
  readonly distances: Float64Array
  readonly farthest: number
}

/**
 * Returns the share of the nearest by exact distance that are among the first `ranked` by another distance. Slots at
 * equal exact distances are interchangeable.
 */
function shareOf({ distances, farthest }: Truth, measured: Float32Array): number {
  const wanted = Math.min(nearest, distances.length)
  // A sort with a comparator would take several times as long. Distances that are not numbers are the farthest.
  const last = measured.toSorted()[Math.min(ranked, measured.length) - 1]!
  // Ties are ordered by position, the order of insertion, which is independent of the distance.
  let tied = ranked - measured.reduce((count, distance) => count + (distance < last ? 1 : 0), 0)
  let found = 0
  for (const [at, distance] of measured.entries()) {
    const isFirst = distance < last || (distance === last && tied > 0)
    if (distance === last) tied -= 1
    if (isFirst && distances[at]! <= farthest) found += 1
  }
  return Math.min(found, wanted) / wanted
}

/** Ten neighbours and the point itself. */
const nearest = 11
/** The number of slots that a search for ten reranks at the default ef. */
const ranked = 42
