/**
 * Groups of shares with a sum of at most 1: the texts of one attribute can be on that many of the points. The largest first,
 * each in the first group with room.
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

/** 0.6 + 0.3 + 0.1 is a little more than 1. */
const rounding = 1e-9
