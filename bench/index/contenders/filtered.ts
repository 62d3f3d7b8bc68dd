import type { Filter } from '../../../src/base/filter.ts'
import type { MatchingRows } from '../../shared/data/matching-rows.ts'
import { noId } from './no-id.ts'

/** A search with filters, for bench:filter: one query after the other on one thread. */
export interface FilteredRequest {
  /** Row-major. */
  readonly queries: Float32Array
  /** By query. */
  readonly filters: readonly Filter[]
  /** What the filters mean, by query: for contenders that do not evaluate filters themselves. */
  readonly matching: (query: number) => MatchingRows
  readonly k: number
  readonly ef: number
  /** For contenders with several ways: which one. */
  readonly mode: string
}

export interface FilteredAnswer {
  /** `k` ids a query; `noId` where fewer were found. */
  readonly ids: Uint32Array
  /** By query: around nothing but the call. */
  readonly microseconds: Float64Array
  /** By query, where the contender says it. */
  readonly profiles?: readonly FilteredProfile[] | undefined
}

/** How a query was answered. */
export interface FilteredProfile {
  readonly plan: string
  /** Vectors or codes whose distance was computed. */
  readonly compared: number
  readonly filterUs?: number | undefined
}

/**
 * Runs queries one after the other and takes the time of each.
 *
 * @param search returns the ids of the query of this number, nearest first; what it returns besides is not timed
 */
export async function timedQueries<Found>(
  count: number,
  k: number,
  search: (query: number) => Found | Promise<Found>,
  idsOf: (found: Found, query: number) => Iterable<number>,
): Promise<Pick<FilteredAnswer, 'ids' | 'microseconds'>> {
  const ids = new Uint32Array(count * k).fill(noId)
  const microseconds = new Float64Array(count)
  for (let query = 0; query < count; query += 1) {
    const start = process.hrtime.bigint()
    const answer = search(query)
    // Waiting for what is there already would cost a synchronous library a turn.
    const found = answer instanceof Promise ? await answer : answer
    microseconds[query] = Number(process.hrtime.bigint() - start) / 1000
    ids.set([...idsOf(found, query)].slice(0, k), query * k)
  }
  return { ids, microseconds }
}
