import type { MemoryCount } from './memory-count.ts'
import { bytesAfter, filled } from './pieces.ts'

type OrdinalArray = Uint8Array | Uint16Array | Uint32Array

/** Stores ordinals from 1 to 2^32 - 1 by position, all in the smallest width that fits the greatest; 0 means none. */
export class PackedOrdinals {
  readonly #memory: MemoryCount
  #ordinals: OrdinalArray = new Uint8Array(0)

  constructor(memory: MemoryCount) {
    this.#memory = memory
  }

  /** Loads the ordinals of a file into an empty object: u32 bytes of each | ordinals. */
  load(bytes: Buffer): void {
    const array = arrayFor(2 ** (8 * bytes.readUInt32LE(0)) - 1, (bytes.length - 4) / bytes.readUInt32LE(0))
    this.#replace(filled(array, bytes.subarray(4)))
  }

  /** Serializes the ordinals below `end` for a file. Greater entries have another meaning and are written as 0. */
  toBytes(end: number): Uint8Array {
    const array = this.#ordinals
    const isWithin = array.BYTES_PER_ELEMENT < 4 || !array.some((each) => each >= end)
    const kept = isWithin ? array : array.map((each) => (each < end ? each : 0))
    return bytesAfter([array.BYTES_PER_ELEMENT], kept)
  }

  get length(): number {
    return this.#ordinals.length
  }

  /** The ordinals by position. Valid until the next change. */
  get array(): OrdinalArray {
    return this.#ordinals
  }

  /** Returns 0 if there is no ordinal. */
  get(position: number): number {
    return this.#ordinals[position] ?? 0
  }

  has(position: number): boolean {
    return this.get(position) !== 0
  }

  /** There must be room for the position. */
  set(position: number, ordinal: number): void {
    if (ordinal >= 2 ** (this.#ordinals.BYTES_PER_ELEMENT * 8)) this.#copyTo(arrayFor(ordinal, this.length))
    this.#ordinals[position] = ordinal
  }

  delete(position: number): void {
    this.#ordinals[position] = 0
  }

  /** Grows to this number of positions. It must not be less than the current number. */
  reserve(length: number): void {
    this.#copyTo(arrayFor(2 ** (this.#ordinals.BYTES_PER_ELEMENT * 8) - 1, length))
  }

  /** Subtracts the ordinals from the memory count. The object must not be used afterwards. */
  release(): void {
    this.#memory.add(-this.#ordinals.byteLength)
  }

  #copyTo(ordinals: OrdinalArray): void {
    ordinals.set(this.#ordinals)
    this.#replace(ordinals)
  }

  #replace(ordinals: OrdinalArray): void {
    this.#memory.add(ordinals.byteLength - this.#ordinals.byteLength)
    this.#ordinals = ordinals
  }
}

/** Returns an array wide enough for an ordinal. */
function arrayFor(ordinal: number, length: number): OrdinalArray {
  if (ordinal < 2 ** 8) return new Uint8Array(length)
  return ordinal < 2 ** 16 ? new Uint16Array(length) : new Uint32Array(length)
}
