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
  const { found, bestWords } = legs
  const { metric, maxDistance } = query
  const { balance } = query.words!
  const byWords = ({ words }: Leg): number => (bestWords === 0 ? 0 : words / bestWords)
  if (!isHybrid(query)) return found.map((each) => ({ ...each, score: byWords(each) })).sort(byScore)
  const near = found.map(({ distance }) => nearness(metric, inUnits(metric, distance)))
  const best = near.reduce((most, each) => Math.max(most, each), legs.nearest)
  const scored: (Found & Scored)[] = []
  for (const [index, each] of found.entries()) {
    if (maxDistance !== undefined && inUnits(metric, each.distance) > maxDistance) continue
    const byNearness = best === 0 ? 0 : near[index]! / best
    scored.push({ ...each, score: balance * byNearness + (1 - balance) * byWords(each) })
  }
  return scored.sort(byScore)
}

function byScore(a: Scored, b: Scored): number {
  return b.score - a.score || a.sequence - b.sequence
}

/** Returns a distance in the units of its metric, given one of the index. */
export function inUnits(metric: Metric, distance: number): number {
  return metric === 'Euclidean' ? Math.sqrt(distance) : distance
}

/** The best of each leg that are scored by both. More change the first ten hits of hardly any query. */
const candidatesMin = 100
