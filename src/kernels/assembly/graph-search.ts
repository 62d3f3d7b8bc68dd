import { beam, descendTo, emptyPool, offerFresh, poolCount, slotOf, startPool } from './beam'
import { isLive, live, norms, rowLength, rowOf, rows, sequences } from './columns'
import { resetVisited, FRESH, header, isVisited, LINKED, m0, NONE, pool, ring, ringLength, scratch, stateOf, visit } from './graph-memory'
import * as words from '../graph-header'
import { CACHE_LINE, keepPrefetched, prefetch, setQuery } from './distance-kinds'
import { beginRerank, exclude, nextToRerank } from './rerank'
import { offerSlot } from './scan'
import { isWanted, wordOf } from './slot-filter'

/**
 * Searches the graph and the slots that wait to be linked, and fills the query's pool of its k nearest (scan.ts) by
 * exact distance. With a filter, only matching slots count; see beam.ts.
 *
 * The waiting slots are searched first. So a slot that is linked during the search has already been seen, and the graph
 * has the slots linked before.
 *
 * @param reach see `beam`
 * @param rerank maximum number of pool entries to rerank by exact distance, the nearest first; copies count as one
 * @param hidden a slot that the search ignores, or NONE; a stored vector can so be searched for as if it were not
 *   stored
 * @returns the number of entries in the pool of nearest slots
 */
export function searchGraph(
  metric: i32,
  distanceKind: i32,
  query: usize,
  queryNorm: f64,
  ef: i32,
  reach: f32,
  rerank: i32,
  nearest: usize,
  k: i32,
  hidden: u32,
): i32 {
  begin(metric, distanceKind, query, queryNorm, rerank, hidden)
  let count = 0
  const tail = atomic.load<i64>(header + words.RING_TAIL)
  for (let place = atomic.load<i64>(header + words.RING_HEAD); place < tail; place++) {
    const slot = waitingAt(place)
    if (stateOf(slot) == LINKED) continue
    visit(slot)
    count = offerSlot(metric, query, queryNorm, slot, nearest, k, count)
  }
  if (!walk(ef, k, reach, rerank)) return count
  prefetchRows(min(k + MEASURED_BEYOND, poolCount))
  return rerankAll(metric, query, queryNorm, nearest, k, count)
}

/** At least about this many entries beyond k are measured. */
const MEASURED_BEYOND: i32 = 4

/** The processor prefetches the rest of a row by itself. */
const PREFETCH_ROW_BYTES: usize = 2048

/** Prefetches what is read of the nearest slots of the pool when they are measured exactly. */
function prefetchRows(count: i32): void {
  const bytes = min(<usize>rowLength << 2, PREFETCH_ROW_BYTES)
  let sum: u32 = 0
  for (let place = 0; place < count; place++) {
    const slot = slotOf(load<u64>(pool + (<usize>place << 3)))
    sum += prefetch(live + <usize>slot) + prefetch(norms + (<usize>slot << 3)) + prefetch(sequences + (<usize>slot << 3))
    const row = rowOf(slot)
    for (let at: usize = 0; at < bytes; at += CACHE_LINE) sum += prefetch(row + at)
  }
  keepPrefetched(sum)
}

/** Offers the entries of a walk's pool by exact distance while they can be among the nearest; see `nextToRerank`. */
function rerankAll(metric: i32, query: usize, queryNorm: f64, nearest: usize, k: i32, count: i32): i32 {
  for (let slot = nextToRerank(nearest, k, count); slot != NONE; slot = nextToRerank(nearest, k, count)) {
    count = offerSlot(metric, query, queryNorm, slot, nearest, k, count)
  }
  return count
}

/**
 * Searches if rows are not in memory: leaves the slots that the walk finds in the thread's pool of keys, ordered by
 * codes only, for `nextToRerank`. The waiting slots are added to the pool after the walk, unless the walk visited them.
 *
 * @param rerank as for `searchGraph`
 * @param hidden as for `searchGraph`
 */
export function walkGraph(
  metric: i32,
  distanceKind: i32,
  query: usize,
  queryNorm: f64,
  ef: i32,
  reach: f32,
  rerank: i32,
  k: i32,
  hidden: u32,
): void {
  begin(metric, distanceKind, query, queryNorm, rerank, hidden)
  const head = atomic.load<i64>(header + words.RING_HEAD)
  const tail = atomic.load<i64>(header + words.RING_TAIL)
  walk(ef, k, reach, rerank)
  let count = 0
  for (let place = head; place < tail; place++) {
    const slot = waitingAt(place)
    if (isVisited(slot) || !isWanted(slot)) continue
    visit(slot)
    store<u32>(scratch + FRESH + (<usize>count << 2), slot)
    count++
    if (count < m0) continue
    offerFresh(count, ef, k, rerank)
    count = 0
  }
  offerFresh(count, ef, k, rerank)
}

/** Resets all state of a search, so that it is independent of the search before. */
function begin(metric: i32, distanceKind: i32, query: usize, queryNorm: f64, rerank: i32, hidden: u32): void {
  resetVisited()
  if (hidden != NONE) visit(hidden)
  emptyPool()
  beginRerank(metric, distanceKind, rerank)
  setQuery(query, queryNorm, distanceKind)
}

/** Fills the pool by a walk from the entry point. Returns false if the graph is empty. */
function walk(ef: i32, k: i32, reach: f32, rerank: i32): bool {
  const entry = atomic.load<i64>(header + words.ENTRY)
  if (entry < 0) return false
  const at = descendTo(0, entry)
  // The walk starts here anyway, but the slot must not be reranked: it is hidden, or was offered while it waited.
  if (isVisited(at)) exclude(at)
  startPool(at)
  beam(0, ef, k, reach, k, rerank)
  return true
}

// @ts-ignore: decorator
@inline
function waitingAt(place: i64): u32 {
  return load<u32>(ring + (<usize>(place % ringLength) << 2))
}

/**
 * The scan by codes: like a walk that visits exactly the slots that match the instance's filter. It fills the pool of
 * keys with the `breadth` nearest by code, which are then measured exactly like those of a walk. A scan spends all its
 * time on reading, and a code has only a quarter (7 bits) or an eighth (4 bits) of the bytes of its row, plus a header.
 *
 * Call `beginCodeScan`, then `scanCodes` any number of times, then `finishCodeScan`, or `nextToRerank` if rows are on
 * disk. The caller can check for cancellation between the calls of `scanCodes`.
 */
export function beginCodeScan(metric: i32, distanceKind: i32, query: usize, queryNorm: f64, breadth: i32): void {
  begin(metric, distanceKind, query, queryNorm, breadth, NONE)
}

/**
 * Scans slots [from, to). If rows are in memory, a slot that waits to be linked has no code yet. It is offered directly
 * to `nearest`, the pool of the k nearest, which holds `count` entries.
 *
 * @returns the number of entries in the pool of nearest slots
 */
export function scanCodes(
  metric: i32,
  query: usize,
  queryNorm: f64,
  from: u32,
  to: u32,
  breadth: i32,
  nearest: usize,
  k: i32,
  count: i32,
): i32 {
  const fresh = scratch + FRESH
  let gathered = 0
  for (let first = from & ~63; first < to; first += 64) {
    for (let bits = wordOf(first, from, to); bits != 0; bits &= bits - 1) {
      const slot = first + <u32>ctz<u64>(bits)
      if (!isLive(slot)) continue
      if (rows != 0 && stateOf(slot) != LINKED) {
        count = offerSlot(metric, query, queryNorm, slot, nearest, k, count)
        continue
      }
      store<u32>(fresh + (<usize>gathered << 2), slot)
      if (++gathered < m0) continue
      offerFresh(gathered, breadth, k, breadth)
      gathered = 0
    }
  }
  offerFresh(gathered, breadth, k, breadth)
  return count
}

/**
 * Measures the nearest by code exactly while they can be among the k nearest. Parameters and result as in `scanCodes`.
 */
export function finishCodeScan(
  metric: i32,
  query: usize,
  queryNorm: f64,
  nearest: usize,
  k: i32,
  count: i32,
): i32 {
  return rerankAll(metric, query, queryNorm, nearest, k, count)
}
