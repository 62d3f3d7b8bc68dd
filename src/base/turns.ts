/**
 * Turns on the event loop for work that would hold it for long: it goes on for a millisecond, then everybody
 * else has a turn before it goes on.
 */
export class Turn {
  #endMs = performance.now() + turnMs

  /** Whether the time is up: then `next` is due. */
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
 * Goes through all the steps of some work, and gives its result: at once where that takes no longer than a turn,
 * as nearly always, otherwise as a promise.
 */
export function inTurns<Result>(work: Iterator<void, Result>): Result | Promise<Result> {
  const turn = new Turn()
  for (;;) {
    const step = work.next()
    if (step.done) return step.value
    if (turn.isOver) return goOn(work, turn)
  }
}

async function goOn<Result>(work: Iterator<void, Result>, turn: Turn): Promise<Result> {
  for (;;) {
    if (turn.isOver) await turn.next()
    const step = work.next()
    if (step.done) return step.value
  }
}

/** How long work goes on before the event loop looks for what else has come. */
const turnMs = 1

/** Whoever waits for a turn, in order: with one of them in each round of the loop, many hold it no longer than one. */
const waiting: (() => void)[] = []

function callNext(): void {
  waiting.shift()!()
  if (waiting.length > 0) setImmediate(callNext)
}
