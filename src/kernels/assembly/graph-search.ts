import { offerSlot } from './scan'
import { beam, descendTo, emptyPool, isCopyOf, offerFresh, poolCount, slotOf, startPool } from './beam'
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
import { askFor } from './measure'

/**
 * Searches the graph, and the slots that wait to be linked, and offers what it finds to the query's pool of
 * its k nearest (scan.ts), each by its exact distance.
 *
 * The waiting slots come first: one that is linked meanwhile has then been seen already, and one that was
 * linked before is found by the graph.
 *
 * @param reach see `beam`
 * @param rerank how many of the traversal's pool are measured exactly, the nearest first, copies with the first of them
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
): i32 {
  forget()
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
  let ranked = 0
  let last: u64 = u64.MAX_VALUE
  for (let i = 0; i < poolCount && ranked < rerank; i++) {
    const key = load<u64>(pool + (<usize>i << 3))
    const slot = slotOf(key)
    if (slot == offered || !isLive(slot)) continue
    if (!isCopyOf(key, last)) ranked++
    last = key
    count = offer(slot, metric, query, queryNorm, nearest, k, count)
  }
  return count
}

/**
 * Walks through the graph and leaves what it finds in the thread's pool of keys, slots by their codes alone:
 * for rows that are not in memory. The waiting slots join the pool at its end, those that were linked
 * meanwhile and not met among them.
 *
 * @param rerank how many of them will be measured exactly, as `searchGraph` does
 * @returns the number of keys in the pool
 */
export function walkGraph(
  measure: i32,
  query: usize,
  queryNorm: f64,
  ef: i32,
  reach: f32,
  rerank: i32,
  k: i32,
): i32 {
  forget()
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
  return poolCount
}

// @ts-ignore: decorator
@inline
function offer(slot: u32, metric: i32, query: usize, norm: f64, nearest: usize, k: i32, count: i32): i32 {
  return offerSlot(metric, query, norm, rowLength, rows, live, sequences, norms, <i32>slot, nearest, k, count)
}
