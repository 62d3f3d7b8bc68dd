import type { MemoryCount } from './memory-count.ts'
import { NumberTable, sortedKeys } from './number-table.ts'
import { PackedNumbers } from './packed-numbers.ts'
import { bytesAfter, filled } from './pieces.ts'

export type ColumnKind = 'numbers' | 'ordinals'

/**
 * Stores the numbers of 65,536 slots: in a hash table while few slots have one, then in an array. Columns of kind
 * `numbers` also keep the minimum and maximum of each zone of 4,096 slots, so that a range search can skip zones.
 * Changes only widen these bounds; `tighten` makes them exact again.
 */
export class ColumnPart {
  readonly #memory: MemoryCount
  readonly #kind: ColumnKind
  #table: NumberTable | undefined
  #numbers: PackedNumbers | undefined
  #ordinals: PackedOrdinals | undefined
  /** By zone; unused for ordinals. */
  readonly zoneMin: Float64Array
  readonly zoneMax: Float64Array
  /** A bit for each zone: whether its bounds are exact. */
  #tight = 0
  count = 0
  #end = 0

  constructor(memory: MemoryCount, kind: ColumnKind) {
    this.#memory = memory
    this.#kind = kind
    this.#table = new NumberTable(memory, kind === 'numbers' ? Number.NaN : 0)
    const zones = kind === 'numbers' ? partLength / zoneLength : 0
    this.zoneMin = new Float64Array(zones).fill(Number.POSITIVE_INFINITY)
    this.zoneMax = new Float64Array(zones).fill(Number.NEGATIVE_INFINITY)
    memory.add(partBytes + zones * 16)
  }

  /** Undefined once there is an array. */
  get table(): NumberTable | undefined {
    return this.#table
  }

  /** By slot in the part; may be shorter than the part. Undefined for ordinals, and while there is a table. */
  get numbers(): PackedNumbers | undefined {
    return this.#numbers
  }

  /** As `numbers`. */
  get ordinals(): PackedOrdinals | undefined {
    return this.#ordinals
  }

  get(local: number): number {
    if (this.#ordinals !== undefined) return this.#ordinals.get(local)
    return this.#numbers === undefined ? this.#table!.get(local) : this.#numbers.get(local)
  }

  /** Visits each slot with its number, in ascending order and in steps. The part must not change between steps. */
  *each(firstSlot: number, visit: (slot: number, number: number) => void): Generator<void, void> {
    const keys = this.#table && sortedKeys(this.#table)
    const end = keys?.length ?? this.#array!.length
    for (let at = 0; at < end; at += 1) {
      const local = keys?.[at] ?? at
      if (keys !== undefined || this.#array!.has(local)) visit(firstSlot + local, this.get(local))
      if (at % visitsPerStep === visitsPerStep - 1) yield
    }
  }

  /**
   * Loads an array of numbers from a file into an empty part. The zone bounds are exact afterwards.
   *
   * @returns the last slot in the part that has a number; -1 if none has
   */
  load(bytes: Buffer): number {
    if (this.count > 0) throw new Error('a column contains the same part twice')
    const values =
      this.#kind === 'numbers' ? new PackedNumbers(this.#memory) : new PackedOrdinals(this.#memory)
    values.load(bytes)
    if (values.length > partLength) throw new Error('a part of a column is too long')
    let last = -1
    for (let local = 0; local < values.length; local += 1) {
      if (!values.has(local)) continue
      this.count += 1
      last = local
    }
    this.#useArray(values)
    this.#end = last + 1
    for (let zone = 0; zone < this.zoneMin.length; zone += 1) this.tighten(zone, undefined)
    return last
  }

  /** The slot must not have a number. */
  set(local: number, value: number): void {
    this.count += 1
    this.#end = Math.max(this.#end, local + 1)
    if (this.#table !== undefined && this.count * denseShare > this.#end) this.#toArray(this.#table)
    if (this.#table !== undefined) this.#table.set(local, value)
    else {
      const values = this.#array!
      if (local >= values.length) values.reserve(roomFor(local + 1))
      values.set(local, value)
    }
    if (this.#kind === 'numbers') this.#widen(local, value)
  }

  /** Widens the zone bounds to include further numbers of a slot. */
  widen(local: number, values: readonly number[]): void {
    if (this.#kind === 'numbers') for (const value of values) this.#widen(local, value)
  }

  /** The slot must have a number. */
  delete(local: number): void {
    this.count -= 1
    if (this.#table !== undefined) this.#table.delete(local)
    else this.#array!.delete(local)
    this.#tight &= ~(1 << (local >>> zoneBits))
  }

  /** Sets the exact bounds of a zone, unless a slot of the part has further numbers. */
  tighten(zone: number, further: ReadonlyMap<number, readonly number[]> | undefined): void {
    if (this.#numbers === undefined || further !== undefined || ((this.#tight >>> zone) & 1) === 1) return
    const [min, max] = this.#numbers.bounds(zone * zoneLength, (zone + 1) * zoneLength)
    this.zoneMin[zone] = min
    this.zoneMax[zone] = max
    this.#tight |= 1 << zone
  }

  release(): void {
    this.#table?.release()
    this.#array?.release()
    this.#memory.add(-partBytes - this.zoneMin.length * 16)
  }

  get #array(): PackedNumbers | PackedOrdinals | undefined {
    return this.#ordinals ?? this.#numbers
  }

  /** Keeps exact bounds exact: while no number is deleted, each bound is a number of the zone. */
  #widen(local: number, value: number): void {
    const zone = local >>> zoneBits
    if (value < this.zoneMin[zone]!) this.zoneMin[zone] = value
    if (value > this.zoneMax[zone]!) this.zoneMax[zone] = value
  }

  #toArray(table: NumberTable): void {
    const values =
      this.#kind === 'numbers' ? new PackedNumbers(this.#memory) : new PackedOrdinals(this.#memory)
    values.reserve(roomFor(this.#end))
    for (let index = 0; index < table.keys.length; index += 1) {
      const local = table.keys[index]!
      if (!Number.isNaN(local)) values.set(local, table.values[index]!)
    }
    this.#useArray(values)
  }

  /** Replaces the table by an array. */
  #useArray(values: PackedNumbers | PackedOrdinals): void {
    if (values instanceof PackedNumbers) this.#numbers = values
    else this.#ordinals = values
    this.#table!.release()
    this.#table = undefined
  }
}

function roomFor(slots: number): number {
  return Math.min(partLength, Math.max(lengthMin, 2 ** Math.ceil(Math.log2(slots))))
}

/** Visiting this many slots takes well under a millisecond. */
const visitsPerStep = 8192
/** Number of slots in a part. */
export const partLength: number = 2 ** 16
const zoneBits = 12
export const zoneLength: number = 2 ** zoneBits
/** The number of bits in a word. */
const lengthMin = 32
/** As in `SlotColumn`. */
const denseShare = 3
/** Size of the objects as V8 allocates them. */
const partBytes = 450

type OrdinalArray = Uint8Array | Uint16Array | Uint32Array

/** Stores ordinals from 1 to 2^32 - 1 by position, all in the smallest width that fits the greatest; 0 means none. */
class PackedOrdinals {
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
