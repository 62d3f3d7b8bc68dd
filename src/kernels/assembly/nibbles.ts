import {
  CODE_COSINE_SCALE,
  CODE_HEADER,
  CODE_NORM,
  CODE_SCALE,
  CODE_SUM,
  greatestMagnitude,
  multiplySum,
  rounded,
  sumLanes,
  sumRows,
} from './codes'

/**
 * Codes of four bits a component: half the bytes of codes.ts, for walks that wait for memory.
 *
 * Component i of a vector x becomes c_i = round(x_i f) in -7..7, stored as the nibble c_i + 8. 32 bytes hold 64
 * components, so that unpacking two registers yields two pairs that are also adjacent in the query:
 *
 *   byte       0     1     2          31
 *   low        c0    c1    c2   ...   c31
 *   high       c32   c33   c34  ...   c63
 *
 * With so few levels, one outlying component would leave little precision for the others. So f is not 7 / max|x_i|.
 * Instead, a few factors that clip more and more are tried, and f is the one with the smallest angle between c and x.
 *
 * The estimate is of the dot product with x itself, not with its decoded form (Gao and Long, arXiv:2405.12497). With
 * s = |x|^2 / (c x), the error s c - x is orthogonal to x, so its effect vanishes as the query approaches x.
 *
 *   dot(q, x)       ~ s_q s D             D = sum of products of the query's signed codes and c
 *   euclidean(q, x) ~ |q|^2 + |x|^2 - 2 s_q s D
 *   cosine(q, x)    ~ 1 - (s_q / |q|) (s / |x|) D
 *
 * A row has the header of codes.ts, except for the sum of its codes. Queries have signed codes, and their own sum gives
 * the correction for the added 8.
 */

export const NIBBLE_ZERO: i32 = 8
const NIBBLE_LEVELS: f32 = 7

/** f32, in place of the sum: the squared length of s c - x, as a fraction of that of x. */
export const NIBBLE_ERROR: usize = CODE_SUM

/** Each try clips by this factor more than the one before. The first try that is no better ends the search. */
const CLIP_STEP: f32 = 1.125
const CLIP_TRIES: i32 = 12

/**
 * Returns a constant that is loaded from memory. V8 keeps a loaded value in a register, but rebuilds a plain constant
 * wherever it is used, which doubles the time of the loops below.
 */
// @ts-ignore: decorator
@inline
function loaded(constant: v128, at: usize): v128 {
  v128.store(at, constant)
  return v128.load(at)
}

// @ts-ignore: decorator
@inline
function high(bytes: v128, mask: v128): v128 {
  return v128.and(i16x8.shr_u(bytes, 4), mask)
}

/**
 * As `dotCodes4` of codes.ts, for rows of nibbles. The products use the stored nibbles, each of which is 8 too large.
 *
 * @param n bytes of a row, a multiple of 32; the query has twice as many
 */
// @ts-ignore: decorator
@inline
export function dotNibbles4(
  query: usize,
  a: usize,
  b: usize,
  c: usize,
  d: usize,
  n: usize,
  spill: usize,
  out: usize,
): void {
  // As in `loaded`, but twice in adjacent places, because the mask must be a pair as well.
  v128.store(spill, i8x16.splat(15))
  v128.store(spill, i8x16.splat(15), 16)
  const m0 = v128.load(spill)
  const m1 = v128.load(spill, 16)
  let a0 = i32x4.splat(0)
  let a1 = i32x4.splat(0)
  let b0 = i32x4.splat(0)
  let b1 = i32x4.splat(0)
  let c0 = i32x4.splat(0)
  let c1 = i32x4.splat(0)
  let d0 = i32x4.splat(0)
  let d1 = i32x4.splat(0)
  for (let at: usize = 0; at < n; at += 32) {
    const q = query + at + at
    const q0 = v128.load(q)
    const q1 = v128.load(q, 16)
    const q2 = v128.load(q, 32)
    const q3 = v128.load(q, 48)
    const pa0 = v128.load(a + at)
    const pa1 = v128.load(a + at, 16)
    a0 = multiplySum(q2, high(pa0, m0), multiplySum(q0, v128.and(pa0, m0), a0))
    a1 = multiplySum(q3, high(pa1, m1), multiplySum(q1, v128.and(pa1, m1), a1))
    const pb0 = v128.load(b + at)
    const pb1 = v128.load(b + at, 16)
    b0 = multiplySum(q2, high(pb0, m0), multiplySum(q0, v128.and(pb0, m0), b0))
    b1 = multiplySum(q3, high(pb1, m1), multiplySum(q1, v128.and(pb1, m1), b1))
    const pc0 = v128.load(c + at)
    const pc1 = v128.load(c + at, 16)
    c0 = multiplySum(q2, high(pc0, m0), multiplySum(q0, v128.and(pc0, m0), c0))
    c1 = multiplySum(q3, high(pc1, m1), multiplySum(q1, v128.and(pc1, m1), c1))
    const pd0 = v128.load(d + at)
    const pd1 = v128.load(d + at, 16)
    d0 = multiplySum(q2, high(pd0, m0), multiplySum(q0, v128.and(pd0, m0), d0))
    d1 = multiplySum(q3, high(pd1, m1), multiplySum(q1, v128.and(pd1, m1), d1))
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

/** Exports `dotNibbles4`, so that a test can compare it with a reference. The four `rows` are `stride` bytes apart. */
export function dotNibbles(query: usize, rows: usize, stride: usize, n: i32, spill: usize, out: usize): void {
  dotNibbles4(query, rows, rows + stride, rows + 2 * stride, rows + 3 * stride, <usize>n, spill, out)
}

/**
 * Sums over a row times a factor: the squares of its components, the squares of its codes, and the products of both.
 */
let ofRow: f32 = 0
let ofCodes: f32 = 0
let ofBoth: f32 = 0

/**
 * NIBBLE_LEVELS, which each encoding sets. V8 keeps a value that is computed from a variable in a register, as it does
 * with `loaded`; with plain constants, encoding takes 1.4 times as long. `loaded` needs scratch, and an encoding has
 * none: other threads may be reading the code that it writes.
 */
let levels: f32 = 0

// @ts-ignore: decorator
@inline
function codesOf(scaled: v128, least: v128, most: v128): v128 {
  return f32x4.pmax(f32x4.pmin(f32x4.nearest(scaled), most), least)
}

// @ts-ignore: decorator
@inline
function sumFloats(v: v128): f32 {
  return (
    f32x4.extract_lane(v, 0) + f32x4.extract_lane(v, 1) + (f32x4.extract_lane(v, 2) + f32x4.extract_lane(v, 3))
  )
}

/** Computes the three sums above. Uses no fused multiply-add, because every build must compute the same codes. */
function measureFit(row: usize, n: usize, factor: f32): void {
  const least = f32x4.splat(-levels)
  const most = f32x4.splat(levels)
  const factors = f32x4.splat(factor)
  let rows = f32x4.splat(0)
  let codes = f32x4.splat(0)
  let both = f32x4.splat(0)
  for (const end = row + (n << 2); row < end; row += 16) {
    const scaled = f32x4.mul(v128.load(row), factors)
    const code = codesOf(scaled, least, most)
    rows = f32x4.add(rows, f32x4.mul(scaled, scaled))
    codes = f32x4.add(codes, f32x4.mul(code, code))
    both = f32x4.add(both, f32x4.mul(code, scaled))
  }
  ofRow = sumFloats(rows)
  ofCodes = sumFloats(codes)
  ofBoth = sumFloats(both)
}

/** Returns the squared cosine of the angle between codes and row, from the last `measureFit`. */
// @ts-ignore: decorator
@inline
function fitOf(): f32 {
  return (ofBoth / ofCodes) * (ofBoth / ofRow)
}

/** Returns the factor whose codes have the smallest angle to the row. Leaves its sums in the variables above. */
function bestFactor(row: usize, n: usize, widest: f32): f32 {
  let best = widest
  measureFit(row, n, best)
  let bestFit = fitOf()
  for (let tries = 0; tries < CLIP_TRIES; tries++) {
    measureFit(row, n, best * CLIP_STEP)
    if (!(fitOf() > bestFit)) break
    best *= CLIP_STEP
    bestFit = fitOf()
  }
  measureFit(row, n, best)
  return best
}

/**
 * Returns the nibbles of 16 components, from `at` on, as bytes. Past the end of the row, they are the nibble of zero.
 */
// @ts-ignore: decorator
@inline
function sixteen(row: usize, at: usize, n: usize, factors: v128): v128 {
  if (at >= n) return i8x16.splat(<i8>NIBBLE_ZERO)
  const from = row + (at << 2)
  const i0 = rounded(f32x4.mul(v128.load(from), factors))
  const i1 = rounded(f32x4.mul(v128.load(from, 16), factors))
  const i2 = rounded(f32x4.mul(v128.load(from, 32), factors))
  const i3 = rounded(f32x4.mul(v128.load(from, 48), factors))
  const codes = i8x16.narrow_i16x8_s(i16x8.narrow_i32x4_s(i0, i1), i16x8.narrow_i32x4_s(i2, i3))
  const least = i8x16.splat(-<i8>NIBBLE_LEVELS)
  const most = i8x16.splat(<i8>NIBBLE_LEVELS)
  return i8x16.add(i8x16.max_s(i8x16.min_s(codes, most), least), i8x16.splat(<i8>NIBBLE_ZERO))
}

/**
 * Encodes a row of `n` components, a multiple of 16. Writes the header and `width` nibbles, a multiple of 64.
 *
 * A slot can be encoded again while walks of other threads read its code. So only the final bytes are written: these
 * are the same each time.
 */
export function encodeNibbles(row: usize, n: i32, width: i32, code: usize): void {
  levels = NIBBLE_LEVELS
  const most = greatestMagnitude(row, <usize>n)
  const widest = NIBBLE_LEVELS / most
  // As in codes.ts, a row without a finite inverse is encoded as zero.
  const usable = most > 0 && widest < Infinity
  const factor = usable ? bestFactor(row, <usize>n, widest) : 0
  const factors = f32x4.splat(factor)
  let to = code + CODE_HEADER
  for (let at: usize = 0; at < <usize>width; at += 64, to += 32) {
    const low0 = sixteen(row, at, <usize>n, factors)
    const low1 = sixteen(row, at + 16, <usize>n, factors)
    const high0 = sixteen(row, at + 32, <usize>n, factors)
    const high1 = sixteen(row, at + 48, <usize>n, factors)
    v128.store(to, v128.or(low0, i16x8.shl(high0, 4)))
    v128.store(to, v128.or(low1, i16x8.shl(high1, 4)), 16)
  }
  const scale = usable ? ofRow / ofBoth : 0
  store<f32>(code + CODE_SCALE, usable ? scale / factor : 0)
  store<f32>(code + CODE_NORM, usable ? ofRow / factor / factor : 0)
  store<f32>(code + CODE_COSINE_SCALE, usable ? <f32>(Math.sqrt(<f64>ofRow) / <f64>ofBoth) : 0)
  store<f32>(code + NIBBLE_ERROR, usable ? max<f32>(1 / fitOf() - 1, 0) : 0)
}

/** Unpacks a stored row into the form of a query: a header, and a signed byte a component. */
export function unpackNibbles(code: usize, width: i32, query: usize): void {
  let from = code + CODE_HEADER
  let to = query + CODE_HEADER
  const mask = loaded(i8x16.splat(15), to)
  const zero = loaded(i8x16.splat(<i8>NIBBLE_ZERO), to)
  // A lane adds at most 60 in a round, and there are at most 1,024 rounds.
  let sum0 = i16x8.splat(0)
  let sum1 = i16x8.splat(0)
  for (const end = to + <usize>width; to < end; to += 64, from += 32) {
    const p0 = v128.load(from)
    const p1 = v128.load(from, 16)
    const low0 = v128.and(p0, mask)
    const low1 = v128.and(p1, mask)
    const high0 = high(p0, mask)
    const high1 = high(p1, mask)
    sum0 = i16x8.add(sum0, i16x8.extadd_pairwise_i8x16_u(i8x16.add(low0, high0)))
    sum1 = i16x8.add(sum1, i16x8.extadd_pairwise_i8x16_u(i8x16.add(low1, high1)))
    v128.store(to, i8x16.sub(low0, zero))
    v128.store(to, i8x16.sub(low1, zero), 16)
    v128.store(to, i8x16.sub(high0, zero), 32)
    v128.store(to, i8x16.sub(high1, zero), 48)
  }
  const sums = i32x4.add(i32x4.extadd_pairwise_i16x8_u(sum0), i32x4.extadd_pairwise_i16x8_u(sum1))
  memory.copy(query, code, CODE_SUM)
  store<i32>(query + CODE_SUM, sumLanes(sums) - NIBBLE_ZERO * width)
}
