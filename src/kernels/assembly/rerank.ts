import { distanceOf, isCopyOf, poolCount, slotOf } from './beam'
import { NONE, pool } from './graph-memory'
import { estimatesMetric } from './distance-kinds'
import { clearLastDistance, lastDistance } from './scan'
import { isWanted } from './slot-filter'

/**
 * Reranking selects the entries of a walk's pool to compare by exact distance, and decides when to stop.
 *
 * `beginRerank` sets every variable of this file, so that no search depends on the one before it.
 */

/** The next pool entry to consider. */
let nextPlace: i32 = 0
/** How many more entries may be reranked. */
let remaining: i32 = 0
/** A slot that must not be reranked. */
let excluded: u32 = NONE
/** The key that was reranked last. */
let lastKey: u64 = u64.MAX_VALUE
/** Whether the walk's distances are estimates of the metric's. */
let isEstimated: bool = false
/** The walk's distance of the current entry; NaN if it is no estimate of the metric's. */
let estimate: f64 = NaN
/** Number of entries that were reranked. */
let reranked: i32 = 0
/**
 * Number of estimates, from `first` on, that were compared with exact distances, and the sum of their squared errors.
 */
let compared: i32 = 0
let squares: f64 = 0
let first: f64 = 0

/**
 * Resets the reranking for a search.
 *
 * @param rerank maximum number of entries to rerank; copies count as one
 */
export function beginRerank(metric: i32, distanceKind: i32, rerank: i32): void {
  nextPlace = 0
  remaining = rerank
  excluded = NONE
  lastKey = u64.MAX_VALUE
  isEstimated = estimatesMetric(distanceKind, metric)
  estimate = NaN
  reranked = 0
  compared = 0
  squares = 0
  first = 0
}

/** Returns how many slots the last search compared by exact distance, without the slots that wait to be linked. */
export function measuredCount(): i32 {
  return reranked
}

/** Excludes a slot from this search's reranking. */
export function exclude(slot: u32): void {
  excluded = slot
}

/**
 * Returns the next slot of the pool whose exact distance the caller must compute and offer. Returns NONE when `rerank`
 * entries were reranked, or when all following entries are estimated to be farther than the k-th nearest by more than
 * the error of estimates. That error is measured on the entries reranked so far, because it depends on the vectors. A
 * bound for all vectors would never stop early.
 *
 * @param nearest the pool of the k nearest, `count` of them
 */
export function nextToRerank(nearest: usize, k: i32, count: i32): u32 {
  compareEstimate()
  while (nextPlace < poolCount && remaining > 0) {
    const key = load<u64>(pool + (<usize>nextPlace << 3))
    nextPlace++
    const slot = slotOf(key)
    if (slot == excluded || !isWanted(slot)) continue
    const distance = <f64>distanceOf(key)
    if (isEstimated && count == k && compared >= COMPARED_MIN) {
      const beyond = distance - load<f64>(nearest)
      if (beyond > 0 && beyond * beyond * <f64>compared > ERRORS * ERRORS * squares) return NONE
    }
    if (!isCopyOf(key, lastKey)) remaining--
    reranked++
    lastKey = key
    if (isEstimated) estimate = distance
    // If the slot is emptied before its exact distance is computed, no error is counted.
    clearLastDistance()
    return slot
  }
  return NONE
}

/** Counts the error of the last estimate. */
// @ts-ignore: decorator
@inline
function compareEstimate(): void {
  const error = estimate - lastDistance
  // The error is not finite if the estimate or the exact distance is missing or overflowed.
  if (abs<f64>(error) < Infinity) {
    // Near entries have smaller errors. Copies of the query show nothing about farther entries.
    if (compared == 0 || estimate > FAR * first) {
      first = estimate
      compared = 0
      squares = 0
    }
    compared++
    squares += error * error
  }
  estimate = NaN
}

/** An entry this many standard errors beyond the k-th nearest is assumed not to be among the nearest. */
const ERRORS: f64 = 5

/** Fewer entries than this do not show how large the errors of estimates are. */
const COMPARED_MIN: i32 = 8

/** Entries this many times as far have larger errors, so the statistics start again. */
const FAR: f64 = 4
