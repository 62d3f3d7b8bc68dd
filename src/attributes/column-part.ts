import type { MemoryCount } from './memory-count.ts'
import { NumberTable } from './number-table.ts'

export type ColumnKind = 'numbers' | 'ordinals'

/**
 * The numbers of 65,536 slots: a hash table while few slots have one, then an array. Numbers also have zones of 4,096 slots
 * with bounds of their values, so that a search for a range skips zones. Bounds are only widened by changes; `tighten`
 * makes them exact again.
 */
export class ColumnPart {
  readonly #memory: MemoryCount
  readonly #kind: ColumnKind
  readonly #absent: number
  #table: NumberTable | undefined
  #values: Values | undefined
  /** By zone; unused for ordinals. */
  readonly zoneMin: Float64Array
  readonly zoneMax: Float64Array
  count = 0
  #end = 0

  constructor(memory: MemoryCount, kind: ColumnKind) {
    this.#memory = memory
    this.#kind = kind
    this.#absent = kind === 'numbers' ? Number.NaN : 0
    this.#table = new NumberTable(memory, this.#absent)
    const zones = kind === 'numbers' ? partLength / zoneLength : 0
    this.zoneMin = new Float64Array(zones).fill(Number.POSITIVE_INFINITY)
    this.zoneMax = new Float64Array(zones).fill(Number.NEGATIVE_INFINITY)
    memory.add(partBytes + zones * 16)
  }

  /** Undefined when there is an array. */
  get table(): NumberTable | undefined {
    return this.#table
  }

  /** By slot in the part; may be shorter than it. Undefined when there is a table. */
  get values(): Values | undefined {
    return this.#values
  }

  get(local: number): number {
    return this.#values === undefined ? this.#table!.get(local) : (this.#values[local] ?? this.#absent)
  }

  /** Those with a number. The part may change between two of them. */
  *locals(): Generator<number, void> {
    if (this.#table !== undefined) return yield* this.#table.keys.filter((local) => !Number.isNaN(local))
    const end = this.#values!.length
    for (let local = 0; local < end; local += 1) {
      if (!Object.is(this.get(local), this.#absent)) yield local
    }
  }

  /** The slot must not have a number. */
  set(local: number, value: number): void {
    this.count += 1
    this.#end = Math.max(this.#end, local + 1)
    if (this.#table !== undefined && this.count * denseShare > this.#end) this.#toArray(this.#table)
    if (this.#table !== undefined) this.#table.set(local, value)
    else {
      this.#makeRoom(local, value)
      this.#values![local] = value
    }
    if (this.#kind === 'numbers') this.#widen(local, value)
  }

  /** Further numbers of a slot. */
  widen(local: number, values: readonly number[]): void {
    if (this.#kind === 'numbers') for (const value of values) this.#widen(local, value)
  }

  /** The slot must have a number. */
  delete(local: number): void {
    this.count -= 1
    if (this.#table !== undefined) this.#table.delete(local)
    else this.#values![local] = this.#absent
  }

  /** Sets the bounds of a zone, from all of its numbers. */
  tighten(zone: number, further: ReadonlyMap<number, readonly number[]> | undefined): void {
    const values = this.#values
    if (values === undefined || further !== undefined) return
    let min = Number.POSITIVE_INFINITY
    let max = Number.NEGATIVE_INFINITY
    const end = Math.min((zone + 1) * zoneLength, values.length)
    for (let local = zone * zoneLength; local < end; local += 1) {
      const value = values[local]!
      if (value < min) min = value
      if (value > max) max = value
    }
    this.zoneMin[zone] = min
    this.zoneMax[zone] = max
  }

  release(): void {
    this.#table?.release()
    this.#memory.add(-(this.#values?.byteLength ?? 0) - partBytes - this.zoneMin.length * 16)
  }

  #widen(local: number, value: number): void {
    const zone = local >>> zoneBits
    if (value < this.zoneMin[zone]!) this.zoneMin[zone] = value
    if (value > this.zoneMax[zone]!) this.zoneMax[zone] = value
  }

  #toArray(table: NumberTable): void {
    let greatest = 0
    for (const value of table.values) if (value > greatest) greatest = value
    const values = this.#newValues(this.#end, greatest)
    for (let index = 0; index < table.keys.length; index += 1) {
      const local = table.keys[index]!
      if (!Number.isNaN(local)) values[local] = table.values[index]!
    }
    this.#table = undefined
    this.#values = values
    table.release()
  }

  #makeRoom(local: number, value: number): void {
    const old = this.#values!
    const isWide = this.#kind === 'numbers' || value <= 2 ** (old.BYTES_PER_ELEMENT * 8) - 1
    if (local < old.length && isWide) return
    const greatest = isWide ? 2 ** (old.BYTES_PER_ELEMENT * 8) - 1 : value
    const grown = this.#newValues(Math.max(local + 1, old.length), greatest)
    grown.set(old)
    this.#memory.add(-old.byteLength)
    this.#values = grown
  }

  /** @param greatest the greatest ordinal that there has to be room for */
  #newValues(slots: number, greatest: number): Values {
    const length = Math.min(partLength, Math.max(lengthMin, 2 ** Math.ceil(Math.log2(slots))))
    const values =
      this.#kind === 'numbers' ? new Float64Array(length).fill(Number.NaN) : ordinals(length, greatest)
    this.#memory.add(values.byteLength)
    return values
  }
}

type Values = Float64Array | Uint8Array | Uint16Array | Uint32Array

function ordinals(length: number, greatest: number): Values {
  if (greatest < 2 ** 8) return new Uint8Array(length)
  return greatest < 2 ** 16 ? new Uint16Array(length) : new Uint32Array(length)
}

/** Slots of a part. */
export const partLength: number = 2 ** 16
export const zoneBits = 12
export const zoneLength: number = 2 ** zoneBits
/** The bits of a word. */
const lengthMin = 32
/** As in `SlotColumn`. */
const denseShare = 3
/** Of the objects, as V8 allocates them. */
const partBytes = 350
