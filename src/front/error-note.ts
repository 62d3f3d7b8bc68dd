import { inspect } from 'node:util'
import { DatabaseError, type Reason } from '../base/errors.ts'

/** An error as it crosses between threads. */
export interface ErrorNote {
  /** Empty for what is no `DatabaseError`. */
  readonly reason: Reason | ''
  readonly message: string
  /** For the log: where it came from, as text; empty when there is nothing to tell. */
  readonly cause: string
}

export function noteOf(thrown: unknown): ErrorNote {
  if (thrown instanceof DatabaseError) {
    const { reason, message, cause } = thrown
    return { reason, message, cause: cause === undefined ? '' : inspect(cause) }
  }
  return {
    reason: '',
    message: thrown instanceof Error ? thrown.message : String(thrown),
    cause: inspect(thrown),
  }
}

export function errorOf({ reason, message, cause }: ErrorNote): Error {
  if (reason === '') return withStack(message, cause)
  if (cause === '') return new DatabaseError(reason, message)
  return new DatabaseError(reason, message, { cause: withStack(cause.split('\n')[0]!, cause) })
}

/** The stack of this thread would tell nothing. */
function withStack(message: string, stack: string): Error {
  const error = new Error(message)
  error.stack = stack
  return error
}
