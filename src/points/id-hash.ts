import { randomFillSync } from 'node:crypto'
import { idBytes } from '../base/ids.ts'

/**
 * A hash of 16-byte ids with a random key per process.
 *
 * This is simple tabulation hashing: each byte of the id selects a random word from its own table, and the words are
 * combined by xor. With it, linear probing takes expected constant time for any set of ids that was chosen without
 * knowledge of the tables (Patrascu and Thorup, "The Power of Simple Tabulation Hashing", 2012). Unlike multiplicative
 * hashes, it has no sets of ids that collide under every key. The tables take 16 KiB, so they stay in the first-level
 * cache.
 */
export function hashId(id: Uint8Array, offset: number): number {
  let hash = 0
  for (let index = 0; index < idBytes; index += 1) hash ^= words[(index << 8) | id[offset + index]!]!
  return hash >>> 0
}

const words: Uint32Array = randomFillSync(new Uint32Array(idBytes * 256))
