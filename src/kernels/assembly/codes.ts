import * as format from '../memory-format'

/**
 * Integer codes of vectors, and distances between them.
 *
 * A vector x is encoded with its own scale s = max|x_i| / 63: component i becomes round(x_i / s) in -63..63, stored as
 * an unsigned byte u = code + 64 in 1..127. The codes have seven bits, so that the relaxed integer dot product, which
 * takes one factor of eight and one of seven bits, is exact on every processor. Because each vector has its own scale,
 * short vectors are encoded as precisely as long ones.
 *
 * A query that is not stored is encoded in eight signed bits, with s = max|x_i| / 127.
 *
 *   dot(x, y)       ~ sx sy D                        D = sum of products of the signed codes
 *   euclidean(x, y) ~ |x|^2 + |y|^2 - 2 sx sy D      with the norms of the decoded vectors, so that d(x, x) = 0
 *   cosine(x, y)    ~ 1 - (sx / |x|) (sy / |y|) D
 *
 * A code row is CODE_HEADER bytes (f32 scale, f32 squared norm, f32 scale / norm, i32 sum of the unsigned
 * codes), then one byte a component, padded with 64, the code of zero, to a multiple of 32.
 */

export const CODE_HEADER: usize = <usize>format.CODE_HEADER_BYTES
export const CODE_SCALE: usize = 0
export const CODE_NORM: usize = 4
export const CODE_COSINE_SCALE: usize = 8
export const CODE_SUM: usize = 12
export const CODE_ZERO: i32 = 64

const STORED_LEVELS: f32 = 63
const QUERY_LEVELS: f32 = 127

// @ts-ignore: decorator
@inline
export function multiplySum(signed: v128, unsigned: v128, sum: v128): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) return i32x4.relaxed_dot_i8x16_i7x16_add_s(signed, unsigned, sum)
  const low = i32x4.dot_i16x8_s(i16x8.extend_low_i8x16_s(signed), i16x8.extend_low_i8x16_s(unsigned))
  const high = i32x4.dot_i16x8_s(i16x8.extend_high_i8x16_s(signed), i16x8.extend_high_i8x16_s(unsigned))
  return i32x4.add(sum, i32x4.add(low, high))
}

/** Returns the sums of the lanes of four vectors. */
// @ts-ignore: decorator
@inline
export function sumRows(a: v128, b: v128, c: v128, d: v128): v128 {
  const ab0 = i8x16.shuffle(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23)
  const ab1 = i8x16.shuffle(a, b, 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31)
  const cd0 = i8x16.shuffle(c, d, 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23)
  const cd1 = i8x16.shuffle(c, d, 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31)
  const ab = i32x4.add(ab0, ab1)
  const cd = i32x4.add(cd0, cd1)
  const low = i8x16.shuffle(ab, cd, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23)
  const high = i8x16.shuffle(ab, cd, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31)
  return i32x4.add(low, high)
}

/**
 * Writes to `out` the four i32 dot products of `query` (signed bytes, or unsigned ones below 128) with the codes at
 * `a`, `b`, `c` and `d`. Handling four rows at a time overlaps four cache misses. The sums pass through `spill`, eight
 * vectors in adjacent pairs. Stores of that form let V8 join the two halves of the loop into registers twice as wide.
 *
 * @param n bytes of a row, a multiple of 32
 */
// @ts-ignore: decorator
@inline
export function dotCodes4(
  query: usize,
  a: usize,
  b: usize,
  c: usize,
  d: usize,
  n: usize,
  spill: usize,
  out: usize,
): void {
  let a0 = i32x4.splat(0)
  let a1 = i32x4.splat(0)
  let b0 = i32x4.splat(0)
  let b1 = i32x4.splat(0)
  let c0 = i32x4.splat(0)
  let c1 = i32x4.splat(0)
  let d0 = i32x4.splat(0)
  let d1 = i32x4.splat(0)
  for (let at: usize = 0; at < n; at += 32) {
    const q0 = v128.load(query + at)
    const q1 = v128.load(query + at, 16)
    a0 = multiplySum(q0, v128.load(a + at), a0)
    a1 = multiplySum(q1, v128.load(a + at, 16), a1)
    b0 = multiplySum(q0, v128.load(b + at), b0)
    b1 = multiplySum(q1, v128.load(b + at, 16), b1)
    c0 = multiplySum(q0, v128.load(c + at), c0)
    c1 = multiplySum(q1, v128.load(c + at, 16), c1)
    d0 = multiplySum(q0, v128.load(d + at), d0)
    d1 = multiplySum(q1, v128.load(d + at, 16), d1)
  }
  v128.store(spill, a0)
  v128.store(spill, a1, 16)
  v128.store(spill, b0, 32)
  v128.store(spill, b1, 48)
  v128.store(spill, c0, 64)
  v128.store(spill, c1, 80)
  v128.store(spill, d0, 96)
  v128.store(spill, d1, 112)
  v128.store(
    out,
    sumRows(
      i32x4.add(v128.load(spill), v128.load(spill, 16)),
      i32x4.add(v128.load(spill, 32), v128.load(spill, 48)),
      i32x4.add(v128.load(spill, 64), v128.load(spill, 80)),
      i32x4.add(v128.load(spill, 96), v128.load(spill, 112)),
    ),
  )
}

/** Exports `dotCodes4`, so that a test can compare it with a reference. The four `rows` are `stride` bytes apart. */
export function dotCodes(query: usize, rows: usize, stride: usize, n: i32, spill: usize, out: usize): void {
  dotCodes4(query, rows, rows + stride, rows + 2 * stride, rows + 3 * stride, <usize>n, spill, out)
}

export function greatestMagnitude(row: usize, n: usize): f32 {
  let most = f32x4.splat(0)
  for (const end = row + (n << 2); row < end; row += 16) most = f32x4.pmax(most, f32x4.abs(v128.load(row)))
  return max(
    max(f32x4.extract_lane(most, 0), f32x4.extract_lane(most, 1)),
    max(f32x4.extract_lane(most, 2), f32x4.extract_lane(most, 3)),
  )
}

/**
 * Rounds lanes within +-2^22 to the nearest integers, with ties to even. A float32 of about 1.5 * 2^23 has no fraction,
 * so adding that number rounds, and the low bits are the integer. This takes two operations instead of thirteen.
 */
// @ts-ignore: decorator
@inline
export function rounded(v: v128): v128 {
  return i32x4.sub(f32x4.add(v, f32x4.splat(ROUNDING)), i32x4.splat(ROUNDING_BITS))
}

const ROUNDING: f32 = 12582912
const ROUNDING_BITS: i32 = 0x4b400000

/**
 * Writes a float32 row, times `inverse` and rounded, as signed bytes plus `zero`. Returns the sum of the squared codes.
 */
function quantize(row: usize, n: usize, inverse: f32, zero: i32, out: usize): i32 {
  const factor = f32x4.splat(inverse)
  const offset = i8x16.splat(<i8>zero)
  let squares = i32x4.splat(0)
  for (let at: usize = 0; at < n; at += 16) {
    const from = row + (at << 2)
    const i0 = rounded(f32x4.mul(v128.load(from), factor))
    const i1 = rounded(f32x4.mul(v128.load(from, 16), factor))
    const i2 = rounded(f32x4.mul(v128.load(from, 32), factor))
    const i3 = rounded(f32x4.mul(v128.load(from, 48), factor))
    const low = i16x8.narrow_i32x4_s(i0, i1)
    const high = i16x8.narrow_i32x4_s(i2, i3)
    squares = i32x4.add(squares, i32x4.dot_i16x8_s(low, low))
    squares = i32x4.add(squares, i32x4.dot_i16x8_s(high, high))
    v128.store(out + at, i8x16.add(i8x16.narrow_i16x8_s(low, high), offset))
  }
  return sumLanes(squares)
}

/** Returns the sum of `n` signed bytes; `n` is a multiple of 16. */
function sumBytes(at: usize, n: usize): i32 {
  let sums = i32x4.splat(0)
  for (const end = at + n; at < end; at += 16) {
    sums = i32x4.add(sums, i32x4.extadd_pairwise_i16x8_s(i16x8.extadd_pairwise_i8x16_s(v128.load(at))))
  }
  return sumLanes(sums)
}

// @ts-ignore: decorator
@inline
export function sumLanes(v: v128): i32 {
  return (
    i32x4.extract_lane(v, 0) + i32x4.extract_lane(v, 1) + (i32x4.extract_lane(v, 2) + i32x4.extract_lane(v, 3))
  )
}

/** Writes the header and `width` codes of a row of `n` components; `n` is a multiple of 16. */
function encode(row: usize, n: usize, width: usize, levels: f32, zero: i32, code: usize): void {
  const most = greatestMagnitude(row, n)
  // A denormal maximum has no finite inverse. Such a row is encoded as zero, and only exact distances use its values.
  const inverse = levels / most
  const usable = most > 0 && inverse < Infinity
  const codes = code + CODE_HEADER
  const squares = quantize(row, n, usable ? inverse : 0, zero, codes)
  for (let at = n; at < width; at++) store<u8>(codes + at, <u8>zero)
  const scale = usable ? most / levels : 0
  const norm = <f32>(scale * scale * <f32>squares)
  store<f32>(code + CODE_SCALE, scale)
  store<f32>(code + CODE_NORM, norm)
  store<f32>(code + CODE_COSINE_SCALE, squares > 0 ? <f32>(1 / Math.sqrt(<f64>squares)) : 0)
  store<i32>(code + CODE_SUM, sumBytes(codes, width))
}

/** Encodes a float32 row for storing: seven unsigned bits a component. */
export function encodeStored(row: usize, n: i32, width: i32, code: usize): void {
  encode(row, <usize>n, <usize>width, STORED_LEVELS, CODE_ZERO, code)
}

/** Encodes a float32 row as a query: eight signed bits a component. */
export function encodeQuery(row: usize, n: i32, width: i32, code: usize): void {
  encode(row, <usize>n, <usize>width, QUERY_LEVELS, 0, code)
}
