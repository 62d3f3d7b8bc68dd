import type { MemoryCount } from './memory-count.ts'
import { bytesAfter, filled } from './pieces.ts'

export type OrdinalArray = Uint8Array | Uint16Array | Uint32Array

/** Ordinals from 1 to 2^32 - 1 by position, each in as few bytes as the greatest needs; 0 for none. */
export class PackedOrdinals {
  readonly #memory: MemoryCount
  #ordinals: OrdinalArray = new Uint8Array(0)

  constructor(memory: MemoryCount) {
    this.#memory = memory
  }

  /** Takes the ordinals that a file has, in place of none: u32 bytes of each | ordinals. */
  load(bytes: Buffer): void {
    const array = arrayFor(2 ** (8 * bytes.readUInt32LE(0)) - 1, (bytes.length - 4) / bytes.readUInt32LE(0))
    this.#replace(filled(array, bytes.subarray(4)))
  }

  /** For a file. Those from a bound on, which stand for something else, are left out. */
  toBytes(end: number): Uint8Array {
    const array = this.#ordinals
    const isWithin = array.BYTES_PER_ELEMENT < 4 || !array.some((each) => each >= end)
    const kept = isWithin ? array : array.map((each) => (each < end ? each : 0))
    return bytesAfter([array.BYTES_PER_ELEMENT], kept)
  }

  get length(): number {
    return this.#ordinals.length
  }

  /** By position. Valid until the next change. */
  get array(): OrdinalArray {
    return this.#ordinals
  }

  /** 0 for none. */
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

  /** Makes room for so many positions, at least as many as there are. */
  reserve(length: number): void {
    this.#copyTo(arrayFor(2 ** (this.#ordinals.BYTES_PER_ELEMENT * 8) - 1, length))
  }

  /** The ordinals are not used any more. */
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

/** An array in which there is room for an ordinal. */
function arrayFor(ordinal: number, length: number): OrdinalArray {
  if (ordinal < 2 ** 8) return new Uint8Array(length)
  return ordinal < 2 ** 16 ? new Uint16Array(length) : new Uint32Array(length)
}
