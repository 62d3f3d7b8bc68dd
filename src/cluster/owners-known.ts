import { pause } from './pause.ts'

/**
 * Waits a moment for a partition that no node seems to hold: what a node knows about the others can be a second old.
 *
 * @param find whether the partition has an owner now
 * @param mostMs limits the wait, if less than usual
 */
export async function untilKnown(
  find: () => boolean,
  signal: AbortSignal | undefined,
  mostMs: number = knownMs,
): Promise<void> {
  const endMs = performance.now() + Math.min(mostMs, knownMs)
  while (!find() && !(signal?.aborted ?? false) && performance.now() < endMs)
    await pause(lookMs, signal ?? never)
}

const never = new AbortController().signal
const knownMs = 1_500
const lookMs = 50
