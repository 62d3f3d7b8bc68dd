import type { AnswerRoom } from '../base/byte-budget.ts'
import { cancellation } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import { inTurns } from '../base/turns.ts'
import type { Database, FacetCount, ReadCall } from '../points/database.ts'
import type { LivePoints } from './live-points.ts'

/** Counts the points that match at the moment when the promise resolves. */
export async function countPoints(
  points: LivePoints,
  filter: Filter | undefined,
  signal: AbortSignal | undefined,
): Promise<number> {
  for (;;) {
    if (signal?.aborted) throw cancellation(signal)
    await points.hideDue()
    const count =
      filter === undefined ? points.table.size : (await inTurns(points.attributes.evaluate(filter))).count
    // Points that have expired meanwhile no longer count.
    if (!points.isDue) return count
  }
}

/** See `Database.facets`. */
export async function facetsOf(
  points: LivePoints,
  query: Parameters<Database['facets']>[0],
  { signal, room }: ReadCall = {},
): Promise<ReadonlyMap<string, readonly FacetCount[]>> {
  await points.hideDue()
  if (signal?.aborted) throw cancellation(signal)
  return await inTurns(countValues(points, query, room))
}

/**
 * Evaluates the filter and counts as one piece of work, so that values are counted as of the evaluation of the filter.
 */
function* countValues(
  { attributes }: LivePoints,
  { filter, paths, limit }: Parameters<Database['facets']>[0],
  room: AnswerRoom | undefined,
): Generator<void, ReadonlyMap<string, readonly FacetCount[]>> {
  const within = filter && (yield* attributes.evaluate(filter))
  return yield* attributes.facets(paths, within, limit, room)
}
