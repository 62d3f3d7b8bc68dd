import { assert } from '../base/errors.ts'

/**
 * Allocates slots, the lowest free one first. Slots therefore stay dense, columns indexed by slot waste nothing, and a
 * batch over freed slots is written in runs. On a full disk, slots freed by deletions are used before the file must
 * grow. Main thread only.
 */
export class SlotAllocator {
  /** A binary heap: no slot is lower than the one at half its position. */
  readonly #free: number[] = []
  #next: number
  #held: number[] | undefined

  /** @param slotCount the number of slots that were ever used; call `release` for those that are free */
  constructor(slotCount: number) {
    this.#next = slotCount
  }

  /** The number of slots ever handed out. All live slots are below this. */
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
    assert(slot < this.#next, 'a released slot was taken')
    if (this.#held === undefined) this.#add(slot)
    else this.#held.push(slot)
  }

  /**
   * Holds back slots that are released from now on, so that their rows stay unchanged, until the returned function is
   * called. Call that function once. Only one hold at a time.
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

  /**
   * Works in turns, because a long hold can have kept millions of slots. A new hold need not wait: it only concerns
   * later releases.
   */
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

  /** Replaces the lowest slot, which was taken, with `slot`, and moves it down to its place in the heap. */
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

/** Well under a millisecond of work. */
const slotsPerTurn = 4096
