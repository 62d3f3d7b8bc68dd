import { isLive } from './columns'

/**
 * The slots that a search wants: all live slots or, with a filter, the live slots whose bit is set.
 *
 * The instance's filter is set before a filtered search and cleared after it, so that links and searches without a
 * filter see every live slot. Without a filter, hot code tests only one variable, which is constant during a search.
 */

/** Address of the bitmap with a bit for each slot; 0 without a filter. */
export let filter: usize = 0

/** A walk gives up once it has compared more slots, because a scan of the matching slots would have cost no more. */
export let comparedMax: i32 = i32.MAX_VALUE

/**
 * Sets the filter of the next search.
 *
 * @param bitmap address of the bitmap, a multiple of 8; 0 to clear the filter
 */
export function setFilter(bitmap: usize, walkMax: i32): void {
  filter = bitmap
  comparedMax = walkMax
}

// @ts-ignore: decorator
@inline
export function isWanted(slot: u32): bool {
  return isLive(slot) && (filter == 0 || hasBit(slot))
}

// @ts-ignore: decorator
@inline
function hasBit(slot: u32): bool {
  return ((load<u32>(filter + (<usize>(slot >>> 5) << 2)) >>> (slot & 31)) & 1) != 0
}

/** Returns the 64-bit word of the bitmap that contains `slot`, with only the bits of slots [from, to). */
// @ts-ignore: decorator
@inline
export function wordOf(slot: u32, from: u32, to: u32): u64 {
  const first = slot & ~63
  let word = load<u64>(filter + (<usize>(slot >>> 6) << 3))
  if (first < from) word &= u64.MAX_VALUE << <u64>(from - first)
  if (to - first < 64) word &= ~(u64.MAX_VALUE << <u64>(to - first))
  return word
}

/** Returns how many bits of slots [from, to) are set. */
export function countMatching(from: u32, to: u32): i32 {
  let count = 0
  for (let slot = from & ~63; slot < to; slot += 64) count += <i32>popcnt<u64>(wordOf(slot, from, to))
  return count
}
