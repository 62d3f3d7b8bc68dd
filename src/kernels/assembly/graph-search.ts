import { offerSlot } from './scan'
import { beam, descend, poolCount, slotOf, startPool } from './beam'
import {
  ENTRY,
  epoch,
  forget,
  header,
  isLive,
  LINKED,
  live,
  NONE,
  norms,
  pool,
  ring,
  RING_HEAD,
  RING_TAIL,
  ringLength,
  rowLength,
  rows,
  sequences,
  stateOf,
  visit,
  visited,
} from './graph-memory'
import { askFor } from './measure'

/**
 * Searches the graph, and the slots that wait to be linked, and offers what it finds to the query's pool of
 * its k nearest (scan.ts), each by its exact distance.
 *
 * The waiting slots come first: one that is linked meanwhile has then been seen already, and one that was
 * linked before is found by the graph.
 *
 * @param rerank how many of the traversal's pool are measured exactly, the nearest first
 * @returns the number of entries in the pool of nearest slots afterwards
 */
export function searchGraph(
  metric: i32,
  measure: i32,
  query: usize,
  queryNorm: f64,
  ef: i32,
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
  let at = <u32>entry
  for (let level = <i32>(entry >> 32); level > 0; level--) at = descend(at, level)
  const offered = load<u8>(visited + <usize>at) == <u8>epoch ? at : NONE
  startPool(at)
  beam(0, ef)
  let ranked = 0
  for (let i = 0; i < poolCount && ranked < rerank; i++) {
    const slot = slotOf(load<u64>(pool + (<usize>i << 3)))
    if (slot == offered || !isLive(slot)) continue
    ranked++
    count = offer(slot, metric, query, queryNorm, nearest, k, count)
  }
  return count
}

// @ts-ignore: decorator
@inline
function offer(slot: u32, metric: i32, query: usize, norm: f64, nearest: usize, k: i32, count: i32): i32 {
  return offerSlot(metric, query, norm, rowLength, rows, live, sequences, norms, <i32>slot, nearest, k, count)
}
