import type { Filter } from '../../../src/base/filter.ts'
import type { MatchingRows } from '../../shared/data/matching-rows.ts'
import { noId } from './no-id.ts'

/** A filtered search, for bench:filter. Queries run one after the other on one thread. */
export interface FilteredRequest {
  /** Row-major. */
  readonly queries: Float32Array
  /** By query, its filter. */
  readonly filters: readonly Filter[]
  /** By query, the matching rows, for contenders that do not evaluate filters themselves. */
  readonly matching: (query: number) => MatchingRows
  readonly k: number
  readonly ef: number
  /** Which way to use, for contenders with several ways. */
  readonly mode: string
}

export interface FilteredAnswer {
  /** `k` ids per query, filled with `noId` if fewer were found. */
  readonly ids: Uint32Array
  /** By query, the time of the call alone. */
  readonly microseconds: Float64Array
  /** By query, if the contender reports it. */
  readonly profiles?: readonly FilteredProfile[] | undefined
}

/** How a query was answered. */
export interface FilteredProfile {
  readonly plan: string
  /** The number of vectors or codes whose distance was computed. */
  readonly compared: number
  readonly filterUs?: number | undefined
}

/**
 * Runs queries one after the other and measures the time of each.
 *
 * @param search answers the query with a number; only this is timed
 * @param idsOf extracts the ids from an answer, nearest first
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
    // Awaiting a value that is not a promise would cost a synchronous library a turn of the event loop.
    const found = answer instanceof Promise ? await answer : answer
    microseconds[query] = Number(process.hrtime.bigint() - start) / 1000
    ids.set([...idsOf(found, query)].slice(0, k), query * k)
  }
  return { ids, microseconds }
}
