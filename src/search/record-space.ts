/**
 * Allocates the bytes of a ring. Records are released in the order in which they were taken. Each is contiguous and
 * does not wrap around the end.
 *
 * The first `usual` bytes are preferred: small records stay in them, and so in the caches. The other bytes are for the
 * largest records, and take no memory until such a record is written.
 */
export class RecordSpace {
  readonly #capacity: number
  readonly #usual: number
  readonly #taken: { readonly from: number; readonly to: number }[] = []

  constructor(capacity: number, usual: number = capacity) {
    this.#capacity = capacity
    this.#usual = usual
  }

  /** Takes contiguous bytes and returns their offset; undefined if not that many are free. */
  take(bytes: number): number | undefined {
    const from = this.#find(bytes)
    if (from !== undefined) this.#taken.push({ from, to: from + bytes })
    return from
  }

  /** Releases the oldest record. */
  release(): void {
    this.#taken.shift()
  }

  #find(bytes: number): number | undefined {
    const first = this.#taken[0]?.from ?? 0
    const end = this.#taken.at(-1)?.to ?? 0
    // The taken bytes wrap around the end if the newest record lies before the oldest one.
    if (end > first || this.#taken.length === 0) {
      if (end + bytes <= this.#usual) return end
      if (bytes <= first) return 0
      return end + bytes <= this.#capacity ? end : undefined
    }
    return end + bytes <= first ? end : undefined
  }
}
