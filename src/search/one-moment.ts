import type { Hits } from '../index/hits.ts'
import { scalarDistance } from '../kernels/scalar.ts'
import type { PlannedQuery } from './filter-planner.ts'

/**
 * The rule by which the answer to a search is that of one moment. Points change while threads search, and no thread
 * waits for another. The main thread notes each slot in the journal before it changes it, and settles the journal when a
 * request has taken effect. A search on any thread does this:
 *
 *   start = settled ──> walk or scan ──> copy ids ──> every slot noted since `start`: is it a hit, or as near as the
 *                                                     last hit, or is the list not full?
 *                                                       no: the answer      yes: search again
 *
 * Then the answer is that of the last moment at which a request had taken effect as a whole:
 *
 * - A hit was not noted, so the point has been in its slot, unchanged, since before the start.
 * - A point that is missing was noted, too: it came or left after the start. Its slot is measured as it is now, with a
 *   point or without, and is farther than the last hit. Only if a later request has filled the slot again is the point
 *   that left not measured; but then the request that removed it is complete, and the point belongs to no answer.
 * - So a request of which the search has seen a part has no point among the nearest, neither before nor after.
 *
 * A slot that is being filled can be measured wrongly. Its request is not complete, and the answer is that of before.
 */
export function isOfOneMoment(
  touched: TouchedSlots,
  hits: Hits,
  list: number,
  { query, isMeasured, canMatch, read }: RuleOptions,
): boolean {
  const slots = touched.now()
  if (slots === undefined) return false
  const start = hits.startOf(list)
  const end = start + hits.lengthOf(list)
  for (let at = start; at < end; at += 1) if (slots.has(hits.slots[at]!)) return false
  const { vector, metric, limit } = query
  const isFull = end - start >= limit
  if (isFull && !isMeasured) return true
  if (slots.size > measuredMax) return false
  const last = isFull && end > start ? hits.distances[end - 1]! : Number.POSITIVE_INFINITY
  // Kernels add in another order.
  const reach = last + Math.abs(last) * 1e-9 + 1e-12
  for (const slot of slots) {
    if (canMatch(slot) && (!isFull || !(scalarDistance(metric, vector, read(slot)) > reach))) return false
  }
  return true
}

interface RuleOptions {
  readonly query: Pick<PlannedQuery, 'vector' | 'metric' | 'limit'>
  /**
   * Whether slots must be measured. Unless points move or begin to match a filter, a request only adds or only removes
   * points: of a request that a search has seen in part, there is a hit. Many queries of a batch then cost little. Each
   * request is then seen whole or not at all, but of two that take effect during the search, perhaps only the later one.
   */
  readonly isMeasured: boolean
  /** See `SearchedPoints.canMatch`. */
  readonly canMatch: (slot: number) => boolean
  /** Returns the row of a slot, also of an empty one. */
  readonly read: (slot: number) => Float32Array
}

/** The slots whose points were inserted, removed or changed, in order: see `ChangeJournal`. */
export interface Journal {
  readonly position: number
  /** Returns the slots touched since a position; undefined if the journal does not reach back that far. */
  since(position: number): readonly number[] | undefined
}

/**
 * The slots touched since a search began. Collects them when asked, so that the queries of a batch share one set.
 */
export class TouchedSlots {
  /** The journal position at which the search began. */
  readonly start: number
  readonly #journal: Journal
  /** The journal position up to which the set is complete. */
  #end: number
  /** Undefined after too many changes. */
  #slots: Set<number> | undefined = noSlots

  /** @param start see `SearchedPoints` */
  constructor(journal: Journal, start: number) {
    this.#journal = journal
    this.start = start
    this.#end = start
  }

  /** Whether no slot was touched. */
  get isNone(): boolean {
    return this.#journal.position === this.start
  }

  /** Returns the slots touched up to now; undefined if they are too many to look at. Later calls add to the same set. */
  now(): ReadonlySet<number> | undefined {
    const { position } = this.#journal
    if (this.#slots === undefined || position === this.#end) return this.#slots
    const added = position - this.start <= touchedMax ? this.#journal.since(this.#end) : undefined
    // Most searches end before anything is touched, and need no set of their own.
    if (this.#slots === noSlots) this.#slots = new Set()
    if (added === undefined) this.#slots = undefined
    else for (const slot of added) this.#slots.add(slot)
    this.#end = position
    return this.#slots
  }
}

const noSlots = new Set<number>()

/** As many as the journal of a collection keeps: collecting them takes milliseconds, searching again can take seconds. */
const touchedMax = 65_536
/** Measuring this many takes some milliseconds. */
const measuredMax = 8192
