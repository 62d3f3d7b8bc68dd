import { assert } from '../base/assert.ts'

/**
 * Allocates slots, the lowest free one first. So slots stay dense, columns indexed by slot waste nothing, a batch
 * over freed slots is written in runs, and on a full disk the slots that deletions have freed are used before the
 * file has to grow. Main thread only.
 */
export class SlotAllocator {
  /** A binary heap: no slot is lower than the one at half its position. */
  readonly #free: number[] = []
  #next: number
  #held: number[] | undefined

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
    const lowest = this.#free[0]
    if (lowest === undefined) {
      this.#next += 1
      return this.#next - 1
    }
    const last = this.#free.pop()!
    if (this.#free.length > 0) this.#sink(last)
    return lowest
  }

  release(slot: number): void {
    if (this.#held === undefined) this.#add(slot)
    else this.#held.push(slot)
  }

  /**
   * Does not reuse slots that are released from now on, so that their rows stay, until the returned function is
   * called, once. One hold at a time.
   */
  hold(): () => void {
    assert(this.#held === undefined, 'slots are held once at a time')
    const held: number[] = []
    this.#held = held
    return () => {
      assert(this.#held === held, 'a hold ends once')
      this.#held = undefined
      this.#addAll(held)
    }
  }

  /** In turns: a long hold can have kept millions. A new hold need not wait, because it only concerns later releases. */
  #addAll(held: number[]): void {
    for (const slot of held.splice(-slotsPerTurn)) this.#add(slot)
    if (held.length > 0) setImmediate(() => this.#addAll(held))
  }

  #add(slot: number): void {
    const heap = this.#free
    let at = heap.length
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (heap[parent]! <= slot) break
      heap[at] = heap[parent]!
      at = parent
    }
    heap[at] = slot
  }

  /** Replaces the lowest slot, which was taken, by `slot`, and moves it down to its place in the heap. */
  #sink(slot: number): void {
    const heap = this.#free
    let at = 0
    for (let child = 1; child < heap.length; child = 2 * at + 1) {
      if (child + 1 < heap.length && heap[child + 1]! < heap[child]!) child += 1
      if (heap[child]! >= slot) break
      heap[at] = heap[child]!
      at = child
    }
    heap[at] = slot
  }
}

/** Well under a millisecond's work. */
const slotsPerTurn = 4096
