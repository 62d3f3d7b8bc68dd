import * as format from '../memory-format'
import { codeBits, codeOf, codeStride, hashes, hashOf, normOf, rowLength, rowOf, width } from './columns'
import {
  CODE_COSINE_SCALE,
  CODE_HEADER,
  CODE_NORM,
  CODE_SCALE,
  CODE_SUM,
  CODE_ZERO,
  dotCodes4,
  encodeQuery,
  encodeStored,
} from './codes'
import { COSINE, distance64, dot32, EUCLIDEAN, euclidean32, HAMMING, hamming, manhattan32 } from './distances'
import { QUARTET, queryCode, SCORES, scratch, SPILL } from './graph-memory'
import { dotNibbles4, encodeNibbles, NIBBLE_ERROR, NIBBLE_ZERO, unpackNibbles } from './nibbles'

/**
 * Distances from a query vector to slots, four slots at a time. The query vector is a caller's or that of a stored
 * slot.
 *
 * A distance kind says what these distances are computed from: the codes, or the float32 rows under a metric.
 */

/** The distance kinds: codes, or rows under the metric whose number is added to `ROWS`. */
export const CODES_EUCLIDEAN: i32 = format.CODES_EUCLIDEAN
export const CODES_COSINE: i32 = format.CODES_COSINE
export const ROWS: i32 = format.ROWS_KIND

/** Whether the distances of a distance kind estimate those of a metric. Other kinds only order slots similarly. */
export function estimatesMetric(distanceKind: i32, metric: i32): bool {
  if (distanceKind == CODES_EUCLIDEAN) return metric == EUCLIDEAN
  if (distanceKind == CODES_COSINE) return metric == COSINE
  return distanceKind - ROWS == metric
}

/**
 * `setQuery` and `setQuerySlot` set this and one of the two groups of variables below. Only that group is then read.
 */
let currentKind: i32 = 0

/** For rows: the row of the query vector and its length. */
let queryRow: usize = 0
let queryRoot: f32 = 0

/** For codes: the codes of the query vector, and the numbers that turn a dot product into a distance. */
let queryCodes: usize = 0
let base: f32 = 0
let factor: f32 = 0
let constant: i32 = 0
let sumFactor: i32 = 0

/** Makes a stored slot the query. Later distances are measured from it. */
export function setQuerySlot(slot: u32, distanceKind: i32): void {
  currentKind = distanceKind
  if (distanceKind >= ROWS) {
    setQueryRow(rowOf(slot), normOf(slot))
    return
  }
  const code = codeOf(slot)
  if (codeBits != 4) {
    const sum = load<i32>(code + CODE_SUM)
    setQueryCode(code, CODE_ZERO * CODE_ZERO * width - CODE_ZERO * sum, -CODE_ZERO)
    return
  }
  unpackNibbles(code, width, queryCode)
  setQueryCode(queryCode, -NIBBLE_ZERO * load<i32>(queryCode + CODE_SUM), 0)
  // Similar vectors have similar errors, which makes some estimates negative. Clamping these would lose their order, so
  // all distances are raised by the maximum of such an error.
  const error = load<f32>(code + NIBBLE_ERROR)
  base += currentKind == CODES_EUCLIDEAN ? (error + error) * load<f32>(code + CODE_NORM) : error
}

/** Makes a row the query, and encodes it if needed. Later distances are measured from it. */
export function setQuery(row: usize, norm: f64, distanceKind: i32): void {
  currentKind = distanceKind
  if (distanceKind >= ROWS) {
    setQueryRow(row, norm)
    return
  }
  encodeQuery(row, rowLength, width, queryCode)
  const zero = codeBits == 4 ? NIBBLE_ZERO : CODE_ZERO
  setQueryCode(queryCode, -zero * load<i32>(queryCode + CODE_SUM), 0)
}

// @ts-ignore: decorator
@inline
function setQueryRow(row: usize, norm: f64): void {
  queryRow = row
  queryRoot = <f32>Math.sqrt(norm)
}

/**
 * Sets the query from a code with its header. Every stored code has the code of zero added. To correct a dot product
 * for that, `ofSums`, and `ofCode` times the sum of the other code, are added to it.
 */
// @ts-ignore: decorator
@inline
function setQueryCode(code: usize, ofSums: i32, ofCode: i32): void {
  queryCodes = code + CODE_HEADER
  constant = ofSums
  sumFactor = ofCode
  if (currentKind == CODES_EUCLIDEAN) {
    base = load<f32>(code + CODE_NORM)
    factor = 2 * load<f32>(code + CODE_SCALE)
  } else {
    base = 1
    factor = load<f32>(code + CODE_COSINE_SCALE)
  }
}

/**
 * Whether two slots hold the same vector, bit by bit. Codes do not suffice, because thousands of vectors with one
 * dominant component can have the same code. Comparing rows would fetch kilobytes from memory, often for every
 * candidate of a walk. Without hashes, codes are all there is in memory.
 */
export function areCopies(a: u32, b: u32): bool {
  return hashes == 0 ? haveSameCodes(codeOf(a), codeOf(b)) : hashOf(a) == hashOf(b)
}

function haveSameCodes(one: usize, other: usize): bool {
  for (let at: usize = 0; at < codeStride; at += 8) {
    if (load<u64>(one + at) != load<u64>(other + at)) return false
  }
  return true
}

/** Writes the code of a slot whose row is in memory. */
export function encodeSlot(slot: u32): void {
  encodeRow(rowOf(slot), slot)
}

/** Encodes a row at any address as the code of a slot. */
export function encodeRow(row: usize, slot: u32): void {
  if (codeBits == 4) encodeNibbles(row, rowLength, width, codeOf(slot))
  else encodeStored(row, rowLength, width, codeOf(slot))
}

/** Returns the distance of the query vector to a row under a metric, in float32. */
function rowDistance(metric: i32, slot: u32): f32 {
  const row = rowOf(slot)
  if (metric == EUCLIDEAN) return euclidean32(queryRow, row, rowLength)
  if (metric == HAMMING) return <f32>hamming(queryRow, row, rowLength)
  if (metric != COSINE) return manhattan32(queryRow, row, rowLength)
  const root = queryRoot * <f32>Math.sqrt(normOf(slot))
  return root > 0 ? 1 - dot32(queryRow, row, rowLength) / root : 1
}

// @ts-ignore: decorator
@inline
function decodedDistance(code: usize, dot: i32): f32 {
  const signed = <f32>(dot + constant + sumFactor * load<i32>(code + CODE_SUM))
  const distance =
    currentKind == CODES_EUCLIDEAN
      ? base + load<f32>(code + CODE_NORM) - factor * load<f32>(code + CODE_SCALE) * signed
      : base - factor * load<f32>(code + CODE_COSINE_SCALE) * signed
  return distance
}

/** Clamps negative distances to 0 and NaN to infinity, because these would break the order of keys. */
// @ts-ignore: decorator
@inline
function clampDistance(distance: f32): f32 {
  return distance == distance ? max<f32>(distance, 0) : Infinity
}

/** The processor prefetches the following bytes automatically, because a code is read in order. */
const PREFETCH_BYTES_MAX: usize = 320
export const CACHE_LINE: usize = 64

/**
 * Loads a byte of a cache line ahead of its use. WebAssembly has no prefetch instruction. But a load whose value is not
 * needed soon does not delay the next loads, so many are in progress at once. The fewer instructions there are between
 * two loads, the more of them the processor starts.
 *
 * @returns a number for `keepPrefetched`; V8 would drop a load whose value is not used
 */
// @ts-ignore: decorator
@inline
export function prefetch(address: usize, offset: usize = 0): u32 {
  return load<u8>(address + offset)
}

/** Adds what was prefetched to a sum. Without the addition, the next store would make this one needless. */
// @ts-ignore: decorator
@inline
export function keepPrefetched(sum: u32): void {
  prefetchedSum += sum
}

/** Nobody reads it. The compiler must assume that somebody does, because the module exports it. */
export let prefetchedSum: u32 = 0

/** Prefetches the codes of slots. */
// @ts-ignore: decorator
@inline
export function prefetchCodes(slots: usize, count: i32): void {
  if (currentKind >= ROWS) return
  const bytes = min(codeStride, PREFETCH_BYTES_MAX)
  let sum: u32 = 0
  if (bytes > 4 * CACHE_LINE) {
    for (let i = 0; i < count; i++) {
      const code = codeOf(load<u32>(slots + (<usize>i << 2)))
      sum += prefetch(code) + prefetch(code, CACHE_LINE) + prefetch(code, 2 * CACHE_LINE)
      sum += prefetch(code, 3 * CACHE_LINE) + prefetch(code, 4 * CACHE_LINE)
    }
  } else {
    for (let i = 0; i < count; i++) {
      const code = codeOf(load<u32>(slots + (<usize>i << 2)))
      for (let at: usize = 0; at < bytes; at += CACHE_LINE) sum += prefetch(code + at)
    }
  }
  keepPrefetched(sum)
}

/** Writes the distances of four slots to SCORES. */
// @ts-ignore: decorator
@inline
export function score4(a: u32, b: u32, c: u32, d: u32): void {
  const out = scratch + SCORES
  if (currentKind >= ROWS) {
    const metric = currentKind - ROWS
    store<f32>(out, clampDistance(rowDistance(metric, a)))
    store<f32>(out, clampDistance(rowDistance(metric, b)), 4)
    store<f32>(out, clampDistance(rowDistance(metric, c)), 8)
    store<f32>(out, clampDistance(rowDistance(metric, d)), 12)
    return
  }
  const ca = codeOf(a)
  const cb = codeOf(b)
  const cc = codeOf(c)
  const cd = codeOf(d)
  const dots = scratch + QUARTET
  const ra = ca + CODE_HEADER
  const rb = cb + CODE_HEADER
  const rc = cc + CODE_HEADER
  const rd = cd + CODE_HEADER
  if (codeBits == 4) dotNibbles4(queryCodes, ra, rb, rc, rd, <usize>width >> 1, scratch + SPILL, dots)
  else dotCodes4(queryCodes, ra, rb, rc, rd, <usize>width, scratch + SPILL, dots)
  store<f32>(out, clampDistance(decodedDistance(ca, load<i32>(dots))))
  store<f32>(out, clampDistance(decodedDistance(cb, load<i32>(dots, 4))), 4)
  store<f32>(out, clampDistance(decodedDistance(cc, load<i32>(dots, 8))), 8)
  store<f32>(out, clampDistance(decodedDistance(cd, load<i32>(dots, 12))), 12)
}

export function score1(slot: u32): f32 {
  score4(slot, slot, slot, slot)
  return load<f32>(scratch + SCORES)
}

/** Writes the distances of up to four slots of a list of `count`, from entry `at` on, to SCORES. */
// @ts-ignore: decorator
@inline
export function scoreFrom(list: usize, at: i32, count: i32): void {
  const four = list + (<usize>at << 2)
  const a = load<u32>(four)
  score4(
    a,
    at + 1 < count ? load<u32>(four, 4) : a,
    at + 2 < count ? load<u32>(four, 8) : a,
    at + 3 < count ? load<u32>(four, 12) : a,
  )
}

/** Writes the distances of a stored slot to the `count` slots of a list as float32 to `out`, by a distance kind. */
export function distancesFrom(slot: u32, distanceKind: i32, list: usize, count: i32, out: usize): void {
  setQuerySlot(slot, distanceKind)
  for (let at = 0; at < count; at += 4) {
    scoreFrom(list, at, count)
    const end = min(count - at, 4)
    memory.copy(out + (<usize>at << 2), scratch + SCORES, <usize>end << 2)
  }
}

/** Returns the exact (float64) distance of two slots whose rows are in memory. */
export function exactDistance(metric: i32, a: u32, b: u32): f64 {
  return distance64(metric, rowOf(a), rowOf(b), rowLength, normOf(a), normOf(b))
}
