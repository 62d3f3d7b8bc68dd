import { assert } from '../base/errors.ts'
import type { GraphState } from './graph-state.ts'

/**
 * The slots of a segment that wait to be linked into a graph, in a ring in shared memory that searches scan.
 * Slots are handed out and leave in order. Searches skip a slot that is linked but has not left yet.
 * No slot is in the queue twice, so a ring as long as the segment is always long enough.
 *
 * Main thread only; other threads read the ring through the kernels.
 */
export class LinkQueue {
  readonly state: GraphState
  readonly #ring: Uint32Array
  #head = 0
  #taken = 0
  #tail = 0
  /** Batches that were handed out and have not left the queue yet, the oldest first. */
  #batches: { readonly count: number; isDone: boolean }[] = []

  constructor(state: GraphState) {
    this.state = state
    this.#ring = state.ring
  }

  /** Number of slots that searches must scan. */
  get length(): number {
    return this.#tail - this.#head
  }

  /** Number of slots that have not been handed out yet. */
  get waiting(): number {
    return this.#tail - this.#taken
  }

  push(local: number): void {
    assert(this.length < this.#ring.length, 'a slot waits once')
    this.#ring[this.#tail % this.#ring.length] = local
    this.#tail += 1
    this.state.setRing(this.#head, this.#tail)
  }

  /**
   * Hands out up to `count` slots.
   *
   * @returns the slots, and a function to call once they are linked; it returns the slots that left the queue
   */
  take(count: number): { readonly slots: number[]; readonly done: () => number[] } {
    const end = Math.min(this.#taken + count, this.#tail)
    const slots: number[] = []
    for (; this.#taken < end; this.#taken += 1) slots.push(this.#ring[this.#taken % this.#ring.length]!)
    const batch = { count: slots.length, isDone: false }
    this.#batches.push(batch)
    return {
      slots,
      done: () => {
        batch.isDone = true
        return this.#leave()
      },
    }
  }

  /** Removes and returns all slots, including those handed out. The `done` of their batches then returns nothing. */
  clear(): number[] {
    const left: number[] = []
    for (let at = this.#head; at < this.#tail; at += 1) left.push(this.#ring[at % this.#ring.length]!)
    this.#head = this.#tail
    this.#taken = this.#tail
    this.#batches = []
    this.state.setRing(this.#head, this.#tail)
    return left
  }

  #leave(): number[] {
    const left: number[] = []
    while (this.#batches[0]?.isDone) {
      const { count } = this.#batches.shift()!
      for (let at = 0; at < count; at += 1) left.push(this.#ring[(this.#head + at) % this.#ring.length]!)
      this.#head += count
    }
    this.state.setRing(this.#head, this.#tail)
    return left
  }
}
