import { IdLists } from '../base/id-lists.ts'
import { idBytes } from '../base/ids.ts'
import type { Metric, SearchQuery } from '../base/point.ts'
import type { Ranks } from '../base/search-results.ts'
import type { IdTable } from '../points/id-table.ts'
import type { HitLists } from './hit-lists.ts'
import type { TouchedSlots } from './touched-slots.ts'

/** Lists of found points. */
export interface FoundIds {
  readonly ids: IdLists
  /** The distance of each id, in the units of its query's metric. */
  readonly distances: Float64Array | readonly number[]
  readonly ranks: Ranks | undefined
}

/**
 * Returns the ids of all hits with their distances, in steps if there are many; undefined if changes made meanwhile
 * touched a list: one of its hits, or any slot if it is not full, because then it should contain every point.
 *
 * @param queries one query for each list of hits
 * @param touched the slots touched since the search began
 */
export function* foundIds(
  hits: HitLists,
  queries: readonly Pick<SearchQuery, 'metric' | 'ranked' | 'limit'>[],
  ids: Pick<IdTable, 'copyId'>,
  touched: TouchedSlots,
): Generator<void, FoundIds | undefined> {
  const { total } = hits
  const bytes = Buffer.allocUnsafe(total * idBytes)
  // For the few hits of one search, an array is created in a fraction of the time of a typed array.
  const distances: number[] = []
  const isRanked = queries.some(({ ranked }) => ranked)
  const ranks = isRanked ? emptyRanks(total) : undefined
  const ends: number[] = []
  let copied = 0
  for (let list = 0; list < hits.length; list += 1) {
    const length = hits.lengthOf(list)
    const { metric, limit } = queries[list]!
    for (let rank = 0; rank < length; rank += 1) {
      ids.copyId(hits.slot(list, rank), bytes, copied * idBytes)
      distances.push(inUnits(metric, hits.distance(list, rank)))
      if (ranks !== undefined) {
        ranks.keys[copied] = hits.distance(list, rank)
        ranks.sequences[copied] = hits.sequence(list, rank)
      }
      copied += 1
      if (copied % idsPerStep === 0) yield
    }
    if (!touched.isNone && isTouched(hits, list, limit, touched)) return undefined
    ends.push(copied)
  }
  return { ids: new IdLists(bytes, ends), distances, ranks }
}

/**
 * Whether changes touched a list of hits, so that it can lack points, or have points that it should not have. Does not
 * notice vectors that were replaced, or points that came to match a filter.
 */
export function isTouched(hits: HitLists, list: number, limit: number, touched: TouchedSlots): boolean {
  const length = hits.lengthOf(list)
  const slots = touched.now()
  if (slots === undefined || length < limit) return true
  for (let rank = 0; rank < length; rank += 1) if (slots.has(hits.slot(list, rank))) return true
  return false
}

export function emptyRanks(count: number): Ranks {
  return { keys: new Float64Array(count), sequences: new Float64Array(count) }
}

/** Converts the index's distance to the units of the metric: the index compares squared Euclidean distances. */
export function inUnits(metric: Metric, distance: number): number {
  return metric === 'Euclidean' ? Math.sqrt(distance) : distance
}

/** Copying this many takes a tenth of a millisecond, because each copy waits for memory. */
const idsPerStep = 512
