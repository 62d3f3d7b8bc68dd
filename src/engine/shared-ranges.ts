/** Runs of slots that several threads take from, each run once; can be posted to them. */
export interface SharedRanges {
  readonly from: number
  readonly to: number
  /** Slots of a run; the last one may have fewer. */
  readonly step: number
  /** How many slots have been taken. */
  readonly taken: Int32Array
}

/** Of at most 2^31 slots, the steps of all takers beyond the end among them. */
export function shareRanges(from: number, to: number, step: number): SharedRanges {
  return { from, to, step, taken: new Int32Array(new SharedArrayBuffer(4)) }
}

/** The runs that are this taker's, until all are taken or somebody stops it. */
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

/** No taker gets another run. */
export function stopRanges({ from, to, taken }: SharedRanges): void {
  Atomics.store(taken, 0, to - from)
}
