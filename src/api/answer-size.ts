import type { DatabaseError } from '../base/errors.ts'
import { invalid } from './call.ts'

/**
 * The most bytes of an answer with contents or vectors, which callers choose the number and the size of. Ids alone are
 * bounded by the limits of their requests.
 */
export const answerBytesMax = 268_435_456

export function answerTooLarge(): DatabaseError {
  return invalid(
    `the answer would have more than ${answerBytesMax} bytes: lower the limit, or include less than now`,
  )
}
