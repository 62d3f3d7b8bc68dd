import { setTimeout as pause } from 'node:timers/promises'

/** Longer than anything takes that comes at all, on a slow machine with other work. */
const waitMs = 180_000
/** Between one look and the next; longer where a look takes long, so that looking leaves the processors to what is awaited. */
const pauseMs = 5
const pauseMsMax = 100
const pausePerLook = 4

/** Not an AssertionError: a test that expects a check to fail must not pass because a wait timed out. */
export class WaitTimeout extends Error {
  constructor(what: string) {
    super(`not within ${waitMs / 1000} s: ${what}`)
  }
}

/**
 * Waits until a condition holds.
 *
 * @param what how the failure names it; by default its source
 */
export async function until(
  condition: () => boolean | Promise<boolean>,
  what: string = String(condition),
): Promise<void> {
  await waitFor(async () => (await condition()) || undefined, what)
}

/** Waits for something that is not there yet. */
export async function waitFor<Value>(
  find: () => Promise<Value | undefined>,
  what: string = String(find),
): Promise<Value> {
  const endMs = performance.now() + waitMs
  for (;;) {
    const startMs = performance.now()
    const found = await find()
    if (found !== undefined) return found
    const nowMs = performance.now()
    if (nowMs >= endMs) throw new WaitTimeout(what)
    await pause(Math.min(pauseMsMax, Math.max(pauseMs, pausePerLook * (nowMs - startMs))))
  }
}
