import { pause } from './pause.ts'

/**
 * What a node knows of the others can be a second old: a partition that nobody seems to have is looked for a moment longer.
 *
 * @param find whether what is looked for is there
 * @param mostMs less than the usual moment
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
