import { closeSync, openSync, readSync } from 'node:fs'
import { crc32 } from 'node:zlib'
import { damagedRow } from '../base/errors.ts'
import type { KernelExports } from '../kernels/wasm-module.ts'
import { Hits } from './hits.ts'
import { laneAddress, liveStates, type RowFileLayout, type SegmentHandle, SlotColumns } from './segment.ts'

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
    this.#reader = segment.rowFile && new RowReader(segment)
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
    Atomics.store(live, local, liveStates.empty)
    sequences[local] = sequence
    const row = this.#keep(local, vector)
    const { paddedDimension, hashes } = this.#segment.layout
    norms[local] = this.#kernels.dot64(row, row, paddedDimension)
    if (hashes > 0) this.#kernels.hashRow(row, local)
    Atomics.store(live, local, liveStates.live)
  }

  /** Encodes the vector in a slot, if the segment has codes and its rows are in memory. */
  encode(local: number): void {
    const { codeBytes, rows, rowBytes } = this.#segment.layout
    // With rows on disk, `fill` has already encoded the slot.
    if (codeBytes > 0 && rows > 0) this.#kernels.encodeRow(rows + local * rowBytes, local)
  }

  clear(local: number): void {
    Atomics.store(this.#columns.live, local, liveStates.empty)
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

  /** See `SearchedIndex.view`. */
  view(local: number): Float32Array {
    const { rowBytes, dimension } = this.#segment.layout
    if (this.#reader !== undefined) return this.#reader.vector(local)
    const at = (local * rowBytes) / 4
    return this.#rows.subarray(at, at + dimension)
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

/**
 * Reads rows from the store's row file, through the operating system's file cache, when rows are not kept in memory.
 * The caller must have seen the slot live. A row is written to disk before its slot becomes live.
 *
 * Rows that no start has read are verified when they are first read.
 */
export class RowReader implements Disposable {
  readonly #layout: RowFileLayout
  readonly #firstSlot: number
  readonly #columns: SlotColumns
  readonly #dimension: number
  readonly #buffer: Buffer
  #file: number | undefined

  /** @param segment a segment whose rows are on disk */
  constructor(segment: SegmentHandle) {
    this.#layout = segment.rowFile!
    this.#firstSlot = segment.firstSlot
    this.#columns = new SlotColumns(segment)
    this.#dimension = segment.layout.dimension
    this.#buffer = Buffer.alloc(Math.max(this.#layout.rowBytes, readBytes))
  }

  /** Maximum number of rows of one read. */
  get rowsPerRead(): number {
    return Math.max(1, Math.floor(this.#buffer.length / this.#layout.rowBytes))
  }

  vector(local: number): Float32Array {
    const vector = new Float32Array(this.#dimension)
    this.read(local, 1, vector, this.#dimension)
    return vector
  }

  /**
   * Reads the vectors of `count` slots from `local` on into `target`, `stride` components apart.
   *
   * @param count at most `rowsPerRead`
   * @throws DatabaseError `internal` that names a damaged row
   */
  read(local: number, count: number, target: Float32Array, stride: number): void {
    const { path, headBytes, rowBytes } = this.#layout
    this.#file ??= openSync(path, 'r')
    const bytes = count * rowBytes
    const read = readSync(this.#file, this.#buffer, 0, bytes, this.#positionOf(local))
    // Rows past the end of the file were never written, so their slots are not live.
    this.#buffer.fill(0, read, bytes)
    const target8 = new Uint8Array(target.buffer, target.byteOffset, target.byteLength)
    for (let row = 0; row < count; row += 1) {
      const at = row * rowBytes
      if (Atomics.load(this.#columns.live, local + row) === liveStates.unread)
        this.#verify(local + row, at, at + rowBytes <= read)
      const vector = at + headBytes
      target8.set(this.#buffer.subarray(vector, vector + this.#dimension * 4), row * stride * 4)
    }
  }

  /** Verifies the row at `at` of the buffer. A row is overwritten only after its slot was emptied. */
  #verify(local: number, at: number, isWhole: boolean): void {
    const { headBytes, rowBytes } = this.#layout
    const { live, sequences } = this.#columns
    const end = at + rowBytes - 4
    const isUndamaged =
      this.#buffer.readDoubleLE(at + headBytes - 8) === sequences[local] &&
      this.#buffer.readUInt32LE(end) === crc32(this.#buffer.subarray(at, end))
    if (isUndamaged) Atomics.compareExchange(live, local, liveStates.unread, liveStates.live)
    else if (Atomics.load(live, local) === liveStates.unread)
      throw damagedRow(this.#layout.path, this.#firstSlot + local, this.#positionOf(local), isWhole)
  }

  #positionOf(local: number): number {
    const { firstRow, rowBytes } = this.#layout
    return firstRow + (this.#firstSlot + local) * rowBytes
  }

  /** Closes the file. The next read opens it again. */
  [Symbol.dispose](): void {
    if (this.#file !== undefined) closeSync(this.#file)
    this.#file = undefined
  }
}

const readBytes = 256 * 1024

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
