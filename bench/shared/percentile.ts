/**
 * The smallest value that at least this share of the values does not exceed (nearest rank).
 *
 * @param values at least one
 * @param share above 0, at most 1
 */
export function percentile(values: ArrayLike<number>, share: number): number {
  const sorted = Float64Array.from(values).sort()
  if (sorted.length === 0) throw new Error('no values')
  return sorted[Math.max(1, Math.ceil(share * sorted.length)) - 1]!
}
