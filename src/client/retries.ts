import { cancellation, type Reason } from '../base/errors.ts'
import { ServiceError } from './service-error.ts'

/** What the retries of one call depend on. */
interface Attempts {
  readonly signal: AbortSignal | undefined
  /** Whether the call is idempotent. Other calls are retried only if the service refused them. */
  readonly isRepeatable: boolean
}

/**
 * Retries a call until it succeeds, fails permanently, or has no retries left. The back-off doubles with each retry and
 * is random within its upper half, so that clients do not return simultaneously. It is never shorter than the service
 * asks.
 */
export async function withRetries<Result>(
  retries: number,
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
  return (
    error instanceof ServiceError && passingReasons.has(error.reason) && (isRepeatable || !error.isUncertain)
  )
}

/** Reasons for failures that are temporary. */
export const passingReasons: ReadonlySet<Reason> = new Set([
  ...(['overloaded', 'not_ready', 'shutting_down', 'embeddings_unavailable'] as const),
])

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

const firstWaitMs = 100
const waitMaxMs = 10_000
