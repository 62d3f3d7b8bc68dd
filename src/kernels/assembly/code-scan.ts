import { offerFresh } from './beam'
import { isLive, rows } from './columns'
import { FRESH, LINKED, m0, NONE, scratch, stateOf } from './graph-memory'
import { begin, rerankAll } from './graph-search'
import { offerSlot } from './scan'
import { wordOf } from './slot-filter'

/**
 * The scan by codes of the slots that match the instance's filter: a walk that visits all of them and nothing else. It fills the
 * pool of keys with the `breadth` nearest by code; these are then measured exactly, as those of a walk are. A code takes an eighth
 * of its row's bytes or less, and all of a scan's time is reading.
 *
 * `beginCodeScan`, any number of `scanCodes` (between which the caller can check for cancellation), and `finishCodeScan`;
 * where rows are on disk, `nextToRerank` in place of the last.
 */
export function beginCodeScan(metric: i32, measure: i32, query: usize, queryNorm: f64, breadth: i32): void {
  begin(metric, measure, query, queryNorm, breadth, NONE)
}

/**
 * Scans slots [from, to). A slot that waits to be linked has no code yet where rows are in memory: it is offered to the pool of the k
 * nearest at once, which is `nearest` and holds `count`.
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

/** Measures the nearest by code exactly, as far as they can be among the k nearest; parameters and result as of `scanCodes`. */
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
