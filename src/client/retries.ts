import { cancellation, type Reason } from '../base/errors.ts'
import { ServiceError } from './service-error.ts'

/** How often a call is tried again after the service was busy, starting or not reachable. */
export interface RetryOptions {
  /** 4 when not given; 0 for never. */
  readonly retries?: number | undefined
}

/** Of one call. */
export interface Attempts {
  readonly signal: AbortSignal | undefined
  /** Whether doing it twice does the same as doing it once. Otherwise it is tried again only where it was refused. */
  readonly isRepeatable: boolean
}

/**
 * Tries a call until it succeeds, fails for good, or has been tried often enough. Waits longer each time, for a random
 * share of it, so that clients do not come back all at once; never less than the service asks for.
 */
export async function withRetries<Result>(
  { retries = usualRetries }: RetryOptions,
  { isRepeatable, signal }: Attempts,
  attempt: () => Promise<Result>,
): Promise<Result> {
  for (let tries = 0; ; tries += 1) {
    try {
      return await attempt()
    } catch (error) {
      if (tries >= retries || !mayBeRetried(error, isRepeatable)) throw error
      const most = Math.min(waitMaxMs, firstWaitMs * 2 ** tries)
      const waitMs = most * (0.5 + Math.random() / 2)
      await wait(Math.max((error as ServiceError).retryAfterMs ?? 0, waitMs), signal)
    }
  }
}

function mayBeRetried(error: unknown, isRepeatable: boolean): boolean {
  return error instanceof ServiceError && passing.has(error.reason) && (isRepeatable || !error.isUncertain)
}

/** Reasons that pass. */
const passing: ReadonlySet<Reason> = new Set(['overloaded', 'not_ready', 'shutting_down'])

function wait(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const cancel = (): void => {
      clearTimeout(timer)
      reject(cancellation(signal!))
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', cancel)
      resolve()
    }, ms)
    if (signal?.aborted) cancel()
    else signal?.addEventListener('abort', cancel, { once: true })
  })
}

const usualRetries = 4
const firstWaitMs = 100
const waitMaxMs = 10_000
