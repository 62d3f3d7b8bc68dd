import { randomBytes } from 'node:crypto'

/**
 * Returns a 32-bit hash that mixes like MurmurHash3. The seeds are random in each process, so that callers cannot
 * choose texts that collide.
 */
export function hashBytes(bytes: Uint8Array): number {
  const { length } = bytes
  let hash = seed ^ length
  let at = 0
  for (; at + 4 <= length; at += 4) {
    const word = bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)
    hash = mixIn(hash, word)
  }
  let rest = 0
  for (let shift = 0; at < length; at += 1, shift += 8) rest |= bytes[at]! << shift
  hash = mixIn(hash, rest)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}

function mixIn(hash: number, word: number): number {
  const scrambled = Math.imul(word ^ wordSeed, 0xcc9e2d51)
  const mixed = hash ^ Math.imul((scrambled << 15) | (scrambled >>> 17), multiplier)
  return Math.imul((mixed << 13) | (mixed >>> 19), 5) + 0xe6546b64
}

const seeds = randomBytes(12)
const seed = seeds.readInt32LE(0)
const wordSeed = seeds.readInt32LE(4)
/** Odd, so that the multiplication is invertible. */
const multiplier = seeds.readInt32LE(8) | 1
