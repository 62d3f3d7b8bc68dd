import type { KernelExports } from '../kernels/kernel-exports.ts'
import { RowReader } from './row-reader.ts'
import { ScratchLane } from './scratch.ts'
import { type SegmentHandle, SlotColumns } from './segment.ts'

/**
 * One thread's access to the slots of a segment. Threads may fill different slots concurrently. Concurrent searches see
 * a slot only once it is complete.
 */
export class Slots {
  readonly #segment: SegmentHandle
  readonly #kernels: KernelExports
  /** Used by this thread only. */
  readonly #lane: ScratchLane
  readonly #reader: RowReader | undefined
  readonly #columns: SlotColumns
  #rows: Float32Array

  /** @param kernels an instance over the segment's memory that only this object uses */
  constructor(segment: SegmentHandle, kernels: KernelExports, thread: number) {
    this.#segment = segment
    this.#kernels = kernels
    this.#lane = new ScratchLane(segment, thread)
    this.#reader = segment.rowFile && new RowReader(segment.rowFile, segment.layout.dimension)
    kernels.attachColumns(segment.layout.graphs[0]!.header)
    this.#columns = new SlotColumns(segment)
    this.#rows = rowsOf(segment)
  }

  /** Closes the row file if it is open. */
  close(): void {
    this.#reader?.[Symbol.dispose]()
  }

  /** Must be called after the memory has grown. */
  refresh(): void {
    this.#rows = rowsOf(this.#segment)
  }

  fill(local: number, vector: Float32Array, sequence: number): void {
    const { live, sequences, norms } = this.#columns
    Atomics.store(live, local, 0)
    sequences[local] = sequence
    const row = this.#keep(local, vector)
    const { paddedDimension, hashes } = this.#segment.layout
    norms[local] = this.#kernels.dot64(row, row, paddedDimension)
    if (hashes > 0) this.#kernels.hashRow(row, local)
    Atomics.store(live, local, 1)
  }

  /** Encodes the vector in a slot, if the segment has codes and its rows are in memory. */
  encode(local: number): void {
    const { codeBytes, rows, rowBytes } = this.#segment.layout
    // With rows on disk, `fill` has already encoded the slot.
    if (codeBytes > 0 && rows > 0) this.#kernels.encodeRow(rows + local * rowBytes, local)
  }

  clear(local: number): void {
    Atomics.store(this.#columns.live, local, 0)
  }

  isLive(local: number): boolean {
    return this.#columns.isLive(local)
  }

  sequenceOf(local: number): number {
    return this.#columns.sequences[local]!
  }

  lengthOf(local: number): number {
    return Math.sqrt(this.#columns.norms[local]!)
  }

  read(local: number): Float32Array {
    const { rowBytes, dimension } = this.#segment.layout
    if (this.#reader !== undefined) {
      const vector = new Float32Array(dimension)
      this.#reader.read(this.#segment.firstSlot + local, 1, vector, dimension)
      return vector
    }
    const at = (local * rowBytes) / 4
    return new Float32Array(this.#rows.subarray(at, at + dimension))
  }

  /** Writes the row to its column, or temporarily to the lane if rows are on disk. Returns its address. */
  #keep(local: number, vector: Float32Array): number {
    const { rows, rowBytes } = this.#segment.layout
    if (rows === 0) {
      const { address } = this.#lane
      this.#lane.placeQuery(address, vector)
      this.#kernels.encodeRow(address, local)
      return address
    }
    this.#rows.set(vector, (local * rowBytes) / 4)
    return rows + local * rowBytes
  }
}

/**
 * Returns a view of all rows. A shared memory that grows gets a longer buffer; views of the old one stay valid but
 * short.
 */
function rowsOf({ memory: { buffer }, layout: { rows } }: SegmentHandle): Float32Array {
  return new Float32Array(buffer, rows, rows === 0 ? 0 : Math.floor((buffer.byteLength - rows) / 4))
}
