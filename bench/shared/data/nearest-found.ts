import type { NearestLists } from './exact-lists.ts'

/** A relative tolerance. If two distances differ by less, float32 arithmetic may order them either way. */
const tieTolerance = 1e-6

/**
 * Counts how many of the `wanted` nearest of a query are among the ids. Points at the distance of the last of them
 * count as nearest. No id counts twice.
 *
 * @param depth the number of entries in each list of the exact answers
 * @param wanted at most `depth`, and at most the number of existing points
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
