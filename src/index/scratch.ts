import { Hits } from './hits.ts'
import { laneAddress, type SegmentHandle } from './segment.ts'

/**
 * A thread's lane of scratch in a segment. Its views are created once, because getting the buffer of a shared memory
 * and creating a view cost more than a query's reads and writes through it.
 */
export class ScratchLane {
  readonly address: number
  readonly #segment: SegmentHandle
  readonly #f32: Float32Array
  readonly #f64: Float64Array
  readonly #u32: Uint32Array

  constructor(segment: SegmentHandle, thread: number) {
    const { memory, layout } = segment
    const { buffer } = memory
    this.#segment = segment
    this.address = laneAddress(layout, thread)
    this.#f32 = new Float32Array(buffer, this.address, layout.laneBytes / 4)
    this.#f64 = new Float64Array(buffer, this.address, layout.laneBytes / 8)
    this.#u32 = new Uint32Array(buffer, this.address, layout.laneBytes / 4)
  }

  /** Writes a query vector, with the zero padding of a row, to an address of the lane. */
  placeQuery(at: number, vector: Float32Array): void {
    const { dimension, paddedDimension } = this.#segment.layout
    const first = (at - this.address) / 4
    this.#f32.set(vector, first)
    this.#f32.fill(0, first + dimension, first + paddedDimension)
  }

  /**
   * The hits of a sorted pool of `k` places, with slot numbers of the whole index: one list, where the kernels left it.
   * Valid until this thread next searches the segment.
   */
  hitsOf(pool: number, k: number, count: number): Hits {
    const { firstSlot } = this.#segment
    const distances = (pool - this.address) / 8
    const slots = this.#u32.subarray(2 * distances + 4 * k, 2 * distances + 4 * k + count)
    for (let rank = 0; firstSlot > 0 && rank < count; rank += 1) slots[rank]! += firstSlot
    return new Hits(
      [k],
      {
        slots,
        sequences: this.#f64.subarray(distances + k, distances + k + count),
        distances: this.#f64.subarray(distances, distances + count),
      },
      [count],
    )
  }
}
