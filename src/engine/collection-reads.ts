import { cancellation } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import { inTurns } from '../base/turns.ts'
import type { Database, FacetCount } from './database.ts'
import type { LivePoints } from './live-points.ts'

/** How many points match, as of the moment when it resolves. */
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
    // What has become due meanwhile does not count any more.
    if (!points.isDue) return count
  }
}

/** See `Database.facets`. */
export async function facetsOf(
  points: LivePoints,
  query: Parameters<Database['facets']>[0],
  signal: AbortSignal | undefined,
): Promise<ReadonlyMap<string, readonly FacetCount[]>> {
  await points.hideDue()
  if (signal?.aborted) throw cancellation(signal)
  return await inTurns(countValues(points, query))
}

/** In one piece, so that values are counted as of the moment when the filter was evaluated. */
function* countValues(
  { attributes }: LivePoints,
  { filter, paths, limit }: Parameters<Database['facets']>[0],
): Generator<void, ReadonlyMap<string, readonly FacetCount[]>> {
  const within = filter && (yield* attributes.evaluate(filter))
  return yield* attributes.facets(paths, within, limit)
}
