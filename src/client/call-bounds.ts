import { DatabaseError } from '../base/errors.ts'
import { optional, wholeIn } from './field-readers.ts'
import { ServiceError } from './service-error.ts'

/** The bounds of each call of a client; the same for both transports. */
export interface CallBounds {
  /** How often a call is retried after the service was busy, starting or unreachable: 4 by default, 0 for never. */
  readonly retries?: number | undefined
  /** How long to wait for an answer, in each attempt: two minutes by default. */
  readonly timeoutMs?: number | undefined
  /** Larger requests are refused before they are sent: 64 MiB by default, like MAX_REQUEST_BYTES of the service. */
  readonly maxRequestBytes?: number | undefined
}

/** The bounds with their defaults. @throws DatabaseError `invalid_argument` */
export function boundsIn(bounds: CallBounds): Readonly<Record<keyof CallBounds, number>> {
  // A timer with a longer time would fire at once.
  const timeoutMs = optional(bounds.timeoutMs, (value, at) => wholeIn(value, at, 1, 2 ** 31 - 1), 'timeoutMs')
  return {
    retries: optional(bounds.retries, wholeIn, 'retries') ?? 4,
    timeoutMs: timeoutMs ?? 120_000,
    maxRequestBytes: optional(bounds.maxRequestBytes, wholeIn, 'maxRequestBytes') ?? 64 * 1024 * 1024,
  }
}

/** @param where the address of the service */
export function noAnswerInTime(where: string, timeoutMs: number, cause: unknown): ServiceError {
  const message = `${where} has not answered within ${timeoutMs} ms (timeoutMs)`
  return new ServiceError('deadline_exceeded', message, { cause, isUncertain: true })
}

export function tooLarge(maxRequestBytes: number): DatabaseError {
  return new DatabaseError(
    'request_too_large',
    `the request takes more than ${maxRequestBytes} bytes (maxRequestBytes of the client, MAX_REQUEST_BYTES of the service): send it in parts; insertAll does so`,
  )
}
