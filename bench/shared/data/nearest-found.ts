import type { NearestLists } from './exact-lists.ts'

/** Relative: below it, float32 arithmetic puts two distances in either order. */
const tieTolerance = 1e-6

/**
 * How many of the `wanted` nearest of a query are among the ids. Points as far away as the last of them count as nearest, and no id
 * counts twice.
 *
 * @param depth entries of each list of the exact answers
 * @param wanted at most `depth`, and no more than there are
 */
export function nearestFound(
  { ids: exact, distances }: NearestLists,
  depth: number,
  query: number,
  ids: Iterable<number>,
  wanted: number,
): number {
  if (wanted === 0) return 0
  const from = query * depth
  const farthest = distances[from + wanted - 1]! * (1 + tieTolerance) + tieTolerance * tieTolerance
  let count = wanted
  while (count < depth && distances[from + count]! <= farthest) count += 1
  const nearest = new Set(exact.subarray(from, from + count))
  let found = 0
  for (const id of new Set(ids)) found += Number(nearest.has(id))
  return Math.min(wanted, found)
}
