import type { NewPoint } from '../../src/base/point.ts'
import type { Database, InsertOptions } from '../../src/points/database.ts'

/** Inserts points, all of which must be stored, and resolves with their ids. */
export async function insertIds(
  database: Pick<Database, 'insert'>,
  points: readonly NewPoint[],
  options?: InsertOptions,
): Promise<readonly string[]> {
  const { ids } = await database.insert(points, options)
  return ids as readonly string[]
}
