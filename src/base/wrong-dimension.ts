import { DatabaseError } from './errors.ts'

/**
 * The error of a vector that is not as long as those that are stored.
 *
 * @param path where the vector stands in the request, like `vectors[3].vector`
 */
export function wrongDimension(path: string, length: number, dimension: number): DatabaseError {
  return new DatabaseError(
    'invalid_argument',
    `${path} has ${length} dimensions, the database has ${dimension}`,
  )
}
