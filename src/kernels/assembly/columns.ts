import * as words from '../graph-header'

/**
 * The columns of a segment, by slot: rows, their codes, norms and hashes, sequence numbers, and whether the slot is
 * live.
 *
 * Each thread has its own instance of this module, and so its own variables. They are set once, when the instance is
 * attached. A search never changes them.
 */

export let live: usize = 0
export let sequences: usize = 0
/** f64 a slot: the squared norm of its row. */
export let norms: usize = 0
/** u64 a slot: the hash of its row (row-hash.ts). 0 if the rows stay on disk. */
export let hashes: usize = 0
/** 0 if the rows stay on disk. */
export let rows: usize = 0
/** Number of components of a row with padding. */
export let rowLength: i32 = 0

export let codes: usize = 0
/** Bytes of a code with its header; 0 if there are no codes. */
export let codeStride: usize = 0
/** Number of components of a code with padding. */
export let width: i32 = 0
/** 7, one code in a byte (codes.ts), or 4, two codes in a byte (nibbles.ts). */
export let codeBits: i32 = 0

/** Binds this instance to the columns of a segment. The header of any of its graphs has their addresses. */
export function attachColumns(header: usize): void {
  live = load<usize>(header, words.LIVE)
  sequences = load<usize>(header, words.SEQUENCES)
  norms = load<usize>(header, words.NORMS)
  hashes = load<usize>(header, words.HASHES)
  rows = load<usize>(header, words.ROWS)
  rowLength = load<i32>(header, words.ROW_LENGTH)
  codes = load<usize>(header, words.CODES)
  codeStride = load<usize>(header, words.CODE_STRIDE)
  width = load<i32>(header, words.CODE_WIDTH)
  codeBits = load<i32>(header, words.CODE_BITS)
}

// @ts-ignore: decorator
@inline
export function isLive(slot: u32): bool {
  return atomic.load<u8>(live + <usize>slot) != 0
}

// @ts-ignore: decorator
@inline
export function rowOf(slot: u32): usize {
  return rows + <usize>slot * (<usize>rowLength << 2)
}

// @ts-ignore: decorator
@inline
export function codeOf(slot: u32): usize {
  return codes + <usize>slot * codeStride
}

// @ts-ignore: decorator
@inline
export function normOf(slot: u32): f64 {
  return load<f64>(norms + (<usize>slot << 3))
}

// @ts-ignore: decorator
@inline
export function hashOf(slot: u32): u64 {
  return load<u64>(hashes + (<usize>slot << 3))
}

// @ts-ignore: decorator
@inline
export function sequenceOf(slot: u32): f64 {
  return load<f64>(sequences + (<usize>slot << 3))
}
