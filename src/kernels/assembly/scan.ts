import { live, normOf, norms, rowLength, rowOf, sequenceOf, sequences } from './columns'
import {
  cosineOf,
  dot32,
  dot64,
  EUCLIDEAN,
  euclidean32,
  euclidean64,
  HAMMING,
  hamming,
  MANHATTAN,
  manhattan32,
  manhattan64,
} from './distances'
import { CACHE_LINE, keepPrefetched, prefetch } from './distance-kinds'
import { isWanted, wordOf } from './slot-filter'

/**
 * The exact scan, and the pool of nearest slots that it fills.
 *
 * The distance is defined in float64 over the stored float32 values. The scan returns the order of that definition at
 * the speed of float32: the float32 kernel filters, and the float64 kernel decides. A row is skipped only if its
 * float32 distance exceeds the k-th best float64 distance by more than float32 rounding can explain. With u = 2^-24 and
 * 16 lanes that each add n/16 terms:
 *
 *   sums of non-negative terms (Euclidean, Manhattan): relative error <= (n/16 + 8) u: three roundings in a
 *     term, n/16 - 1 in a lane, four in the reduction; and n * 2^-149 where terms underflow;
 *   dot product (Cosine): absolute error <= (n/16 + 8) u * |a| |b|, by Cauchy-Schwarz.
 *
 * The slack is twice these bounds. Rows whose float32 distance is not finite, and cosines of norms so small that
 * underflow could matter, are always computed in float64. Hamming counts are exact in either precision.
 */

/** Below this product of norms, the terms of a dot product may underflow by more than the slack allows. */
const NORM_PRODUCT_MIN: f64 = 1e-30

/** 2^-149, the smallest positive float32. */
const LEAST_F32: f64 = 1.401298464324817e-45

/**
 * Offers the live rows of slots [from, to) to a query's pool of its k nearest.
 *
 * The pool is a max-heap by (distance, sequence) in three parallel columns of k places: f64 distances at `pool`, then
 * f64 sequences, then u32 slots. It holds `count` entries at the call.
 *
 * Columns are read without locks while a writer may change slots: `live` is read first, then the sequence, then the
 * row. The engine drops a torn read, because the slot's sequence has changed by then.
 *
 * @param rowsAt address of row 0, or where it would be if the rows before `from` were in memory too
 * @returns the number of entries in the pool afterwards
 */
export function scan(
  metric: i32,
  query: usize,
  queryNorm: f64,
  rowsAt: usize,
  from: i32,
  to: i32,
  pool: usize,
  k: i32,
  count: i32,
): i32 {
  // Copied to locals for the loop.
  const n = rowLength
  const liveAt = live
  const sequencesAt = sequences
  const normsAt = norms
  for (let slot = from; slot < to; slot++) {
    if (atomic.load<u8>(liveAt + <usize>slot) == 0) continue
    const sequence = load<f64>(sequencesAt + (<usize>slot << 3))
    const row = rowsAt + <usize>slot * (<usize>n << 2)
    const norm = load<f64>(normsAt + (<usize>slot << 3))
    count = measureRow(metric, query, queryNorm, n, row, norm, sequence, slot, pool, k, count)
  }
  return count
}

/** Offers one slot whose row is in memory, if the search wants the slot. Parameters and result as in `scan`. */
// @ts-ignore: decorator
@inline
export function offerSlot(
  metric: i32,
  query: usize,
  queryNorm: f64,
  slot: u32,
  pool: usize,
  k: i32,
  count: i32,
): i32 {
  if (!isWanted(slot)) return count
  return offerRow(metric, query, queryNorm, rowOf(slot), sequenceOf(slot), slot, pool, k, count)
}

/**
 * Offers the row of a slot, which may be at any address. Parameters and result as in `scan`.
 *
 * @param sequence the slot's sequence, read before its row
 */
export function offerRow(
  metric: i32,
  query: usize,
  queryNorm: f64,
  row: usize,
  sequence: f64,
  slot: u32,
  pool: usize,
  k: i32,
  count: i32,
): i32 {
  const norm = normOf(slot)
  return measureRow(metric, query, queryNorm, rowLength, row, norm, sequence, <i32>slot, pool, k, count)
}

/** The distance of the row that was offered last; in float32 precision if that sufficed to skip the row. */
export let lastDistance: f64 = NaN

/** Makes `lastDistance` NaN until a row is offered. */
// @ts-ignore: decorator
@inline
export function clearLastDistance(): void {
  lastDistance = NaN
}

// @ts-ignore: decorator
@inline
function measureRow(
  metric: i32,
  query: usize,
  queryNorm: f64,
  n: i32,
  row: usize,
  norm: f64,
  sequence: f64,
  slot: i32,
  pool: usize,
  k: i32,
  count: i32,
): i32 {
  // Nothing is farther than the k-th of a pool that is not full.
  const isFull = count == k
  const worst = isFull ? load<f64>(pool) : Infinity
  const slack: f64 = (<f64>n / 16 + 8) * 2 * (1.0 / 16777216.0)
  let distance: f64
  if (metric == HAMMING) {
    distance = <f64>hamming(query, row, n)
  } else if (metric == EUCLIDEAN || metric == MANHATTAN) {
    if (isFull) {
      const filter = <f64>(metric == EUCLIDEAN ? euclidean32(query, row, n) : manhattan32(query, row, n))
      lastDistance = filter
      if (filter < Infinity && filter > worst * (1 + slack) + <f64>n * LEAST_F32 * 2) return count
    }
    distance = metric == EUCLIDEAN ? euclidean64(query, row, n) : manhattan64(query, row, n)
  } else {
    const normProduct = queryNorm * norm
    if (isFull) {
      const root = sqrt<f64>(normProduct)
      const filter = <f64>dot32(query, row, n)
      lastDistance = 1 - filter / root
      if (root >= NORM_PRODUCT_MIN && abs<f64>(filter) < Infinity && lastDistance > worst + slack) return count
    }
    distance = cosineOf(dot64(query, row, n), normProduct)
  }
  lastDistance = distance
  return offer(pool, k, count, distance, sequence, <u32>slot)
}

/** Adds an entry to the pool if it is among the k nearest. Returns the new number of entries. */
function offer(pool: usize, k: i32, count: i32, distance: f64, sequence: f64, slot: u32): i32 {
  if (count < k) {
    siftUp(pool, k, count, distance, sequence, slot)
    return count + 1
  }
  if (isBefore(distance, sequence, load<f64>(pool), load<f64>(pool + (<usize>k << 3)))) {
    siftDown(pool, k, count, 0, distance, sequence, slot)
  }
  return count
}

// @ts-ignore: decorator
@inline
function isBefore(distance: f64, sequence: f64, otherDistance: f64, otherSequence: f64): bool {
  return distance < otherDistance || (distance == otherDistance && sequence < otherSequence)
}

// @ts-ignore: decorator
@inline
function put(pool: usize, k: i32, at: i32, distance: f64, sequence: f64, slot: u32): void {
  store<f64>(pool + (<usize>at << 3), distance)
  store<f64>(pool + (<usize>(k + at) << 3), sequence)
  store<u32>(pool + (<usize>k << 4) + (<usize>at << 2), slot)
}

// @ts-ignore: decorator
@inline
function move(pool: usize, k: i32, from: i32, to: i32): void {
  put(
    pool,
    k,
    to,
    load<f64>(pool + (<usize>from << 3)),
    load<f64>(pool + (<usize>(k + from) << 3)),
    load<u32>(pool + (<usize>k << 4) + (<usize>from << 2)),
  )
}

function siftUp(pool: usize, k: i32, at: i32, distance: f64, sequence: f64, slot: u32): void {
  while (at > 0) {
    const parent = (at - 1) >> 1
    const parentDistance = load<f64>(pool + (<usize>parent << 3))
    if (isBefore(distance, sequence, parentDistance, load<f64>(pool + (<usize>(k + parent) << 3)))) break
    move(pool, k, parent, at)
    at = parent
  }
  put(pool, k, at, distance, sequence, slot)
}

function siftDown(pool: usize, k: i32, count: i32, at: i32, distance: f64, sequence: f64, slot: u32): void {
  while (true) {
    let child = 2 * at + 1
    if (child >= count) break
    let childDistance = load<f64>(pool + (<usize>child << 3))
    let childSequence = load<f64>(pool + (<usize>(k + child) << 3))
    if (child + 1 < count) {
      const otherDistance = load<f64>(pool + (<usize>(child + 1) << 3))
      const otherSequence = load<f64>(pool + (<usize>(k + child + 1) << 3))
      if (isBefore(childDistance, childSequence, otherDistance, otherSequence)) {
        child += 1
        childDistance = otherDistance
        childSequence = otherSequence
      }
    }
    if (!isBefore(distance, sequence, childDistance, childSequence)) break
    move(pool, k, child, at)
    at = child
  }
  put(pool, k, at, distance, sequence, slot)
}

/** Sorts the heap into ascending order, in place. */
export function sortPool(pool: usize, k: i32, count: i32): void {
  for (let last = count - 1; last > 0; last--) {
    const distance = load<f64>(pool + (<usize>last << 3))
    const sequence = load<f64>(pool + (<usize>(k + last) << 3))
    const slot = load<u32>(pool + (<usize>k << 4) + (<usize>last << 2))
    move(pool, k, 0, last)
    siftDown(pool, k, last, 0, distance, sequence, slot)
  }
}

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
