import type { JsonObject } from '../api/types.ts'

/** Chooses a sample of the points of a collection by their versions. */

export interface VersionRange {
  readonly from: number
  readonly below: number
}

const rangeCount = 32

/** Divides the versions into equal parts, and chooses a share of each part at random. */
export function versionRanges({ from, below }: VersionRange, share: number, seed: number): JsonObject[] {
  const part = (below - from) / rangeCount
  return Array.from({ length: rangeCount }, (_, number) => {
    const start = from + part * (number + random(seed, number) * (1 - share))
    return { $version: { $gte: Math.floor(start), $lt: Math.floor(start + part * share) + 1 } }
  })
}

/** Returns a number from 0 to 1 that depends on both numbers: a step of the generator mulberry32. */
function random(seed: number, number: number): number {
  let bits = Math.imul(seed + 0x6d2b79f5 * (number + 1), 1)
  bits = Math.imul(bits ^ (bits >>> 15), bits | 1)
  bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61)
  return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32
}

/** Returns as many of the points as the limit allows, evenly. */
export function thinned<T>(points: readonly T[], limit: number): readonly T[] {
  const share = Math.min(1, limit / points.length)
  return points.filter((_, number) => Math.floor((number + 1) * share) > Math.floor(number * share))
}
