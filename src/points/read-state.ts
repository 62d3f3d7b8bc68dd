import { distanceMetrics, type Metric } from '../base/point.ts'
import type { Route } from '../index/routes.ts'
import { type FilteredPlanCounts, filteredPlanNames } from './database.ts'

/**
 * What threads that read a collection must know of it at any time, in shared memory. Only the main thread writes, except
 * for the words about reads. Points and segments are as of the last settled position of the journal (change-journal.ts).
 *
 *   ├ next expiry, sequence (i64) ┼ points, segments, ended, reads, asked, plans, route of each metric (i32) ┤
 *
 *   route: 0 for the exact scan, otherwise 1 + graph + 16 x distance kind + 4096 x ef multiplier
 */
export class ReadState {
  readonly buffer: SharedArrayBuffer
  readonly #longWords: BigInt64Array
  readonly #words: Int32Array

  /** @param buffer on another thread than the main thread */
  constructor(
    buffer: SharedArrayBuffer = new SharedArrayBuffer(16 + 4 * (word.routes + distanceMetrics.length + 1)),
  ) {
    this.buffer = buffer
    this.#longWords = new BigInt64Array(buffer, 0, 2)
    this.#words = new Int32Array(buffer, 16)
  }

  /** When a point expires next, at the earliest, in microseconds since 1970. */
  get nextExpiryUs(): number {
    return Number(Atomics.load(this.#longWords, 0))
  }

  set nextExpiryUs(us: number) {
    Atomics.store(this.#longWords, 0, us === Number.POSITIVE_INFINITY ? neverUs : BigInt(Math.floor(us)))
  }

  /** All changes up to this sequence number that are stored have taken effect. */
  get sequence(): number {
    return Number(Atomics.load(this.#longWords, 1))
  }

  set sequence(sequence: number) {
    Atomics.store(this.#longWords, 1, BigInt(sequence))
  }

  /** The number of visible points. */
  get points(): number {
    return Atomics.load(this.#words, word.points)
  }

  set points(points: number) {
    Atomics.store(this.#words, word.points, points)
  }

  get segments(): number {
    return Atomics.load(this.#words, word.segments)
  }

  set segments(segments: number) {
    Atomics.store(this.#words, word.segments, segments)
  }

  /** Whether the collection is being closed. */
  get hasEnded(): boolean {
    return Atomics.load(this.#words, word.ended) === 1
  }

  end(): void {
    Atomics.store(this.#words, word.ended, 1)
  }

  /** Reading threads: counts a read. */
  noteRead(): void {
    Atomics.add(this.#words, word.reads, 1)
  }

  /** The number of reads so far, modulo 2^32. */
  get reads(): number {
    return Atomics.load(this.#words, word.reads)
  }

  /** Reading threads: counts searches with a filter, by how they were carried out. */
  addPlans(added: FilteredPlanCounts): void {
    for (const [at, name] of filteredPlanNames.entries()) {
      if (added[name] > 0) Atomics.add(this.#words, word.plans + at, added[name])
    }
  }

  /** How many such searches there were, each modulo 2^32. */
  get plans(): FilteredPlanCounts {
    const counts = filteredPlanNames.map((name, at) => [
      name,
      Atomics.load(this.#words, word.plans + at) >>> 0,
    ])
    return Object.fromEntries(counts) as FilteredPlanCounts
  }

  setRoute(metric: Metric, route: Route | undefined): void {
    const packed =
      route === undefined ? 0 : 1 + route.graph + 16 * route.distanceKind + 4096 * route.efMultiplier
    Atomics.store(this.#words, word.routes + distanceMetrics.indexOf(metric), packed)
  }

  /** Reading threads: returns the route of a search, and notes that the metric is in use. */
  routeOf(metric: Metric): Route | undefined {
    const number = distanceMetrics.indexOf(metric)
    Atomics.or(this.#words, word.asked, 1 << number)
    const packed = Atomics.load(this.#words, word.routes + number) - 1
    if (packed < 0) return undefined
    return { graph: packed & 15, distanceKind: (packed >> 4) & 255, efMultiplier: packed >> 12 }
  }

  /** Returns the metrics for which a route was asked since the last call. */
  takeAsked(): Metric[] {
    const asked = Atomics.exchange(this.#words, word.asked, 0)
    return distanceMetrics.filter((_, number) => (asked & (1 << number)) !== 0)
  }
}

const word = { points: 0, segments: 1, ended: 2, reads: 3, asked: 4, plans: 5, routes: 9 } as const
const neverUs = 2n ** 62n
