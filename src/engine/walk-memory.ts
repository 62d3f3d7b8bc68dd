/** What walks with a filter have shown. */
interface Record {
  /** Whether the last walk reached its end. */
  readonly hasEnded: boolean
  /** How many scans follow a walk that was given up, and how many of them are left. */
  readonly scans: number
  left: number
}

/** What short walks with new filters have shown, of filters that so many points match. */
interface Bin {
  /** The share of walks that reached their end: a moving average. */
  ended: number
  /** Scans since the last walk. */
  scans: number
}

/**
 * Remembers which filters' points are elsewhere than the queries: walks with such a filter are given up. After one, the filter is
 * scanned at once for the next 2 queries, then 4, up to 64, with a walk in between to see whether that still holds.
 *
 * Filters can be new with every query. Of those, the share of short walks that reached their end is kept, by how many points
 * match: where nearly none did, only every eighth query tries.
 */
export class WalkMemory {
  readonly #filters = new Map<number, Record>()
  readonly #bins = new Map<number, Bin>()

  /** Whether the last walk with a filter reached its end. */
  hasEnded(filter: number): boolean {
    return this.#filters.get(filter)?.hasEnded ?? false
  }

  /** Whether to scan at once, because walks with the filter were given up. Call once a query. */
  isElsewhere(filter: number): boolean {
    const known = this.#filters.get(filter)
    if (known === undefined || known.left === 0) return false
    known.left -= 1
    return true
  }

  /** Whether to try a short walk, with a filter that so many points match. Call once a query. */
  isWorthTrying(filter: number, matching: number): boolean {
    if (this.#filters.has(filter)) return !this.isElsewhere(filter)
    const bin = this.#bins.get(binOf(matching))
    if (bin === undefined || bin.ended >= endedMin || bin.scans >= scansBetween) return true
    bin.scans += 1
    return false
  }

  /** Remembers how a walk has ended. */
  note(filter: number, hasGivenUp: boolean): void {
    const scans = hasGivenUp ? Math.min(scansMax, 2 * (this.#filters.get(filter)?.scans ?? 1)) : 1
    this.#filters.delete(filter)
    this.#filters.set(filter, { hasEnded: !hasGivenUp, scans, left: hasGivenUp ? scans : 0 })
    if (this.#filters.size > filtersMax) this.#filters.delete(this.#filters.keys().next().value!)
  }

  /** Remembers how a short walk has ended. */
  noteTrial(filter: number, matching: number, hasGivenUp: boolean): void {
    if (!this.#filters.has(filter)) {
      const { ended } = this.#bins.get(binOf(matching)) ?? { ended: 0.5 }
      this.#bins.set(binOf(matching), { ended: ended + (Number(!hasGivenUp) - ended) / 8, scans: 0 })
    }
    this.note(filter, hasGivenUp)
  }
}

/** Within a factor of two, so there are at most 33. */
function binOf(matching: number): number {
  return Math.floor(Math.log2(Math.max(1, matching)))
}

/** A short walk costs a third of the scan at most, and saves half of it or more. */
const endedMin = 0.25
const scansBetween = 7

/** After walks that were given up again and again, this many scans follow each. */
const scansMax = 64

const filtersMax = 1024
