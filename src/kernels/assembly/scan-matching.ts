import { live, norms, rowLength, sequenceOf, sequences } from './columns'
import { CACHE_LINE, keepPrefetched, prefetch } from './distance-kinds'
import { offerRow } from './scan'
import { isWanted, wordOf } from './slot-filter'

/**
 * The exact scan of the slots in [from, to) that match the instance's filter. Parameters and result as in `scan`.
 *
 * Matching rows are scattered, so the rows of several slots are prefetched together, as distance-kinds.ts does with
 * codes. The processor then fetches several rows concurrently, and the rest of each row automatically. A fixed number
 * of slots is prefetched, not a word of the bitmap, because where few slots match, most words have one matching slot or
 * none.
 */
export function scanMatching(
  metric: i32,
  query: usize,
  queryNorm: f64,
  rowsAt: usize,
  from: u32,
  to: u32,
  pool: usize,
  k: i32,
  count: i32,
): i32 {
  const rowBytes = <usize>rowLength << 2
  // The prefetching position in the bitmap, and how many slots it is ahead of the scan.
  let ahead = from & ~63
  let aheadBits: u64 = from < to ? wordOf(ahead, from, to) : 0
  let prefetched = 0
  for (let first = from & ~63; first < to; first += 64) {
    for (let bits = wordOf(first, from, to); bits != 0; bits &= bits - 1) {
      if (prefetched == 0) {
        while (prefetched < PREFETCHED_TOGETHER) {
          while (aheadBits == 0 && ahead < to) {
            ahead += 64
            if (ahead < to) aheadBits = wordOf(ahead, from, to)
          }
          if (aheadBits == 0) break
          prefetchRow(<usize>ahead + <usize>ctz<u64>(aheadBits), rowsAt, rowBytes)
          aheadBits &= aheadBits - 1
          prefetched++
        }
      }
      // If the bitmap changes meanwhile, fewer slots may be prefetched than scanned.
      prefetched = max(prefetched - 1, 0)
      const slot = first + <u32>ctz<u64>(bits)
      if (!isWanted(slot)) continue
      const row = rowsAt + <usize>slot * rowBytes
      count = offerRow(metric, query, queryNorm, row, sequenceOf(slot), slot, pool, k, count)
    }
  }
  return count
}

/** Prefetches the first bytes of a row, and the columns that are read for its slot. */
// @ts-ignore: decorator
@inline
function prefetchRow(slot: usize, rowsAt: usize, rowBytes: usize): void {
  let sum = prefetch(live + slot) + prefetch(sequences + (slot << 3)) + prefetch(norms + (slot << 3))
  const row = rowsAt + slot * rowBytes
  const bytes = min<usize>(rowBytes, PREFETCH_BYTES_MAX)
  for (let at: usize = 0; at < bytes; at += CACHE_LINE) sum += prefetch(row + at)
  keepPrefetched(sum)
}

/** The processor prefetches the following bytes automatically, because a row is read in order. */
const PREFETCH_BYTES_MAX: usize = 256

const PREFETCHED_TOGETHER: i32 = 16
