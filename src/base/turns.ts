import { cancellation } from './errors.ts'

/**
 * A turn on the event loop, for work that would block it for long. The work runs for a millisecond; then everything
 * else has a turn before the work continues.
 */
export class Turn {
  #endMs = performance.now() + turnMs

  /** Whether the time is up. If so, call `next`. */
  get isOver(): boolean {
    return performance.now() >= this.#endMs
  }

  /** Resolves when it is this work's turn again. */
  async next(): Promise<void> {
    await new Promise<void>((resolve) => {
      if (waiting.push(resolve) === 1) setImmediate(callNext)
    })
    this.#endMs = performance.now() + turnMs
  }
}

/**
 * Runs all steps of some work and returns its result: directly if the work takes no longer than one turn, as it nearly
 * always does, otherwise as a promise.
 *
 * @param signal abandons the work between two turns
 */
export function inTurns<Result>(
  work: Iterator<void, Result>,
  signal?: AbortSignal,
): Result | Promise<Result> {
  const turn = new Turn()
  for (;;) {
    const step = work.next()
    if (step.done) return step.value
    if (turn.isOver) return goOn(work, turn, signal)
  }
}

/** Runs all steps of some work at once, and returns its result. */
export function atOnce<Result>(work: Iterator<unknown, Result, void>): Result {
  for (;;) {
    const step = work.next()
    if (step.done) return step.value
  }
}

async function goOn<Result>(
  work: Iterator<void, Result>,
  turn: Turn,
  signal: AbortSignal | undefined,
): Promise<Result> {
  for (;;) {
    if (turn.isOver) await turn.next()
    if (signal?.aborted) {
      work.return?.()
      throw cancellation(signal)
    }
    const step = work.next()
    if (step.done) return step.value
  }
}

/** How long work runs before the event loop handles other events. */
const turnMs = 1

/** Work that waits for a turn, in order. Only one runs in each round of the loop, so that many block it no longer. */
const waiting: (() => void)[] = []

function callNext(): void {
  waiting.shift()!()
  if (waiting.length > 0) setImmediate(callNext)
}
