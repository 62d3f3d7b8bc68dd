import { live, norms, rowLength, sequenceOf, sequences } from './columns'
import { CACHE_LINE } from './distance-kinds'
import { offerRow } from './scan'
import { isWanted, wordOf } from './slot-filter'

/**
 * The exact scan of those slots of [from, to) that match the instance's filter; parameters and result as of `scan`.
 *
 * Matching rows are at any addresses, so the rows of 64 slots are prefetched together, as distance-kinds.ts does with codes: the
 * processor fetches several at once, and the rest of each by itself.
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
  for (let first = from & ~63; first < to; first += 64) {
    const word = wordOf(first, from, to)
    if (word == 0) continue
    prefetchRows(first, word, rowsAt, rowBytes)
    for (let bits = word; bits != 0; bits &= bits - 1) {
      const slot = first + <u32>ctz<u64>(bits)
      if (!isWanted(slot)) continue
      const row = rowsAt + <usize>slot * rowBytes
      count = offerRow(metric, query, queryNorm, row, sequenceOf(slot), slot, pool, k, count)
    }
  }
  return count
}

/** The first bytes of the rows of the set bits of a word, and what else is read of their slots. */
// @ts-ignore: decorator
@inline
function prefetchRows(first: u32, word: u64, rowsAt: usize, rowBytes: usize): void {
  const bytes = min<usize>(rowBytes, PREFETCH_BYTES_MAX)
  for (let bits = word; bits != 0; bits &= bits - 1) {
    const slot = <usize>(first + <u32>ctz<u64>(bits))
    load<u8>(live + slot)
    load<u32>(sequences + (slot << 3))
    load<u32>(norms + (slot << 3))
    const row = rowsAt + slot * rowBytes
    for (let at: usize = 0; at < bytes; at += CACHE_LINE) load<u32>(row + at)
  }
}

/** What follows in a row, the processor fetches by itself, because a row is read in order. */
const PREFETCH_BYTES_MAX: usize = 256
