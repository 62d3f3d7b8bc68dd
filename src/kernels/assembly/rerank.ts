import { distanceOf, isCopyOf, poolCount, slotOf } from './beam'
import { isLive } from './columns'
import { NONE, pool } from './graph-memory'
import { measuresAs } from './measure'
import { forgetMeasured, measured } from './scan'

/**
 * Which entries of a walk's pool are measured exactly, and when that ends.
 *
 * `beginRanking` sets every variable of this file, so that no search sees what the one before it has left.
 */

/** The next entry to look at. */
let place: i32 = 0
/** How many more may be measured. */
let room: i32 = 0
/** A slot to leave out. */
let without: u32 = NONE
/** The key that was measured last. */
let last: u64 = u64.MAX_VALUE
/** Whether the walk's distances estimate the metric's. */
let isEstimated: bool = false
/** The walk's distance of the entry that is being measured; NaN where it does not estimate the metric's. */
let estimate: f64 = NaN
/** How many estimates were compared with what was measured, from `first` on, and the sum of their squared errors. */
let seen: i32 = 0
let squares: f64 = 0
let first: f64 = 0

/**
 * Starts the measuring of a search.
 *
 * @param rerank how many entries are measured at most, copies counted with the first of them
 */
export function beginRanking(metric: i32, measure: i32, rerank: i32): void {
  place = 0
  room = rerank
  without = NONE
  last = u64.MAX_VALUE
  isEstimated = measuresAs(measure, metric)
  estimate = NaN
  seen = 0
  squares = 0
  first = 0
}

/** Leaves a slot out of this search's measuring. */
export function leaveOut(slot: u32): void {
  without = slot
}

/**
 * The next slot of the pool to measure exactly and offer; NONE when `rerank` have been measured, or when all that follow are
 * estimated to be farther than the k-th nearest by more than estimates are off. How far they are off is taken from the entries
 * that were measured: it depends on the vectors, and a bound that holds for all vectors would end nothing.
 *
 * @param nearest the pool of the k nearest, `count` of them
 */
export function nextRanked(nearest: usize, k: i32, count: i32): u32 {
  compareEstimate()
  while (place < poolCount && room > 0) {
    const key = load<u64>(pool + (<usize>place << 3))
    place++
    const slot = slotOf(key)
    if (slot == without || !isLive(slot)) continue
    const distance = <f64>distanceOf(key)
    if (isEstimated && count == k && seen >= SEEN_MIN) {
      const beyond = distance - load<f64>(nearest)
      if (beyond > 0 && beyond * beyond * <f64>seen > ERRORS * ERRORS * squares) return NONE
    }
    if (!isCopyOf(key, last)) room--
    last = key
    if (isEstimated) estimate = distance
    // A slot that is emptied before it is measured says nothing of errors.
    forgetMeasured()
    return slot
  }
  return NONE
}

/** Counts the error of the last estimate. */
// @ts-ignore: decorator
@inline
function compareEstimate(): void {
  const error = estimate - measured
  // Not where nothing was estimated or measured, or a distance overflowed.
  if (abs<f64>(error) < Infinity) {
    // Near entries are off by less: copies of the query say nothing of farther ones.
    if (seen == 0 || estimate > FAR * first) {
      first = estimate
      seen = 0
      squares = 0
    }
    seen++
    squares += error * error
  }
  estimate = NaN
}

/** An entry so many standard errors beyond the k-th nearest is not among the nearest. */
const ERRORS: f64 = 5

/** Fewer entries do not show how far estimates are off. */
const SEEN_MIN: i32 = 8

/** Entries this many times as far are off by more. */
const FAR: f64 = 4
