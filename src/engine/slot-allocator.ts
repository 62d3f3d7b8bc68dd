/**
 * Hands out slots: the lowest that were never used, or those that deletes have freed. Slots stay dense, so
 * that columns indexed by slot waste nothing. Main thread only.
 */
export class SlotAllocator {
  readonly #free: number[] = []
  #next: number

  /** @param slotCount slots that were ever used; `release` those of them that are free */
  constructor(slotCount: number) {
    this.#next = slotCount
  }

  /** Slots that were ever handed out: every live slot is below it. */
  get slotCount(): number {
    return this.#next
  }

  /** The slot count after `count` more slots are taken, for reserving memory before anything is written. */
  slotCountAfter(count: number): number {
    return this.#next + Math.max(0, count - this.#free.length)
  }

  take(): number {
    const freed = this.#free.pop()
    if (freed !== undefined) return freed
    this.#next += 1
    return this.#next - 1
  }

  release(slot: number): void {
    this.#free.push(slot)
  }
}
