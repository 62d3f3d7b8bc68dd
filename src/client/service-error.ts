import { DatabaseError, type Reason } from '../base/errors.ts'

/** A failed call: the service refused it, or did not answer. */
export class ServiceError extends DatabaseError {
  /** How long the service asks the client to wait before a retry. */
  readonly retryAfterMs: number | undefined
  /** Whether the service may have executed the request although no answer arrived. */
  readonly isUncertain: boolean

  constructor(
    reason: Reason,
    message: string,
    options: {
      readonly cause?: unknown
      readonly retryAfterMs?: number | undefined
      readonly isUncertain?: boolean | undefined
    } = {},
  ) {
    super(reason, message, { cause: options.cause })
    this.retryAfterMs = options.retryAfterMs
    this.isUncertain = options.isUncertain ?? false
  }
}
