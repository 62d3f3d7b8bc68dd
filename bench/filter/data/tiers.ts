/**
 * Groups shares so that the sum of each group is at most 1. The texts of one attribute can then be on these shares of
 * the points. First-fit decreasing: places the largest shares first, each in the first group with room.
 */
export function tiersOf(shares: readonly number[]): number[][] {
  const tiers: number[][] = []
  for (const share of [...new Set(shares)].sort((a, b) => b - a)) {
    const tier = tiers.find((each) => sum(each) + share <= 1 + rounding)
    if (tier === undefined) tiers.push([share])
    else tier.push(share)
  }
  return tiers
}

function sum(shares: readonly number[]): number {
  return shares.reduce((total, share) => total + share, 0)
}

/** Tolerates rounding errors: in floating point, 0.6 + 0.3 + 0.1 is not exactly 1. */
const rounding = 1e-9
