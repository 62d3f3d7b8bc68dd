import type { CallOptions } from './call-options.ts'
import type { Hit, ListQuery, PointsClient } from './client.ts'

/** All points of a list: asks for a page when the one before it has been read. */
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
