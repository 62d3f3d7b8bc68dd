import { IdLists } from '../base/id-lists.ts'
import { idBytes } from '../base/ids.ts'
import type { Metric, SearchQuery } from '../base/point.ts'
import type { Ranks } from '../base/search-results.ts'
import type { VectorIndex } from '../index/vector-index.ts'
import type { HitLists } from './hit-lists.ts'
import type { IdTable } from './id-table.ts'

/** Lists of found points. */
export interface FoundIds {
  readonly ids: IdLists
  /** The distance of each id, in the units of its query's metric. */
  readonly distances: Float64Array | readonly number[]
  readonly ranks: Ranks | undefined
}

/**
 * Returns the ids of all hits with their distances, in steps if there are many. Drops hits whose slot was deleted, or
 * deleted and reused, while the search ran.
 *
 * @param queries one query for each list of hits
 * @param index undefined if there are no hits
 * @param removals the index's count of removals before the search
 */
export function* foundIds(
  hits: HitLists,
  queries: readonly Pick<SearchQuery, 'metric' | 'ranked'>[],
  ids: Pick<IdTable, 'copyId'>,
  index: VectorIndex | undefined,
  removals: number,
): Generator<void, FoundIds> {
  const bytes = Buffer.allocUnsafe(hits.total * idBytes)
  // For the few hits of one search, an array is created in a fraction of the time of a typed array.
  const distances: number[] = []
  const isRanked = queries.some(({ ranked }) => ranked)
  const ranks = isRanked ? emptyRanks(hits.total) : undefined
  const ends: number[] = []
  let copied = 0
  let seen = 0
  for (let list = 0; list < hits.length; list += 1) {
    const length = hits.lengthOf(list)
    const { metric } = queries[list]!
    for (let rank = 0; rank < length; rank += 1) {
      seen += 1
      if (seen % idsPerStep === 0) yield
      const slot = hits.slot(list, rank)
      // Skipped if nothing was removed: checking every slot costs two cache misses per hit.
      const isFound =
        index?.removals === removals ||
        (index!.isLive(slot) && index!.sequenceOf(slot) === hits.sequence(list, rank))
      if (!isFound) continue
      ids.copyId(slot, bytes, copied * idBytes)
      distances.push(inUnits(metric, hits.distance(list, rank)))
      if (ranks !== undefined) {
        ranks.keys[copied] = hits.distance(list, rank)
        ranks.sequences[copied] = hits.sequence(list, rank)
      }
      copied += 1
    }
    ends.push(copied)
  }
  return {
    ids: new IdLists(bytes, ends),
    distances,
    ranks: ranks && {
      keys: ranks.keys.subarray(0, copied),
      sequences: ranks.sequences.subarray(0, copied),
    },
  }
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
