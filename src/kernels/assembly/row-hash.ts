import { hashes, rowLength } from './columns'

/**
 * Hashes of rows: XXH64 by Yann Collet (github.com/Cyan4973/xxHash, doc/xxhash_spec.md) with seed 0. A row is a multiple
 * of 32 bytes, so the steps for a shorter end are missing.
 *
 * Two equal rows have equal hashes. Two different ones have different hashes but for a chance of 2^-64.
 */

const PRIME_1: u64 = 0x9e3779b185ebca87
const PRIME_2: u64 = 0xc2b2ae3d27d4eb4f
const PRIME_3: u64 = 0x165667b19e3779f9
const PRIME_4: u64 = 0x85ebca77c2b2ae63

/** Writes the hash of the row at an address to the column of hashes. */
export function hashRow(row: usize, slot: u32): void {
  const bytes = <usize>rowLength << 2
  const end = row + bytes
  let a = PRIME_1 + PRIME_2
  let b = PRIME_2
  let c: u64 = 0
  let d = 0 - PRIME_1
  for (; row < end; row += 32) {
    a = round(a, load<u64>(row))
    b = round(b, load<u64>(row, 8))
    c = round(c, load<u64>(row, 16))
    d = round(d, load<u64>(row, 24))
  }
  let hash = rotl<u64>(a, 1) + rotl<u64>(b, 7) + rotl<u64>(c, 12) + rotl<u64>(d, 18)
  hash = merged(merged(merged(merged(hash, a), b), c), d) + <u64>bytes
  hash = (hash ^ (hash >>> 33)) * PRIME_2
  hash = (hash ^ (hash >>> 29)) * PRIME_3
  store<u64>(hashes + (<usize>slot << 3), hash ^ (hash >>> 32))
}

// @ts-ignore: decorator
@inline
function round(lane: u64, word: u64): u64 {
  return rotl<u64>(lane + word * PRIME_2, 31) * PRIME_1
}

// @ts-ignore: decorator
@inline
function merged(hash: u64, lane: u64): u64 {
  return (hash ^ round(0, lane)) * PRIME_1 + PRIME_4
}
