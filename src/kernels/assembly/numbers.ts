/**
 * Parses JSON arrays of numbers as float32. This is a separate module with its own memory.
 *
 * A component is what `Math.fround(JSON.parse(text))` returns: the nearest double, rounded to float32. The double is
 * only approximated, within three units in the last place: 19 digits as an integer, times a power of ten that is exact,
 * or the product of two exact powers. This is the fast path of Clinger, PLDI 1990, extended beyond the range where it
 * is exact. The caller must parse the numbers another way if one of them is odd: its approximation could be on the other
 * side of a float32 rounding boundary than the double, as for one number in ten million, or it is very large or very
 * small. Eight digits are read at a time, as in Lemire, Number parsing at a gigabyte per second, SPE 2021.
 */

const TEXT: usize = 65_536
const TEXT_BYTES: usize = 1_048_576
/** Behind the longest text and the bytes that are read beyond its end. */
const NUMBERS: usize = TEXT + TEXT_BYTES + 64

const POWERS: usize = memory.data<f64>([
  1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
])
const EXACT_POWER: i32 = 22
const DIGITS_MAX: i32 = 19

/** Outside these limits, the rounding boundaries of float32 have another spacing, or the range of float32 ends. */
const LEAST: f64 = 1.2e-38
const MOST: f64 = 3.4e38

/** The fraction bits that a double has in addition to a float32. A rounding boundary is at half of their range. */
const SPARE_BITS: u64 = (1 << 29) - 1
const HALF: u64 = 1 << 28
/** A number this close to a rounding boundary is odd. In units in the last place of a double. */
const DOUBT: u64 = 8

/** Returns the address of the text to read. */
export function textAddress(): usize {
  return TEXT
}

/** Returns the address of the numbers that were read. */
export function numbersAddress(): usize {
  return NUMBERS
}

let isOdd: bool = false

/** Whether one of the numbers that were read is odd: then the caller must parse them another way. */
export function hasOdd(): bool {
  return isOdd
}

/** Returns the maximum bytes of a text. */
export function textBytesMax(): usize {
  return TEXT_BYTES
}

// @ts-ignore: decorator
@inline
function isDigit(byte: u32): bool {
  return byte - 48 < 10
}

// @ts-ignore: decorator
@inline
function areDigits(eight: u64): bool {
  const high = eight & 0xf0f0f0f0f0f0f0f0
  return (high | (((eight + 0x0606060606060606) & 0xf0f0f0f0f0f0f0f0) >> 4)) == 0x3333333333333333
}

// @ts-ignore: decorator
@inline
function valueOf(eight: u64): u64 {
  const pairs = (eight - 0x3030303030303030) * 10 + ((eight - 0x3030303030303030) >> 8)
  return (
    ((pairs & 0x000000ff000000ff) * 0x000f424000000064 +
      ((pairs >> 16) & 0x000000ff000000ff) * 0x0000271000000001) >>
    32
  )
}

// @ts-ignore: decorator
@inline
function skipSpace(at: usize): usize {
  let byte: u32 = load<u8>(at)
  while (byte == 0x20 || byte == 0x0a || byte == 0x0d || byte == 0x09) byte = load<u8>(++at)
  return at
}

/**
 * Reads an array of `bytes` bytes, including brackets, with at most `most` numbers.
 *
 * @returns how many numbers there are; -1 if the text is something else, -2 if there are more than `most`
 */
export function readNumbers(bytes: usize, most: i32): i32 {
  const end = TEXT + bytes
  // Zero bytes, which end every number, overwrite the rest of an earlier text.
  store<u64>(end, 0)
  if (load<u8>(TEXT) != 0x5b) return -1
  let at = skipSpace(TEXT + 1)
  let count = 0
  isOdd = false
  if (load<u8>(at) == 0x5d) return at + 1 == end ? 0 : -1
  while (count < most) {
    let byte: u32 = load<u8>(at)
    const isNegative = byte == 0x2d
    if (isNegative) byte = load<u8>(++at)
    if (!isDigit(byte)) return -1

    let mantissa: u64 = 0
    let digits = 0
    let exponent = 0
    if (byte == 0x30) byte = load<u8>(++at)
    else {
      do {
        if (digits < DIGITS_MAX) {
          mantissa = mantissa * 10 + (byte - 48)
          digits++
        } else exponent++
        byte = load<u8>(++at)
      } while (isDigit(byte))
    }
    if (byte == 0x2e) {
      byte = load<u8>(++at)
      if (!isDigit(byte)) return -1
      if (mantissa == 0) {
        while (byte == 0x30) {
          exponent--
          byte = load<u8>(++at)
        }
      }
      while (digits + 8 <= DIGITS_MAX) {
        const eight = load<u64>(at)
        if (!areDigits(eight)) break
        mantissa = mantissa * 100_000_000 + valueOf(eight)
        digits += 8
        exponent -= 8
        at += 8
      }
      byte = load<u8>(at)
      while (isDigit(byte)) {
        if (digits < DIGITS_MAX) {
          mantissa = mantissa * 10 + (byte - 48)
          digits++
          exponent--
        }
        byte = load<u8>(++at)
      }
    }
    if ((byte | 0x20) == 0x65) {
      byte = load<u8>(++at)
      const isBelow = byte == 0x2d
      if (isBelow || byte == 0x2b) byte = load<u8>(++at)
      if (!isDigit(byte)) return -1
      let stated = 0
      do {
        if (stated < 10_000) stated = stated * 10 + (byte - 48)
        byte = load<u8>(++at)
      } while (isDigit(byte))
      exponent += isBelow ? -stated : stated
    }

    let value = <f64>mantissa
    if (mantissa != 0) {
      if (exponent < -2 * EXACT_POWER || exponent > 2 * EXACT_POWER) {
        isOdd = true
      } else if (exponent < 0) {
        if (exponent < -EXACT_POWER) {
          value /= 1e22
          exponent += EXACT_POWER
        }
        value /= load<f64>(POWERS + (<usize>-exponent << 3))
      } else {
        if (exponent > EXACT_POWER) {
          value *= 1e22
          exponent -= EXACT_POWER
        }
        value *= load<f64>(POWERS + (<usize>exponent << 3))
      }
      const spare = reinterpret<u64>(value) & SPARE_BITS
      if (!(value > LEAST && value < MOST) || spare - (HALF - DOUBT) <= 2 * DOUBT) isOdd = true
    }
    store<f32>(NUMBERS + (<usize>count << 2), <f32>(isNegative ? -value : value))
    count++

    at = skipSpace(at)
    byte = load<u8>(at)
    if (byte == 0x5d) return at + 1 == end ? count : -1
    if (byte != 0x2c) return -1
    at = skipSpace(at + 1)
  }
  return -2
}
