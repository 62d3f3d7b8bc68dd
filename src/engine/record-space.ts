/**
 * Which bytes of a ring are taken. Records are given back in the order in which they were taken, each stands
 * in one run, and none stands across the end.
 *
 * The first `usual` bytes are preferred: what small records never leave stays in the caches, and what lies behind,
 * which is there for the largest, takes no memory until one comes.
 */
export class RecordSpace {
  readonly #capacity: number
  readonly #usual: number
  readonly #taken: { readonly from: number; readonly to: number }[] = []

  constructor(capacity: number, usual: number = capacity) {
    this.#capacity = capacity
    this.#usual = usual
  }

  /** The offset of so many free bytes; undefined when there are none in one run. */
  take(bytes: number): number | undefined {
    const from = this.#find(bytes)
    if (from !== undefined) this.#taken.push({ from, to: from + bytes })
    return from
  }

  /** Gives back what was taken first. */
  release(): void {
    this.#taken.shift()
  }

  #find(bytes: number): number | undefined {
    const first = this.#taken[0]?.from ?? 0
    const end = this.#taken.at(-1)?.to ?? 0
    // The taken run has gone round the end when what was taken last stands before what was taken first.
    if (end > first || this.#taken.length === 0) {
      if (end + bytes <= this.#usual) return end
      if (bytes <= first) return 0
      return end + bytes <= this.#capacity ? end : undefined
    }
    return end + bytes <= first ? end : undefined
  }
}
