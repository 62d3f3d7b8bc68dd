import { DatabaseError, type Reason } from '../base/errors.ts'

/** A failure of a call: what the service refused, or that nobody answered. */
export class ServiceError extends DatabaseError {
  /** When the service asks to be called again. */
  readonly retryAfterMs: number | undefined
  /** Whether the request may have been carried out all the same, because its answer did not arrive. */
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
