import { idBytes } from './ids.ts'

/**
 * Hashes an id for random sampling: a sample is the points with the lowest hashes. Ids that callers choose can be
 * consecutive numbers, hence MurmurHash3 (Appleby, public domain).
 *
 * @param words the 16 bytes of the id as four words
 * @returns 0..2^32 - 1
 */
export function sampleHash(words: Uint32Array, seed: number): number {
  let hash = seed
  for (let at = 0; at < 4; at += 1) {
    let word = Math.imul(words[at]!, 0xcc9e2d51)
    word = Math.imul((word << 15) | (word >>> 17), 0x1b873593)
    hash ^= word
    hash = Math.imul((hash << 13) | (hash >>> 19), 5) + 0xe6546b64
  }
  hash ^= idBytes
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}

/** How many different hashes there are. */
export const sampleHashes: number = 2 ** 32
