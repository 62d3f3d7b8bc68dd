/**
 * Tests the numbers of a column, with a bitmap as the result. This is a separate module with its own memory. The caller
 * copies a block of the column into it. The copy takes a fraction of the time of reading the block from main memory,
 * which is necessary anyway.
 */

/** Maximum bytes tested in one call. The block and its source together fit about into the caches next to a core. */
const BLOCK_BYTES: usize = 32_768

const VALUES: usize = 65_536
/** A byte for each ordinal plus one: 1 if the ordinal is accepted. */
const ACCEPTED: usize = VALUES + BLOCK_BYTES
const PACKED: usize = ACCEPTED + 65_536
/** A bit for each number. There are at most as many numbers as bytes in a block. */
const BITS: usize = PACKED + 32

/** Returns the address of the numbers. */
export function valuesAddress(): usize {
  return VALUES
}

/** Returns the address of the bytes for all ordinals plus one below 65,536: 1 if the ordinal is accepted. */
export function acceptedAddress(): usize {
  return ACCEPTED
}

/** Returns the address of the bitmap: number i is bit i % 32 of word i / 32. */
export function bitsAddress(): usize {
  return BITS
}

/**
 * Sets the bits of those of the first `count` float64 that are in [low, high]. NaN never is.
 *
 * @param count a multiple of 32
 * @returns how many bits are set
 */
export function bitsWithin(count: i32, low: f64, high: f64): i32 {
  const lows = f64x2.splat(low)
  const highs = f64x2.splat(high)
  let found = 0
  for (let at = 0; at < count; at += 32) {
    const from = VALUES + (<usize>at << 3)
    const word = sixteen(from, lows, highs) | (sixteen(from + 128, lows, highs) << 16)
    store<i32>(BITS + (<usize>at >> 3), word)
    found += popcnt<i32>(word)
  }
  return found
}

/** Narrows the masks of 16 numbers to 16 bytes. Their highest bits are the result. */
// @ts-ignore: decorator
@inline
function sixteen(from: usize, lows: v128, highs: v128): i32 {
  const low = i16x8.narrow_i32x4_s(four(from, lows, highs), four(from + 32, lows, highs))
  const high = i16x8.narrow_i32x4_s(four(from + 64, lows, highs), four(from + 96, lows, highs))
  return i8x16.bitmask(i8x16.narrow_i16x8_s(low, high))
}

/** Returns the masks of four numbers, 32 bits each. */
// @ts-ignore: decorator
@inline
function four(from: usize, lows: v128, highs: v128): v128 {
  return v128.shuffle<i32>(two(from, lows, highs), two(from + 16, lows, highs), 0, 2, 4, 6)
}

// @ts-ignore: decorator
@inline
function two(from: usize, lows: v128, highs: v128): v128 {
  const values = v128.load(from)
  return v128.and(f64x2.ge(values, lows), f64x2.le(values, highs))
}

/**
 * As `bitsWithin`, for bytes. `low` must not exceed `high`. One unsigned comparison tests both bounds: for a number
 * below `low`, the difference wraps around and exceeds the span.
 */
export function bytesWithin(count: i32, low: i32, high: i32): i32 {
  const lows = i8x16.splat(<i8>low)
  const spans = i8x16.splat(<i8>(high - low))
  let found = 0
  for (let at = 0; at < count; at += 32) {
    const from = VALUES + <usize>at
    const first = i8x16.le_u(i8x16.sub(v128.load(from), lows), spans)
    const second = i8x16.le_u(i8x16.sub(v128.load(from, 16), lows), spans)
    const word = i8x16.bitmask(first) | (i8x16.bitmask(second) << 16)
    store<i32>(BITS + (<usize>at >> 3), word)
    found += popcnt<i32>(word)
  }
  return found
}

/** As `bytesWithin`, for 16-bit numbers. */
export function shortsWithin(count: i32, low: i32, high: i32): i32 {
  const lows = i16x8.splat(<i16>low)
  const spans = i16x8.splat(<i16>(high - low))
  let found = 0
  for (let at = 0; at < count; at += 32) {
    const from = VALUES + (<usize>at << 1)
    const word = sixteenShorts(from, lows, spans) | (sixteenShorts(from + 32, lows, spans) << 16)
    store<i32>(BITS + (<usize>at >> 3), word)
    found += popcnt<i32>(word)
  }
  return found
}

// @ts-ignore: decorator
@inline
function sixteenShorts(from: usize, lows: v128, spans: v128): i32 {
  const first = i16x8.le_u(i16x8.sub(v128.load(from), lows), spans)
  const second = i16x8.le_u(i16x8.sub(v128.load(from, 16), lows), spans)
  return i8x16.bitmask(i8x16.narrow_i16x8_s(first, second))
}

/** As `bytesWithin`, for 32-bit numbers. */
export function wordsWithin(count: i32, low: u32, high: u32): i32 {
  const lows = i32x4.splat(low)
  const spans = i32x4.splat(high - low)
  let found = 0
  for (let at = 0; at < count; at += 32) {
    const from = VALUES + (<usize>at << 2)
    const word = sixteenWords(from, lows, spans) | (sixteenWords(from + 64, lows, spans) << 16)
    store<i32>(BITS + (<usize>at >> 3), word)
    found += popcnt<i32>(word)
  }
  return found
}

// @ts-ignore: decorator
@inline
function sixteenWords(from: usize, lows: v128, spans: v128): i32 {
  const first = i16x8.narrow_i32x4_s(fourWords(from, lows, spans), fourWords(from + 16, lows, spans))
  const second = i16x8.narrow_i32x4_s(fourWords(from + 32, lows, spans), fourWords(from + 48, lows, spans))
  return i8x16.bitmask(i8x16.narrow_i16x8_s(first, second))
}

// @ts-ignore: decorator
@inline
function fourWords(from: usize, lows: v128, spans: v128): v128 {
  return i32x4.le_u(i32x4.sub(v128.load(from), lows), spans)
}

/** Packs the accepted ordinals that fit into a byte into a bitmap. Must be called after the accepted bytes changed. */
export function packAccepted(): void {
  for (let at: usize = 0; at < 32; at++) {
    let byte: u32 = 0
    for (let bit: usize = 0; bit < 8; bit++) byte |= <u32>load<u8>(ACCEPTED + (at << 3) + bit) << <u32>bit
    store<u8>(PACKED + at, <u8>byte)
  }
}

/**
 * Sets the bits of the accepted ones among the first `count` bytes, each an ordinal plus one. See `acceptedAddress`.
 */
export function bitsOfBytes(count: i32): void {
  const low = v128.load(PACKED)
  const high = v128.load(PACKED + 16)
  for (let at: usize = 0; at < <usize>count; at += 16) {
    const ordinals = v128.load(VALUES + at)
    const byte = i8x16.shr_u(ordinals, 3)
    // A swizzle with an index above 15 returns 0.
    const accepted = v128.or(
      i8x16.swizzle(low, byte),
      i8x16.swizzle(high, i8x16.sub(byte, i8x16.splat(16))),
    )
    const bit = i8x16.swizzle(
      i8x16(1, 2, 4, 8, 16, 32, 64, -128, 1, 2, 4, 8, 16, 32, 64, -128),
      v128.and(ordinals, i8x16.splat(7)),
    )
    const passing = i8x16.ne(v128.and(accepted, bit), i8x16.splat(0))
    store<u16>(BITS + (at >> 3), <u16>i8x16.bitmask(passing))
  }
}

/** As `bitsOfBytes`, for 16-bit numbers. */
export function bitsOfShorts(count: i32): void {
  for (let at = 0; at < count; at += 32) {
    let word: u32 = 0
    for (let bit = 0; bit < 32; bit++) {
      word |= <u32>load<u8>(ACCEPTED + <usize>load<u16>(VALUES + (<usize>(at + bit) << 1))) << bit
    }
    store<u32>(BITS + (<usize>at >> 3), word)
  }
}

/** Returns how many bits of the first `bytes` bytes at `valuesAddress` are set; `bytes` is a multiple of 16. */
export function countBits(bytes: i32): i32 {
  let sums = i64x2.splat(0)
  for (let at: usize = 0; at < <usize>bytes; at += 16) {
    const counts = i8x16.popcnt(v128.load(VALUES + at))
    const pairs = i32x4.extadd_pairwise_i16x8_u(i16x8.extadd_pairwise_i8x16_u(counts))
    sums = i64x2.add(sums, v128.and(pairs, i64x2.splat(0xffff_ffff)))
    sums = i64x2.add(sums, i64x2.shr_u(pairs, 32))
  }
  return <i32>(i64x2.extract_lane(sums, 0) + i64x2.extract_lane(sums, 1))
}
