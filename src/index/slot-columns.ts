import type { SegmentHandle } from './segment.ts'

/**
 * Views of the columns that describe the points in the slots of a segment. These columns lie before the one that grows,
 * so the views stay valid. Create them once.
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

  /** Whether a slot holds a point. If true, this thread also sees the slot's sequence, norm and row. */
  isLive(local: number): boolean {
    return Atomics.load(this.live, local) === 1
  }
}
