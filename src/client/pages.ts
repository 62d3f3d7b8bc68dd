import type { CallOptions } from './call-options.ts'
import type { Hit, ListQuery, PointsClient } from './client.ts'

/** Yields all points of a list; requests a page when the caller has read the previous one. */
export async function* pagesOf(
  list: PointsClient['list'],
  query: Omit<ListQuery, 'cursor'> | undefined,
  options: CallOptions | undefined,
): AsyncGenerator<Hit> {
  let cursor: string | undefined
  do {
    const page = await list({ limit: pointsPerPage, ...query, cursor }, options)
    yield* page.points
    cursor = page.nextCursor
  } while (cursor !== undefined)
}

const pointsPerPage = 1000
