import type { Hit } from './hit.ts'
import type { SegmentHandle } from './segment.ts'

/** Writes a query's vector, with the zero padding of a row, to an address of a lane. */
export function placeQuery({ memory, layout }: SegmentHandle, at: number, vector: Float32Array): void {
  const row = new Float32Array(memory.buffer, at, layout.paddedDimension)
  row.set(vector)
  row.fill(0, layout.dimension)
}

/** The hits of a sorted pool of `k` places, with slots as the whole index numbers them. */
export function hitsOf({ memory, firstSlot }: SegmentHandle, pool: number, k: number, count: number): Hit[] {
  const distances = new Float64Array(memory.buffer, pool, count)
  const sequences = new Float64Array(memory.buffer, pool + k * 8, count)
  const slots = new Uint32Array(memory.buffer, pool + k * 16, count)
  return Array.from({ length: count }, (_, index) => ({
    slot: firstSlot + slots[index]!,
    sequence: sequences[index]!,
    distance: distances[index]!,
  }))
}
