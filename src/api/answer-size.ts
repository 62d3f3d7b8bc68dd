import type { DatabaseError } from '../base/errors.ts'
import { invalid } from './call.ts'

/**
 * The maximum size of an answer with contents or vectors: callers choose how many of them there are, and how large. The
 * limits of a request already bound an answer of ids alone.
 */
export const answerBytesMax = 268_435_456

export function answerTooLarge(): DatabaseError {
  return invalid(`the answer would have more than ${answerBytesMax} bytes: lower the limit, or include less`)
}
