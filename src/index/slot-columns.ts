import type { SegmentHandle } from './segment.ts'

/**
 * What tells which point a slot of a segment holds, as views. These columns stand before what grows, so the views stay
 * whole when the memory grows: make them once.
 */
export class SlotColumns {
  readonly live: Uint8Array
  readonly sequences: Float64Array
  /** Squared norms of the vectors. */
  readonly norms: Float64Array

  constructor({ memory: { buffer }, layout }: SegmentHandle) {
    this.live = new Uint8Array(buffer, layout.live, layout.capacity)
    this.sequences = new Float64Array(buffer, layout.sequences, layout.capacity)
    this.norms = new Float64Array(buffer, layout.norms, layout.capacity)
  }

  /** Whether a slot holds a point; what was written before that was set is seen. */
  isLive(local: number): boolean {
    return Atomics.load(this.live, local) === 1
  }
}
