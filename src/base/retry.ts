import { cancellation } from './errors.ts'

/**
 * The retries of clients, of the embedding endpoint and of an import, which differ in what they try again and when. No
 * library: the clients must run in browsers and have no dependencies.
 */

/**
 * Tries until an attempt succeeds.
 *
 * @param pauseOf how long to wait after an error, in milliseconds; undefined: no further attempt
 * @throws the error of the last attempt; the cancellation of `signal` while it waits
 */
export async function retried<Result>(
  attempt: () => Promise<Result>,
  pauseOf: (error: unknown, retries: number) => number | undefined,
  signal?: AbortSignal,
): Promise<Result> {
  for (let retries = 0; ; retries += 1) {
    try {
      return await attempt()
    } catch (error) {
      const pauseMs = pauseOf(error, retries)
      if (pauseMs === undefined) throw error
      await wait(pauseMs, signal)
    }
  }
}

/** A pause that doubles with each retry and is random within its upper half, so that callers do not return together. */
export function backoffMs(retries: number, firstMs: number, mostMs: number): number {
  return Math.min(mostMs, firstMs * 2 ** retries) * (0.5 + Math.random() / 2)
}

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
