/**
 * Distances between float32 rows, and the exact scan that is built on them.
 *
 * Raw linear memory, no runtime, no allocation: callers pass byte addresses. A row is 64-byte aligned and
 * padded with zeros to a multiple of 16 components, so that no kernel has a tail; zeros on both sides add
 * nothing under any metric. Metrics are numbered as in `vectordb.Similarity`.
 *
 * The distance is defined in float64 over the stored float32 values. The scan returns the order of that
 * definition at the speed of float32: the float32 kernel is a filter, the float64 kernel is the judge. A row
 * is passed over only when its float32 distance exceeds the k-th best float64 distance by more than float32
 * rounding can explain. With u = 2^-24 and 16 lanes that each add n/16 terms:
 *
 *   sums of non-negative terms (Euclidean, Manhattan): relative error <= (n/16 + 8) u: three roundings in a
 *     term, n/16 - 1 in a lane, four in the reduction; and n * 2^-149 where terms underflow;
 *   dot product (Cosine): absolute error <= (n/16 + 8) u * |a| |b|, by Cauchy-Schwarz.
 *
 * The slack used is twice that. Whatever is not finite in float32, and cosines of norms so small that
 * underflow could matter, goes to the judge. Hamming counts are exact in either.
 */

const EUCLIDEAN: i32 = 0
const MANHATTAN: i32 = 1
const HAMMING: i32 = 2

/** Below this product of norms a dot product's terms may underflow by more than the slack allows. */
const NORM_PRODUCT_MIN: f64 = 1e-30

/** 2^-149, the least positive float32. */
const LEAST_F32: f64 = 1.401298464324817e-45

// @ts-ignore: decorator
@inline
function multiplyAdd(a: v128, b: v128, sum: v128): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) return f32x4.relaxed_madd(a, b, sum)
  return f32x4.add(f32x4.mul(a, b), sum)
}

// @ts-ignore: decorator
@inline
function reduce32(s0: v128, s1: v128, s2: v128, s3: v128): f32 {
  const s = f32x4.add(f32x4.add(s0, s1), f32x4.add(s2, s3))
  return (
    f32x4.extract_lane(s, 0) + f32x4.extract_lane(s, 1) + (f32x4.extract_lane(s, 2) + f32x4.extract_lane(s, 3))
  )
}

// @ts-ignore: decorator
@inline
function low64(v: v128): v128 {
  return f64x2.promote_low_f32x4(v)
}

// @ts-ignore: decorator
@inline
function high64(v: v128): v128 {
  return f64x2.promote_low_f32x4(i8x16.shuffle(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15))
}

// @ts-ignore: decorator
@inline
function reduce64(s0: v128, s1: v128, s2: v128, s3: v128): f64 {
  const s = f64x2.add(f64x2.add(s0, s1), f64x2.add(s2, s3))
  return f64x2.extract_lane(s, 0) + f64x2.extract_lane(s, 1)
}

export function euclidean32(a: usize, b: usize, n: i32): f32 {
  let s0 = f32x4.splat(0)
  let s1 = s0
  let s2 = s0
  let s3 = s0
  for (const end = a + (<usize>n << 2); a < end; a += 64, b += 64) {
    const d0 = f32x4.sub(v128.load(a, 0, 16), v128.load(b, 0, 16))
    const d1 = f32x4.sub(v128.load(a, 16, 16), v128.load(b, 16, 16))
    const d2 = f32x4.sub(v128.load(a, 32, 16), v128.load(b, 32, 16))
    const d3 = f32x4.sub(v128.load(a, 48, 16), v128.load(b, 48, 16))
    s0 = multiplyAdd(d0, d0, s0)
    s1 = multiplyAdd(d1, d1, s1)
    s2 = multiplyAdd(d2, d2, s2)
    s3 = multiplyAdd(d3, d3, s3)
  }
  return reduce32(s0, s1, s2, s3)
}

export function manhattan32(a: usize, b: usize, n: i32): f32 {
  let s0 = f32x4.splat(0)
  let s1 = s0
  let s2 = s0
  let s3 = s0
  for (const end = a + (<usize>n << 2); a < end; a += 64, b += 64) {
    s0 = f32x4.add(s0, f32x4.abs(f32x4.sub(v128.load(a, 0, 16), v128.load(b, 0, 16))))
    s1 = f32x4.add(s1, f32x4.abs(f32x4.sub(v128.load(a, 16, 16), v128.load(b, 16, 16))))
    s2 = f32x4.add(s2, f32x4.abs(f32x4.sub(v128.load(a, 32, 16), v128.load(b, 32, 16))))
    s3 = f32x4.add(s3, f32x4.abs(f32x4.sub(v128.load(a, 48, 16), v128.load(b, 48, 16))))
  }
  return reduce32(s0, s1, s2, s3)
}

export function dot32(a: usize, b: usize, n: i32): f32 {
  let s0 = f32x4.splat(0)
  let s1 = s0
  let s2 = s0
  let s3 = s0
  for (const end = a + (<usize>n << 2); a < end; a += 64, b += 64) {
    s0 = multiplyAdd(v128.load(a, 0, 16), v128.load(b, 0, 16), s0)
    s1 = multiplyAdd(v128.load(a, 16, 16), v128.load(b, 16, 16), s1)
    s2 = multiplyAdd(v128.load(a, 32, 16), v128.load(b, 32, 16), s2)
    s3 = multiplyAdd(v128.load(a, 48, 16), v128.load(b, 48, 16), s3)
  }
  return reduce32(s0, s1, s2, s3)
}

/** A comparison gives -1 in every lane that differs; float equality holds 0 and -0 equal. */
export function hamming(a: usize, b: usize, n: i32): i32 {
  let s0 = i32x4.splat(0)
  let s1 = s0
  for (const end = a + (<usize>n << 2); a < end; a += 64, b += 64) {
    s0 = i32x4.sub(s0, f32x4.ne(v128.load(a, 0, 16), v128.load(b, 0, 16)))
    s1 = i32x4.sub(s1, f32x4.ne(v128.load(a, 16, 16), v128.load(b, 16, 16)))
    s0 = i32x4.sub(s0, f32x4.ne(v128.load(a, 32, 16), v128.load(b, 32, 16)))
    s1 = i32x4.sub(s1, f32x4.ne(v128.load(a, 48, 16), v128.load(b, 48, 16)))
  }
  const s = i32x4.add(s0, s1)
  return (
    i32x4.extract_lane(s, 0) + i32x4.extract_lane(s, 1) + (i32x4.extract_lane(s, 2) + i32x4.extract_lane(s, 3))
  )
}

export function euclidean64(a: usize, b: usize, n: i32): f64 {
  let s0 = f64x2.splat(0)
  let s1 = s0
  let s2 = s0
  let s3 = s0
  for (const end = a + (<usize>n << 2); a < end; a += 32, b += 32) {
    const a0 = v128.load(a, 0, 16)
    const b0 = v128.load(b, 0, 16)
    const a1 = v128.load(a, 16, 16)
    const b1 = v128.load(b, 16, 16)
    const d0 = f64x2.sub(low64(a0), low64(b0))
    const d1 = f64x2.sub(high64(a0), high64(b0))
    const d2 = f64x2.sub(low64(a1), low64(b1))
    const d3 = f64x2.sub(high64(a1), high64(b1))
    s0 = f64x2.add(s0, f64x2.mul(d0, d0))
    s1 = f64x2.add(s1, f64x2.mul(d1, d1))
    s2 = f64x2.add(s2, f64x2.mul(d2, d2))
    s3 = f64x2.add(s3, f64x2.mul(d3, d3))
  }
  return reduce64(s0, s1, s2, s3)
}

export function manhattan64(a: usize, b: usize, n: i32): f64 {
  let s0 = f64x2.splat(0)
  let s1 = s0
  let s2 = s0
  let s3 = s0
  for (const end = a + (<usize>n << 2); a < end; a += 32, b += 32) {
    const a0 = v128.load(a, 0, 16)
    const b0 = v128.load(b, 0, 16)
    const a1 = v128.load(a, 16, 16)
    const b1 = v128.load(b, 16, 16)
    s0 = f64x2.add(s0, f64x2.abs(f64x2.sub(low64(a0), low64(b0))))
    s1 = f64x2.add(s1, f64x2.abs(f64x2.sub(high64(a0), high64(b0))))
    s2 = f64x2.add(s2, f64x2.abs(f64x2.sub(low64(a1), low64(b1))))
    s3 = f64x2.add(s3, f64x2.abs(f64x2.sub(high64(a1), high64(b1))))
  }
  return reduce64(s0, s1, s2, s3)
}

export function dot64(a: usize, b: usize, n: i32): f64 {
  let s0 = f64x2.splat(0)
  let s1 = s0
  let s2 = s0
  let s3 = s0
  for (const end = a + (<usize>n << 2); a < end; a += 32, b += 32) {
    const a0 = v128.load(a, 0, 16)
    const b0 = v128.load(b, 0, 16)
    const a1 = v128.load(a, 16, 16)
    const b1 = v128.load(b, 16, 16)
    s0 = f64x2.add(s0, f64x2.mul(low64(a0), low64(b0)))
    s1 = f64x2.add(s1, f64x2.mul(high64(a0), high64(b0)))
    s2 = f64x2.add(s2, f64x2.mul(low64(a1), low64(b1)))
    s3 = f64x2.add(s3, f64x2.mul(high64(a1), high64(b1)))
  }
  return reduce64(s0, s1, s2, s3)
}

/** 1 - cos from the squared norms; one root of their product, so that parallel integer vectors give exactly 0. */
// @ts-ignore: decorator
@inline
function cosineOf(dot: f64, normProduct: f64): f64 {
  return normProduct == 0 ? 1 : 1 - dot / sqrt<f64>(normProduct)
}

/** The distance as it is defined; `aa` and `bb` are squared norms, used by Cosine alone. Euclidean is squared. */
export function distance64(metric: i32, a: usize, b: usize, n: i32, aa: f64, bb: f64): f64 {
  if (metric == EUCLIDEAN) return euclidean64(a, b, n)
  if (metric == MANHATTAN) return manhattan64(a, b, n)
  if (metric == HAMMING) return <f64>hamming(a, b, n)
  return cosineOf(dot64(a, b, n), aa * bb)
}

/**
 * Offers the live rows of slots [from, to) to a query's pool of its k nearest.
 *
 * The pool is a max-heap by (distance, sequence) in three parallel columns: f64 distances at `pool`, f64
 * sequences behind room for k of them, u32 slots behind those. `count` entries stand in it already.
 *
 * Columns are read without locks while a writer may change slots: `live` is read first, then the sequence,
 * then the row. A row that is torn comes out with a sequence that the engine then finds changed.
 *
 * @returns the number of entries in the pool afterwards
 */
export function scan(
  metric: i32,
  query: usize,
  queryNorm: f64,
  n: i32,
  rows: usize,
  live: usize,
  sequences: usize,
  norms: usize,
  from: i32,
  to: i32,
  pool: usize,
  k: i32,
  count: i32,
): i32 {
  const rowBytes = <usize>n << 2
  const slack: f64 = (<f64>n / 16 + 8) * 2 * (1.0 / 16777216.0)
  const underflow = <f64>n * LEAST_F32 * 2
  for (let slot = from; slot < to; slot++) {
    if (atomic.load<u8>(live + <usize>slot) == 0) continue
    const sequence = load<f64>(sequences + (<usize>slot << 3))
    const row = rows + <usize>slot * rowBytes
    const worst = count == k ? load<f64>(pool) : Infinity
    let distance: f64
    if (metric == HAMMING) {
      distance = <f64>hamming(query, row, n)
    } else if (metric == EUCLIDEAN || metric == MANHATTAN) {
      const filter = <f64>(metric == EUCLIDEAN ? euclidean32(query, row, n) : manhattan32(query, row, n))
      if (filter < Infinity && filter > worst * (1 + slack) + underflow) continue
      distance = metric == EUCLIDEAN ? euclidean64(query, row, n) : manhattan64(query, row, n)
    } else {
      const normProduct = queryNorm * load<f64>(norms + (<usize>slot << 3))
      const root = sqrt<f64>(normProduct)
      const filter = <f64>dot32(query, row, n)
      if (root >= NORM_PRODUCT_MIN && abs<f64>(filter) < Infinity && 1 - filter / root > worst + slack) continue
      distance = cosineOf(dot64(query, row, n), normProduct)
    }
    count = offer(pool, k, count, distance, sequence, <u32>slot)
  }
  return count
}

/** Puts an entry into the pool if it is among the k nearest; gives the new number of entries. */
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

/** Turns the heap into ascending order, in place. */
export function sortPool(pool: usize, k: i32, count: i32): void {
  for (let last = count - 1; last > 0; last--) {
    const distance = load<f64>(pool + (<usize>last << 3))
    const sequence = load<f64>(pool + (<usize>(k + last) << 3))
    const slot = load<u32>(pool + (<usize>k << 4) + (<usize>last << 2))
    move(pool, k, 0, last)
    siftDown(pool, k, last, 0, distance, sequence, slot)
  }
}
