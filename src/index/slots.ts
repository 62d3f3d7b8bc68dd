import type { KernelExports } from '../kernels/kernel-exports.ts'
import { RowReader } from './row-reader.ts'
import { Lane } from './scratch.ts'
import type { SegmentHandle } from './segment.ts'

/**
 * One thread's way to what stands in the slots of a segment. Different threads may fill different slots at once;
 * searches may run meanwhile, and see a slot when it is whole.
 */
export class Slots {
  readonly #segment: SegmentHandle
  readonly #kernels: KernelExports
  /** This thread's own. */
  readonly #lane: Lane
  readonly #reader: RowReader | undefined
  #columns: Columns

  constructor(segment: SegmentHandle, kernels: KernelExports, thread: number) {
    this.#segment = segment
    this.#kernels = kernels
    this.#lane = new Lane(segment, thread)
    this.#reader = segment.rowFile && new RowReader(segment.rowFile, segment.layout.dimension)
    this.#columns = columnsOf(segment)
  }

  /** Closes the file that it may have open. */
  close(): void {
    this.#reader?.[Symbol.dispose]()
  }

  /** The memory has grown. */
  refresh(): void {
    this.#columns = columnsOf(this.#segment)
  }

  fill(local: number, vector: Float32Array, sequence: number): void {
    const { live, sequences, norms } = this.#columns
    Atomics.store(live, local, 0)
    sequences[local] = sequence
    const row = this.#keep(local, vector)
    norms[local] = this.#kernels.dot64(row, row, this.#segment.layout.paddedDimension)
    Atomics.store(live, local, 1)
  }

  /** Codes the vector in a slot, where graphs are walked by codes. */
  encode(local: number): void {
    const { codeBytes, rows, rowBytes } = this.#segment.layout
    // With rows on disk there is no slot without a code.
    if (codeBytes > 0 && rows > 0) this.#encode(local, rows + local * rowBytes)
  }

  clear(local: number): void {
    Atomics.store(this.#columns.live, local, 0)
  }

  isLive(local: number): boolean {
    return this.#columns.live[local] === 1
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
    return new Float32Array(this.#columns.rows.subarray(at, at + dimension))
  }

  /** Gives the address of the row: for the moment only, where it is not kept. */
  #keep(local: number, vector: Float32Array): number {
    const { rows, rowBytes } = this.#segment.layout
    if (rows === 0) {
      const { address } = this.#lane
      this.#lane.placeQuery(address, vector)
      this.#encode(local, address)
      return address
    }
    this.#columns.rows.set(vector, (local * rowBytes) / 4)
    return rows + local * rowBytes
  }

  #encode(local: number, row: number): void {
    const { paddedDimension, codeBits, codeWidth, codes, codeBytes } = this.#segment.layout
    const { encodeNibbles, encodeStored } = this.#kernels
    const encode = codeBits === 4 ? encodeNibbles : encodeStored
    encode(row, paddedDimension, codeWidth, codes + local * codeBytes)
  }
}

interface Columns {
  readonly live: Uint8Array
  readonly sequences: Float64Array
  readonly norms: Float64Array
  readonly rows: Float32Array
}

/** A grown shared memory has a new, longer buffer; views over the old one stay valid but short. */
function columnsOf({ memory, layout }: SegmentHandle): Columns {
  const { buffer } = memory
  return {
    live: new Uint8Array(buffer, layout.live, layout.capacity),
    sequences: new Float64Array(buffer, layout.sequences, layout.capacity),
    norms: new Float64Array(buffer, layout.norms, layout.capacity),
    rows: new Float32Array(
      buffer,
      layout.rows,
      layout.rows === 0 ? 0 : Math.floor((buffer.byteLength - layout.rows) / 4),
    ),
  }
}
