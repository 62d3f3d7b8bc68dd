/**
 * Distances between float32 rows.
 *
 * The kernels use raw linear memory, without a runtime or allocations. Callers pass byte addresses. A row is 64-byte
 * aligned and padded with zeros to a multiple of 16 components, so that no kernel needs a tail. Zeros on both sides add
 * nothing under any metric. Metrics are numbered as in `vectordb.Similarity`.
 */

export const EUCLIDEAN: i32 = 0
export const MANHATTAN: i32 = 1
export const HAMMING: i32 = 2
export const COSINE: i32 = 3

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

/** A comparison yields -1 in every lane that differs. Float comparison treats 0 and -0 as equal. */
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

/** Returns 1 - cos from the squared norms. One root of their product makes parallel integer vectors exactly 0. */
// @ts-ignore: decorator
@inline
export function cosineOf(dot: f64, normProduct: f64): f64 {
  return normProduct == 0 ? 1 : 1 - dot / sqrt<f64>(normProduct)
}

/**
 * Returns the exact distance. `aa` and `bb` are squared norms, used by Cosine only. Euclidean distances are squared.
 */
export function distance64(metric: i32, a: usize, b: usize, n: i32, aa: f64, bb: f64): f64 {
  if (metric == EUCLIDEAN) return euclidean64(a, b, n)
  if (metric == MANHATTAN) return manhattan64(a, b, n)
  if (metric == HAMMING) return <f64>hamming(a, b, n)
  return cosineOf(dot64(a, b, n), aa * bb)
}
