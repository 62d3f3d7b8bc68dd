import { beam, descendTo, emptyPool, offerFresh, startPool } from './beam'
import { isLive } from './columns'
import { forget, FRESH, header, isVisited, LINKED, m0, NONE, ring, ringLength, scratch, stateOf, visit } from './graph-memory'
import * as words from '../graph-header'
import { askFor } from './measure'
import { beginRanking, leaveOut, nextRanked } from './rerank'
import { offerSlot } from './scan'

/**
 * Searches the graph, and the slots that wait to be linked, and fills the query's pool of its k nearest (scan.ts) with
 * what it finds, each by its exact distance.
 *
 * The waiting slots come first: one that is linked meanwhile has then been seen already, and one that was linked before
 * is found by the graph.
 *
 * @param reach see `beam`
 * @param rerank how many entries of the walk's pool are measured exactly, the nearest first; copies count with the first of them
 * @param hidden a slot to search as if it did not exist, or NONE: so a stored vector can be asked for as one that is not stored
 * @returns the number of entries in the pool of nearest slots
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
  hidden: u32,
): i32 {
  begin(metric, measure, query, queryNorm, rerank, hidden)
  let count = 0
  const tail = atomic.load<i64>(header + words.RING_TAIL)
  for (let place = atomic.load<i64>(header + words.RING_HEAD); place < tail; place++) {
    const slot = waitingAt(place)
    if (stateOf(slot) == LINKED) continue
    visit(slot)
    count = offerSlot(metric, query, queryNorm, slot, nearest, k, count)
  }
  if (!walk(ef, k, reach, rerank)) return count
  for (let slot = nextRanked(nearest, k, count); slot != NONE; slot = nextRanked(nearest, k, count)) {
    count = offerSlot(metric, query, queryNorm, slot, nearest, k, count)
  }
  return count
}

/**
 * Walks through the graph and leaves what it finds in the thread's pool of keys, ordered by codes alone, for
 * `nextRanked`: the rows are not in memory. The waiting slots join the pool after the walk, unless the walk met them.
 *
 * @param rerank how many entries are measured exactly at most, as in `searchGraph`
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
  begin(metric, measure, query, queryNorm, rerank, hidden)
  const head = atomic.load<i64>(header + words.RING_HEAD)
  const tail = atomic.load<i64>(header + words.RING_TAIL)
  walk(ef, k, reach, rerank)
  let count = 0
  for (let place = head; place < tail; place++) {
    const slot = waitingAt(place)
    if (isVisited(slot) || !isLive(slot)) continue
    visit(slot)
    store<u32>(scratch + FRESH + (<usize>count << 2), slot)
    count++
    if (count < m0) continue
    offerFresh(count, ef, k, rerank)
    count = 0
  }
  offerFresh(count, ef, k, rerank)
}

/** Resets everything that a search depends on: nothing of the search before it shows after this. */
function begin(metric: i32, measure: i32, query: usize, queryNorm: f64, rerank: i32, hidden: u32): void {
  forget()
  if (hidden != NONE) visit(hidden)
  emptyPool()
  beginRanking(metric, measure, rerank)
  askFor(query, queryNorm, measure)
}

/** Fills the pool by a walk from the entry point; false where the graph is empty. */
function walk(ef: i32, k: i32, reach: f32, rerank: i32): bool {
  const entry = atomic.load<i64>(header + words.ENTRY)
  if (entry < 0) return false
  const at = descendTo(0, entry)
  // The walk starts there all the same, but it is hidden, or was offered while it waited.
  if (isVisited(at)) leaveOut(at)
  startPool(at)
  beam(0, ef, k, reach, k, rerank)
  return true
}

// @ts-ignore: decorator
@inline
function waitingAt(place: i64): u32 {
  return load<u32>(ring + (<usize>(place % ringLength) << 2))
}
