import { assert } from '../base/assert.ts'
import type { GraphState } from './graph-state.ts'

/**
 * The slots of a segment that wait to be linked into a graph, in a ring in shared memory: searches scan it.
 * Slots are handed out in order and leave in order; one that was linked before its turn to leave is passed over
 * by its state. No slot stands in it twice, so that a ring as long as the segment is always long enough.
 *
 * Main thread only; other threads read the ring through the kernels.
 */
export class LinkQueue {
  readonly state: GraphState
  readonly #ring: Uint32Array
  #head = 0
  #taken = 0
  #tail = 0
  /** Hand-outs under way, the oldest first. */
  #batches: { readonly count: number; isDone: boolean }[] = []

  constructor(state: GraphState) {
    this.state = state
    this.#ring = state.ring
  }

  /** Slots that searches have to scan. */
  get length(): number {
    return this.#tail - this.#head
  }

  /** Slots that nobody links yet. */
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
   * @returns the slots, and what to call when they are linked, which gives the slots that left the queue
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

  /** Gives up all that wait, those that were handed out among them: `done` of theirs has nothing to give any more. */
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
