import { DatabaseError } from '../base/errors.ts'
import type { Point } from '../base/point.ts'
import type { PointToInsert, VectorClient } from '../client/client.ts'

/**
 * Finds out whether a batch is stored whose answer was lost, and under which ids. The service makes the ids,
 * so a batch cannot be sent again safely; but it is stored whole or not at all, and a point can be found
 * through its own vector.
 *
 * Points that the service refuses count as dealt with: an import that skips them did not store them either.
 * Points with the same vector and content from elsewhere cannot be told from these.
 *
 * @returns the ids in the order of `points`; undefined when any point is missing
 */
export async function findStored(
  client: VectorClient,
  points: readonly PointToInsert[],
): Promise<readonly string[] | undefined> {
  const ids = new Set<string>()
  for (const point of points) {
    const found = await candidatesOf(client, point)
    if (found === undefined) continue
    const id = found.find((each) => !ids.has(each.id) && isSame(each, point))?.id
    if (id === undefined) return undefined
    ids.add(id)
  }
  return [...ids]
}

/** The points nearest to `point`, newest first; undefined when the service would not store `point` either. */
async function candidatesOf(client: VectorClient, point: PointToInsert): Promise<Point[] | undefined> {
  try {
    const found = await client.search({ vector: point.vector, metric: 'Euclidean', limit, ef })
    const points = await Promise.all(found.map((id) => getIfThere(client, id)))
    return points.filter((each) => each !== undefined).reverse()
  } catch (error) {
    if (error instanceof DatabaseError && error.reason === 'invalid_argument') return undefined
    throw error
  }
}

/** A point can be deleted between the search and the look at it. */
export async function getIfThere(client: VectorClient, id: string): Promise<Point | undefined> {
  try {
    return await client.get(id)
  } catch (error) {
    if (error instanceof DatabaseError && error.reason === 'not_found') return undefined
    throw error
  }
}

function isSame(stored: Point, { vector, payload }: PointToInsert): boolean {
  return (
    stored.payload.content === payload.content &&
    stored.payload.contentType === payload.contentType &&
    stored.vector.length === vector.length &&
    stored.vector.every((component, index) => component === vector[index])
  )
}

/** Room for points that share a vector; a search this broad does not miss a point that is there. */
const limit = 16
const ef = 512
