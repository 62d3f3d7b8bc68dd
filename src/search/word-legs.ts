import { type Metric, nearness, pinnedHitsMax, type SearchQuery } from '../base/point.ts'

/**
 * The legs of a search by words, and how both make a score. A node of a cluster finds the legs among its points, and
 * the asking node joins them.
 */

/** A point that one of the legs has found, with the figures of both. */
export interface Leg {
  readonly sequence: number
  /** As the index computes it; NaN without a vector. */
  readonly distance: number
  /** The BM25 score. */
  readonly words: number
}

export interface Scored extends Leg {
  readonly score: number
}

/** What both legs have found. Scores are relative to the best of all points that the caller's key may see. */
export interface Legs<Found extends Leg = Leg> {
  readonly found: readonly Found[]
  /** The best BM25 score; 0 if no point has the words. */
  readonly bestWords: number
  /** The greatest nearness that is not known from `found`. */
  readonly nearest: number
}

/** Returns how many points each leg of a query finds. */
export function legSizeOf({ cursor, limit }: Pick<SearchQuery, 'cursor' | 'limit'>): number {
  return Math.max(limit, cursor === undefined ? candidatesMin : pinnedHitsMax)
}

/** Whether a query has a vector beside its words. */
export function isHybrid({ vector }: Pick<SearchQuery, 'vector'>): boolean {
  return typeof vector === 'string' || vector.length > 0
}

/** Scores what the legs have found: the best first, and the first inserted of equal scores. */
export function fused<Found extends Leg>(query: SearchQuery, legs: Legs<Found>): (Found & Scored)[] {
  const scoreOf = scorer(query, legs)
  const scored: (Found & Scored)[] = []
  for (const each of legs.found) {
    const score = scoreOf(each.distance, each.words)
    if (score >= 0) scored.push({ ...each, score })
  }
  return scored.sort(byScore)
}

/** Returns a function that scores a point; -1 if it is too far away. */
function scorer(query: SearchQuery, legs: Legs): (distance: number, words: number) => number {
  const { metric, maxDistance = Number.POSITIVE_INFINITY } = query
  const { bestWords } = legs
  const { balance } = query.words!
  const byWords = (words: number): number => (bestWords === 0 ? 0 : words / bestWords)
  if (!isHybrid(query)) return (_, words) => byWords(words)
  const best = greatestNearness(metric, legs)
  return (distance, words) => {
    const inMetric = inUnits(metric, distance)
    if (inMetric > maxDistance) return -1
    const byNearness = best === 0 ? 0 : nearness(metric, inMetric) / best
    return balance * byNearness + (1 - balance) * byWords(words)
  }
}

function greatestNearness(metric: Metric, { found, nearest }: Legs): number {
  let most = nearest
  for (const { distance } of found) most = Math.max(most, nearness(metric, inUnits(metric, distance)))
  return most
}

/**
 * Returns those of some points, whose BM25 is not known, that can be among the best `limit` of all candidates.
 *
 * @param legs all others; `nearest` is of these points, too
 * @param points with the distances of kernels
 * @param wordsMax no BM25 score of these points is greater
 */
export function contenders<Point extends Pick<Leg, 'distance'>>(
  query: SearchQuery,
  legs: Legs,
  points: readonly Point[],
  { wordsMax, limit }: { readonly wordsMax: number; readonly limit: number },
): readonly Point[] {
  const { metric, maxDistance } = query
  const scoreOf = scorer(query, legs)
  const scores = legs.found.map(({ distance, words }) => scoreOf(distance, words))
  // Which points are too far away is not certain.
  const mostOf = maxDistance === undefined ? scoreOf : scorer({ ...query, maxDistance: undefined }, legs)
  if (maxDistance === undefined) for (const { distance } of points) scores.push(scoreOf(distance, 0))
  if (scores.length < limit) return points
  const error = kernelError * (1 + 1 / greatestNearness(metric, legs))
  const needed = Float64Array.from(scores).sort()[scores.length - limit]! - 2 * error
  return points.filter(({ distance }) => mostOf(distance, wordsMax) >= needed)
}

/** Much more than the rounding of kernels, which add in another order than the definition of a distance. */
export const kernelError = 1e-9

function byScore(a: Scored, b: Scored): number {
  return b.score - a.score || a.sequence - b.sequence
}

/** Returns a distance in the units of its metric, given one of the index. */
export function inUnits(metric: Metric, distance: number): number {
  return metric === 'Euclidean' ? Math.sqrt(distance) : distance
}

/** The best of each leg that are scored by both. More change the first ten hits of hardly any query. */
const candidatesMin = 100
