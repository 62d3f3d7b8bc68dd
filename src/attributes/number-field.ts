import { columnFilter, type NumberArray } from '../kernels/column-filter.ts'
import { partLength, zoneBits, zoneLength } from './column-part.ts'
import type { MemoryCount } from './memory-count.ts'
import type { NumberCounts } from './number-counts.ts'
import type { CodeRange, PackedNumbers } from './packed-numbers.ts'
import { partBits, SlotColumn } from './slot-column.ts'
import { hasMany, orBlock, setBit } from './slot-words.ts'

/** A test of one number. None outside of [min, max] passes. */
export interface NumberTest {
  readonly min: number
  readonly max: number
  /** Whether all numbers in [min, max] pass. */
  readonly isInterval: boolean
  accepts(value: number): boolean
}

/** The numbers at a path, or its moments in microseconds. */
export class NumberField {
  readonly column: SlotColumn
  #staged: number[] = []

  constructor(memory: MemoryCount) {
    this.column = new SlotColumn(memory, 'numbers')
  }

  /** Slots with a number. */
  get count(): number {
    return this.column.count
  }

  /** Returns whether it is the first value of the next `commit`. */
  stage(value: number): boolean {
    // Adding 0 makes 0 of -0.
    return this.#staged.push(value + 0) === 1
  }

  /** The slot, which has no number, has what was staged. */
  commit(slot: number): void {
    if (this.#staged.length === 1) this.column.set(slot, this.#staged[0]!)
    else this.assign(slot, [...new Set(this.#staged)])
    this.#staged = []
  }

  /** The slot, which has no number, has these different ones. */
  assign(slot: number, values: readonly number[]): void {
    this.column.set(slot, values[0]!, values.slice(1))
  }

  /** The slot must have a number. */
  remove(slot: number): void {
    this.column.delete(slot)
  }

  /** Adds 1 to the count of each number of a slot. */
  countInto(slot: number, counts: NumberCounts): void {
    const first = this.column.get(slot)
    if (Number.isNaN(first)) return
    counts.add(first)
    const further = this.column.further(slot)
    if (further !== undefined) for (const value of further) counts.add(value)
  }

  /** The numbers of a slot. */
  valuesOf(slot: number): readonly number[] {
    const first = this.column.get(slot)
    return Number.isNaN(first) ? [] : [first, ...(this.column.further(slot) ?? [])]
  }

  /** Whether a number of the slot passes. */
  some(slot: number, test: NumberTest): boolean {
    if (test.accepts(this.column.get(slot))) return true
    const further = this.column.further(slot)
    return further?.some((value) => test.accepts(value)) ?? false
  }

  /**
   * Sets the bits of the slots that have a number which passes.
   *
   * @param within other slots need not be considered
   */
  *fill(words: Uint32Array, test: NumberTest, within?: Uint32Array): Generator<void, void> {
    const { sparse } = this.column
    if (sparse !== undefined) {
      fillFromTable(sparse, 0, words, test)
      this.#fillFurther(0, words, test, true)
      return
    }
    for (let index = 0; index < this.column.parts.length; index += 1) {
      const part = this.column.parts[index]
      if (part === undefined) continue
      if (part.table !== undefined) fillFromTable(part.table, index * partLength, words, test)
      else yield* this.#fillFromArray(index, words, test, within)
      this.#fillFurther(index, words, test, false)
      yield
    }
  }

  *#fillFromArray(
    index: number,
    words: Uint32Array,
    test: NumberTest,
    within: Uint32Array | undefined,
  ): Generator<void, void> {
    const part = this.column.parts[index]!
    const { codes, low, high } = part.numbers!.range(test.min, test.max)
    if (low > high) return
    const firstWord = index << (partBits - 5)
    const accepted = test.isInterval ? undefined : { test, numbers: part.numbers! }
    for (let zone = 0; zone << zoneBits < codes.length; zone += 1) {
      if (part.zoneMin[zone]! > test.max || part.zoneMax[zone]! < test.min) continue
      const start = (zone << zoneBits) >>> 5
      const end = Math.min(start + zoneLength / 32, codes.length >>> 5, words.length - firstWord)
      const isDense = within === undefined || hasMany(within, firstWord + start, firstWord + end)
      const found =
        test.isInterval && isDense
          ? fillZone(codes.subarray(start << 5, end << 5), words, firstWord + start, low, high)
          : fillWords({ codes, low, high, words, firstWord, accepted, within }, start, end)
      if (found === 0 && within === undefined) part.tighten(zone, this.column.moreOf(index))
      // Other tests than for an interval can take a hundred times as long.
      if (!test.isInterval) yield
    }
  }

  #fillFurther(index: number, words: Uint32Array, test: NumberTest, isEverything: boolean): void {
    const parts = isEverything ? Math.ceil(this.column.end / partLength) : index + 1
    for (let part = index; part < parts; part += 1) {
      for (const [slot, values] of this.column.moreOf(part) ?? []) {
        if (values.some((value) => test.accepts(value))) setBit(words, slot)
      }
    }
  }
}

function fillFromTable(
  { keys, values }: { readonly keys: Float64Array; readonly values: Float64Array },
  firstSlot: number,
  words: Uint32Array,
  test: NumberTest,
): void {
  for (let index = 0; index < keys.length; index += 1) {
    if (!Number.isNaN(keys[index]!) && test.accepts(values[index]!)) setBit(words, firstSlot + keys[index]!)
  }
}

/** Returns how many bits were set. */
function fillZone(
  codes: NumberArray,
  words: Uint32Array,
  firstWord: number,
  low: number,
  high: number,
): number {
  const found = columnFilter.within(codes, low, high)
  if (found > 0) orBlock(words, columnFilter.bits, firstWord, codes.length >>> 5)
  return found
}

interface Fill extends CodeRange {
  readonly words: Uint32Array
  readonly firstWord: number
  /** For a test that not all numbers of its range pass. */
  readonly accepted: { readonly test: NumberTest; readonly numbers: PackedNumbers } | undefined
  readonly within: Uint32Array | undefined
}

/** As `fillZone`, for words of a part, one slot after the other; returns 0 if no bit was set. */
function fillWords(fill: Fill, start: number, end: number): number {
  const { words, firstWord, within } = fill
  let found = 0
  for (let word = start; word < end; word += 1) {
    const wanted = within === undefined ? allBits : (within[firstWord + word] ?? 0)
    if (wanted === 0) continue
    const bits = bitsAccepted(fill, word << 5, wanted)
    words[firstWord + word]! |= bits
    found |= bits
  }
  return found
}

/** One bit for each of 32 numbers. */
function bitsAccepted({ codes, low, high, accepted }: Fill, at: number, wanted: number): number {
  let bits = 0
  for (let rest = wanted; rest !== 0; rest &= rest - 1) {
    const bit = rest & -rest
    const position = at + 31 - Math.clz32(bit)
    const code = codes[position]!
    if (!(code >= low && code <= high)) continue
    if (accepted === undefined || accepted.test.accepts(accepted.numbers.get(position))) bits |= bit
  }
  return bits
}

const allBits = -1
