import { setTimeout as pause } from 'node:timers/promises'

/** Longer than any expected event takes, even on a slow and busy machine. */
const waitMs = 180_000
/** Pause between checks; longer if a check takes long, so that the checks leave the processors free: 4 % of a wait. */
const pauseMs = 8
const pauseMsMax = 200
const pausePerLook = 25

/** Not an AssertionError: a test that expects a check to fail must not pass because a wait timed out. */
export class WaitTimeout extends Error {
  constructor(what: string) {
    super(`not in time: ${what}`)
  }
}

/**
 * Waits until a condition holds.
 *
 * @param what the description in the failure message, or what makes it then; by default the source of the condition
 */
export async function until(
  condition: () => boolean | Promise<boolean>,
  what: string | (() => string) = String(condition),
  limitMs: number = waitMs,
): Promise<void> {
  await waitFor(async () => (await condition()) || undefined, what, limitMs)
}

/** Waits for a value. */
export async function waitFor<Value>(
  find: () => Promise<Value | undefined>,
  what: string | (() => string) = String(find),
  limitMs: number = waitMs,
): Promise<Value> {
  const endMs = performance.now() + limitMs
  for (;;) {
    const startMs = performance.now()
    const found = await find()
    if (found !== undefined) return found
    const nowMs = performance.now()
    if (nowMs >= endMs) throw new WaitTimeout(typeof what === 'string' ? what : what())
    await pause(Math.min(pauseMsMax, Math.max(pauseMs, pausePerLook * (nowMs - startMs))))
  }
}
