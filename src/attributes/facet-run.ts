import type { Scalar } from '../base/attributes.ts'
import type { AnswerRoom } from '../base/byte-budget.ts'
import { FirstItems } from '../base/first-items.ts'
import { valueBytes } from '../base/payload-bytes.ts'
import { countersOf, type FacetCounter, type FacetEntry } from './facet-counters.ts'
import type { FilterSource } from './filter-node.ts'
import type { SlotSet } from './slot-set.ts'
import { clearBit, hasBit, slotsOf, wordsFor } from './slot-words.ts'

export interface FacetCount {
  readonly value: Scalar
  readonly count: number
}

/**
 * Counts the values of a set of slots in steps, as of the moment of its construction: a slot that is about to change is
 * counted first, unless it has been counted already.
 */
export class FacetRun {
  /** Slots that have not been counted yet. */
  readonly #left: Uint32Array
  readonly #counters: ReadonlyMap<string, readonly FacetCounter[]>

  /** @param within undefined: all points */
  constructor(source: FilterSource, paths: readonly string[], within: SlotSet | undefined, slotEnd: number) {
    this.#left = new Uint32Array(wordsFor(slotEnd))
    if (within === undefined) source.live.orInto(this.#left)
    else this.#left.set(within.words.subarray(0, this.#left.length))
    this.#counters = new Map([...new Set(paths)].map((path) => [path, countersOf(source, path)]))
  }

  /** Must be called before a slot changes. */
  willChange(slot: number): void {
    if (!hasBit(this.#left, slot)) return
    clearBit(this.#left, slot)
    this.#add(slot)
  }

  *count(): Generator<void, void> {
    let counted = 0
    for (const slot of slotsOf(this.#left)) {
      // It may have been counted since its word was read.
      if (hasBit(this.#left, slot)) this.willChange(slot)
      counted += 1
      if (counted % slotsPerStep === 0) yield
    }
  }

  /** @param room counts the values that are returned */
  *mostFrequent(
    limit: number,
    room?: AnswerRoom,
  ): Generator<void, ReadonlyMap<string, readonly FacetCount[]>> {
    const facets = new Map<string, readonly FacetCount[]>()
    for (const [path, counters] of this.#counters) {
      const best = new FirstItems(limit, compareEntries)
      for (const counter of counters) yield* addAll(best, counter.entries())
      const counts = best.sorted().map(({ value, count }) => ({ value: value(), count }))
      room?.add(counts.reduce((bytes, { value }) => bytes + valueBytes(value), 0))
      facets.set(path, counts)
      yield
    }
    return facets
  }

  /** Idempotent. */
  close(): void {
    for (const counters of this.#counters.values()) for (const counter of counters) counter.close()
  }

  #add(slot: number): void {
    for (const counters of this.#counters.values()) for (const counter of counters) counter.add(slot)
  }
}

/** Adds entries; yields from time to time. */
function* addAll(
  best: FirstItems<FacetEntry>,
  entries: Iterable<FacetEntry | undefined>,
): Generator<void, void> {
  let seen = 0
  for (const entry of entries) {
    if (entry !== undefined) best.add(entry)
    seen += 1
    if (seen % entriesPerStep === 0) yield
  }
}

function compareEntries(one: FacetEntry, other: FacetEntry): number {
  return other.count - one.count || one.rank - other.rank || compareOrders(one, other)
}

function compareOrders({ order }: FacetEntry, { order: otherOrder }: FacetEntry): number {
  if (typeof order === 'number') return order - (otherOrder as number)
  if (order instanceof Uint8Array) return Buffer.compare(order, otherOrder as Uint8Array)
  const [lat, lon] = otherOrder as readonly [number, number]
  return order[0] - lat || order[1] - lon
}

/** Counting this many slots takes about 0.1 ms. */
const slotsPerStep = 1024
const entriesPerStep = 512
