/** The outcome of walks with a filter. */
interface Record {
  /** Whether the last walk reached its end. */
  readonly hasEnded: boolean
  /** How many scans follow a walk that was given up, and how many of them remain. */
  readonly scans: number
  left: number
}

/** The outcome of short walks with new filters, for filters that a similar number of points match. */
interface Bin {
  /** The share of walks that reached their end, as a moving average. */
  ended: number
  /** The number of scans since the last walk. */
  scans: number
}

/**
 * Remembers the filters whose points are far from the queries: walks with such a filter are given up. The next 2
 * queries with the filter then scan immediately. The number doubles each time, up to 64; a walk in between checks
 * whether the points are still far.
 *
 * Filters can be new with every query. For these, the share of short walks that reached their end is kept by the number
 * of matching points. Where nearly none did, only every eighth query tries a walk.
 */
export class WalkMemory {
  readonly #filters = new Map<number, Record>()
  readonly #bins = new Map<number, Bin>()

  /** Whether the last walk with a filter reached its end. */
  hasEnded(filter: number): boolean {
    return this.#filters.get(filter)?.hasEnded ?? false
  }

  /** Whether to scan immediately because walks with the filter were given up. Call once per query. */
  isElsewhere(filter: number): boolean {
    const known = this.#filters.get(filter)
    if (known === undefined || known.left === 0) return false
    known.left -= 1
    return true
  }

  /** Whether to try a short walk with a filter that this many points match. Call once per query. */
  isWorthTrying(filter: number, matching: number): boolean {
    if (this.#filters.has(filter)) return !this.isElsewhere(filter)
    const bin = this.#bins.get(binOf(matching))
    if (bin === undefined || bin.ended >= endedMin || bin.scans >= scansBetween) return true
    bin.scans += 1
    return false
  }

  /** Records how a walk ended. */
  note(filter: number, hasGivenUp: boolean): void {
    const scans = hasGivenUp ? Math.min(scansMax, 2 * (this.#filters.get(filter)?.scans ?? 1)) : 1
    this.#filters.delete(filter)
    this.#filters.set(filter, { hasEnded: !hasGivenUp, scans, left: hasGivenUp ? scans : 0 })
    if (this.#filters.size > filtersMax) this.#filters.delete(this.#filters.keys().next().value!)
  }

  /** Records how a short walk ended. */
  noteTrial(filter: number, matching: number, hasGivenUp: boolean): void {
    if (!this.#filters.has(filter)) {
      const { ended } = this.#bins.get(binOf(matching)) ?? { ended: 0.5 }
      this.#bins.set(binOf(matching), { ended: ended + (Number(!hasGivenUp) - ended) / 8, scans: 0 })
    }
    this.note(filter, hasGivenUp)
  }
}

/** Counts within a factor of two share a bin, so there are at most 33. */
function binOf(matching: number): number {
  return Math.floor(Math.log2(Math.max(1, matching)))
}

/** A short walk costs at most a third of the scan, and saves at least half of it. */
const endedMin = 0.25
const scansBetween = 7

/** The most scans that follow each walk, after walks were given up again and again. */
const scansMax = 64

const filtersMax = 1024
