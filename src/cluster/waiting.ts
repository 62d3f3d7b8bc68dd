import { setTimeout as delay } from 'node:timers/promises'
import { DatabaseError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import { retried } from '../base/retry.ts'

/** Waits; ends early, without an error, when aborted. */
export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  // It only rejects when aborted.
  await delay(ms, undefined, { signal }).catch(() => {})
}

/** Asks until an answer is enough, or for the last time: servers that have just started may not know all of it. */
export async function askedAgain<Answer>(
  ask: () => Promise<Answer>,
  isEnough: (answer: Answer) => boolean,
): Promise<Answer> {
  for (let asked = 1; ; asked += 1) {
    const answer = await ask()
    if (isEnough(answer) || asked === attemptsMax) return answer
    await pause(retryMs)
  }
}

const attemptsMax = 11
const retryMs = 500

/**
 * Waits for a promise until the signal aborts.
 *
 * @throws the signal's reason
 */
export async function unlessAborted<Value>(
  promise: Promise<Value>,
  signal: AbortSignal | undefined,
): Promise<Value> {
  if (signal === undefined) return await promise
  const aborted = Promise.withResolvers<never>()
  const onAbort = (): void => aborted.reject(signal.reason)
  if (signal.aborted) onAbort()
  else signal.addEventListener('abort', onAbort)
  // Nobody waits for the other one of the two.
  promise.catch(() => {})
  try {
    return await Promise.race([promise, aborted.promise])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}

/**
 * Begins an attempt that is a part of something larger. Its signal aborts with what that does, and after a time limit. It
 * also aborts when the attempt is disposed, so that nothing is left behind, neither of the attempt nor at the others'
 * signals.
 *
 * @param reason returns the error for the attempt; absent: that of the signal which has aborted, or `deadline_exceeded`
 */
export function attemptOf(
  wholes: readonly (AbortSignal | undefined)[],
  reason: () => unknown = () =>
    wholes.find((whole) => whole?.aborted)?.reason ??
    new DatabaseError('deadline_exceeded', `it has taken ${timeoutMs} ms`),
  timeoutMs?: number,
): Disposable & { readonly signal: AbortSignal } {
  const stop = new AbortController()
  const end = (): void => stop.abort(reason())
  const timer = timeoutMs === undefined ? undefined : setTimeout(end, timeoutMs).unref()
  for (const whole of wholes) whole?.addEventListener('abort', end)
  if (wholes.some((whole) => whole?.aborted)) end()
  return {
    signal: stop.signal,
    [Symbol.dispose]: () => {
      clearTimeout(timer)
      for (const whole of wholes) whole?.removeEventListener('abort', end)
      stop.abort(over)
    },
  }
}

/** Made once: a new error, with its stack, costs as much as the rest of a question to another node. */
const over = new DatabaseError('cancelled', 'the answer is not needed any more')

/** Callers that wait for an event. */
export class Waiters {
  readonly #waiting = new Set<() => void>()

  /** Resolves at the next `wakeAll`, or when aborted. */
  wait(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const wake = (): void => {
        signal.removeEventListener('abort', wake)
        this.#waiting.delete(wake)
        resolve()
      }
      if (signal.aborted) return resolve()
      signal.addEventListener('abort', wake)
      this.#waiting.add(wake)
    })
  }

  wakeAll(): void {
    for (const wake of [...this.#waiting]) wake()
  }
}

export interface RetryOptions {
  /** What is tried, for log lines. */
  readonly what: string
  /** Whether no retry can help against an error. */
  readonly isFinal: (error: unknown) => boolean
  readonly logger: Logger
  readonly signal: AbortSignal
  readonly againMs?: number | undefined
}

/**
 * Retries until an attempt succeeds. Servers that have just started, or that get many requests at the same time, have
 * no leader for a while.
 *
 * @throws the cancellation of the signal; an error that is final
 */
export async function untilAnswered<Value>(
  attempt: () => Promise<Value>,
  { what, isFinal, logger, signal, againMs = 1_000 }: RetryOptions,
): Promise<Value> {
  const pauseOf = (err: unknown): number | undefined => {
    if (isFinal(err)) return undefined
    if (!signal.aborted) logger.warn({ err }, `${what} failed: trying again`)
    return againMs
  }
  return await retried(attempt, pauseOf, signal)
}

/** Whether an error has another cause than log servers that do not answer now. */
export function isNoOutage(error: unknown): boolean {
  return !(error instanceof DatabaseError && error.reason === 'not_ready')
}
