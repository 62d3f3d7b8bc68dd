import { offerFresh } from './beam'
import { isLive, rows } from './columns'
import { FRESH, LINKED, m0, NONE, scratch, stateOf } from './graph-memory'
import { begin, rerankAll } from './graph-search'
import { offerSlot } from './scan'
import { wordOf } from './slot-filter'

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
