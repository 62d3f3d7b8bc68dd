import { DatabaseError } from './errors.ts'

/**
 * The error for a vector whose length differs from the stored vectors.
 *
 * @param path place of the vector in the request, like `vectors[3].vector`
 */
export function wrongDimension(path: string, length: number, dimension: number): DatabaseError {
  return new DatabaseError(
    'invalid_argument',
    `${path} has ${length} dimensions, the collection has ${dimension}`,
  )
}
