import { beam, descendTo, distanceOf, emptyPool, isCopyOf, offerFresh, poolCount, slotOf, startPool } from './beam'
import {
  ENTRY,
  forget,
  FRESH,
  header,
  isLive,
  isVisited,
  LINKED,
  live,
  m0,
  NONE,
  norms,
  pool,
  ring,
  RING_HEAD,
  RING_TAIL,
  ringLength,
  rowLength,
  rows,
  scratch,
  sequences,
  stateOf,
  visit,
} from './graph-memory'
import { askFor, measuresAs } from './measure'
import { measured, offerSlot } from './scan'

/**
 * Searches the graph, and the slots that wait to be linked, and offers what it finds to the query's pool of
 * its k nearest (scan.ts), each by its exact distance.
 *
 * The waiting slots come first: one that is linked meanwhile has then been seen already, and one that was
 * linked before is found by the graph.
 *
 * @param reach see `beam`
 * @param rerank how many of the traversal's pool are measured exactly, the nearest first, copies with the first of them
 * @param hidden a slot to search as if it were not there, or NONE: so a stored vector can be asked for as one that is not stored
 * @returns the number of entries in the pool of nearest slots afterwards
 */
export function searchGraph(
  metric: i32,
  measure: i32,
  query: usize,
  queryNorm: f64,
  ef: i32,
  reach: f32,
  rerank: i32,
  nearest: usize,
  k: i32,
  count: i32,
  hidden: u32,
): i32 {
  forget()
  if (hidden != NONE) visit(hidden)
  const tail = atomic.load<i64>(header + RING_TAIL)
  for (let place = atomic.load<i64>(header + RING_HEAD); place < tail; place++) {
    const slot = load<u32>(ring + (<usize>(place % ringLength) << 2))
    if (stateOf(slot) == LINKED) continue
    visit(slot)
    count = offer(slot, metric, query, queryNorm, nearest, k, count)
  }
  const entry = atomic.load<i64>(header + ENTRY)
  if (entry < 0) return count
  askFor(query, queryNorm, measure)
  const at = descendTo(0, entry)
  const offered = isVisited(at) ? at : NONE
  startPool(at)
  beam(0, ef, k, reach, k, rerank)
  startRanking(metric, measure, rerank, offered)
  for (let slot = nextRanked(nearest, k, count); slot != NONE; slot = nextRanked(nearest, k, count)) {
    count = offer(slot, metric, query, queryNorm, nearest, k, count)
  }
  return count
}

/**
 * Walks through the graph and leaves what it finds in the thread's pool of keys, slots by their codes alone, for
 * `nextRanked`: the rows are not in memory. The waiting slots join the pool at its end, those that were linked
 * meanwhile and not met among them.
 *
 * @param rerank how many of them are measured exactly at most, as `searchGraph` does
 * @param hidden as for `searchGraph`
 */
export function walkGraph(
  metric: i32,
  measure: i32,
  query: usize,
  queryNorm: f64,
  ef: i32,
  reach: f32,
  rerank: i32,
  k: i32,
  hidden: u32,
): void {
  forget()
  if (hidden != NONE) visit(hidden)
  const head = atomic.load<i64>(header + RING_HEAD)
  const tail = atomic.load<i64>(header + RING_TAIL)
  askFor(query, queryNorm, measure)
  emptyPool()
  const entry = atomic.load<i64>(header + ENTRY)
  if (entry >= 0) {
    startPool(descendTo(0, entry))
    beam(0, ef, k, reach, k, rerank)
  }
  let count = 0
  for (let place = head; place < tail; place++) {
    const slot = load<u32>(ring + (<usize>(place % ringLength) << 2))
    if (isVisited(slot) || !isLive(slot)) continue
    visit(slot)
    store<u32>(scratch + FRESH + (<usize>count << 2), slot)
    count++
    if (count < m0) continue
    offerFresh(count, ef, k, rerank)
    count = 0
  }
  offerFresh(count, ef, k, rerank)
  startRanking(metric, measure, rerank, hidden)
}

/** Where the measuring of the pool's entries stands, and for how many more there is room. */
let place: i32 = 0
let room: i32 = 0
/** A slot to be left out. */
let without: u32 = NONE
let last: u64 = 0
/** What the walk took the last entry's distance for, where it measures what the metric does. */
let estimate: f64 = NaN
let isEstimated: bool = false
/** Of how far it was out, from `first` on: how often that was seen, and the sum of its squares. */
let seen: i32 = 0
let squares: f64 = 0
let first: f64 = -1

function startRanking(metric: i32, measure: i32, rerank: i32, except: u32): void {
  place = 0
  room = rerank
  without = except
  last = u64.MAX_VALUE
  estimate = NaN
  isEstimated = measuresAs(measure, metric)
  seen = 0
  first = -1
}

/**
 * The next slot of the pool that is to be measured exactly and offered, NONE at the end: when `rerank` have been, or all that
 * follow are farther by their codes than the k-th nearest by more than codes are out. How far they are out is what the
 * measured ones show: it depends on the vectors, and no bound that holds for all would end anything.
 *
 * @param nearest the pool of the k nearest, `count` of them
 */
export function nextRanked(nearest: usize, k: i32, count: i32): u32 {
  const error = estimate - measured
  // Not where nothing was estimated, or overflowed.
  if (abs<f64>(error) < Infinity) {
    // Codes are out by less where they are near: copies of the query say nothing of what is farther.
    if (estimate > FAR * first) {
      first = estimate
      seen = 0
      squares = 0
    }
    seen++
    squares += error * error
  }
  estimate = NaN
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
    return slot
  }
  return NONE
}

/** So many standard errors beyond the k-th nearest, an entry is not among them. */
const ERRORS: f64 = 5

/** Fewer entries do not show how far codes are out. */
const SEEN_MIN: i32 = 8

/** Entries that are so many times as far are out by more. */
const FAR: f64 = 4

// @ts-ignore: decorator
@inline
function offer(slot: u32, metric: i32, query: usize, norm: f64, nearest: usize, k: i32, count: i32): i32 {
  return offerSlot(metric, query, norm, rowLength, rows, live, sequences, norms, <i32>slot, nearest, k, count)
}
