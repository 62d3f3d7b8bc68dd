/** Ranges of slots shared by several threads, each taken once. Can be posted to threads. */
export interface SharedRanges {
  readonly from: number
  readonly to: number
  /** The slots of a range; the last one may have fewer. */
  readonly step: number
  /** The number of slots taken so far. */
  readonly taken: Int32Array
}

/** Supports at most 2^31 slots, including one step beyond the end for each thread. */
export function shareRanges(from: number, to: number, step: number): SharedRanges {
  return { from, to, step, taken: new Int32Array(new SharedArrayBuffer(4)) }
}

/** Takes ranges until all are taken or `stopRanges` is called. */
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

/** Prevents all threads from taking further ranges. */
export function stopRanges({ from, to, taken }: SharedRanges): void {
  Atomics.store(taken, 0, to - from)
}
