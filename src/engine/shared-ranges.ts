/** Runs of slots that several threads share, each run taken once; can be posted to them. */
export interface SharedRanges {
  readonly from: number
  readonly to: number
  /** Slots of a run; the last one may have fewer. */
  readonly step: number
  /** How many slots have been taken. */
  readonly taken: Int32Array
}

/** For at most 2^31 slots, including one step beyond the end for each taker. */
export function shareRanges(from: number, to: number, step: number): SharedRanges {
  return { from, to, step, taken: new Int32Array(new SharedArrayBuffer(4)) }
}

/** Takes runs until all are taken or `stopRanges` is called. */
export function* takeRanges({ from, to, step, taken }: SharedRanges): Generator<{
  readonly from: number
  readonly to: number
}> {
  for (;;) {
    const first = from + Atomics.add(taken, 0, step)
    if (first >= to) return
    yield { from: first, to: Math.min(to, first + step) }
  }
}

/** Lets no taker get another run. */
export function stopRanges({ from, to, taken }: SharedRanges): void {
  Atomics.store(taken, 0, to - from)
}
