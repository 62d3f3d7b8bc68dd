import { DatabaseError } from './errors.ts'

/**
 * The error for a vector whose length differs from that of the stored ones.
 *
 * @param path of the vector in the request, like `vectors[3].vector`
 */
export function wrongDimension(path: string, length: number, dimension: number): DatabaseError {
  return new DatabaseError(
    'invalid_argument',
    `${path} has ${length} dimensions, the database has ${dimension}`,
  )
}
