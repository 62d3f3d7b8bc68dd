import { partLength } from './column-part.ts'
import { columnPieces, loadColumn } from './column-pieces.ts'
import { fillFromArray } from './fill-numbers.ts'
import type { MemoryCount } from './memory-count.ts'
import type { NumberCounts } from './number-table.ts'
import type { LeftOut, Piece } from './pieces.ts'
import { SlotColumn } from './slot-column.ts'
import { setBit } from './slot-words.ts'
import type { NumberTest } from './value-tests.ts'

/** The numbers at a path, or the moments there in microseconds. */
export class NumberField {
  readonly column: SlotColumn
  #staged: number[] = []

  constructor(memory: MemoryCount) {
    this.column = new SlotColumn(memory, 'numbers')
  }

  /** Number of slots with a number. */
  get count(): number {
    return this.column.count
  }

  /** Stages a value for the next `commit`. Returns whether it is the first one staged. */
  stage(value: number): boolean {
    // Adding 0 turns -0 into 0.
    return this.#staged.push(value + 0) === 1
  }

  /** Sets the staged numbers at a slot. The slot must not have a number. */
  commit(slot: number): void {
    if (this.#staged.length === 1) this.column.set(slot, this.#staged[0]!)
    else this.assign(slot, [...new Set(this.#staged)])
    this.#staged = []
  }

  /** Sets distinct numbers at a slot. The slot must not have a number. */
  assign(slot: number, values: readonly number[]): void {
    this.column.set(slot, values[0]!, values.slice(1))
  }

  /** Yields the numbers as pieces of a file. See `columnPieces`. */
  pieces(): Generator<Piece, void> {
    return columnPieces(this.column)
  }

  /** Loads a piece of a file. */
  load(piece: Piece, leftOut: LeftOut): void {
    loadColumn(this.column, piece, leftOut, (slot, further) => this.column.addFurther(slot, further))
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

  /** Returns the numbers of a slot. */
  valuesOf(slot: number): readonly number[] {
    const first = this.column.get(slot)
    return Number.isNaN(first) ? [] : [first, ...(this.column.further(slot) ?? [])]
  }

  /** Whether at least one number of a slot passes. */
  some(slot: number, test: NumberTest): boolean {
    if (test.accepts(this.column.get(slot))) return true
    const further = this.column.further(slot)
    return further?.some((value) => test.accepts(value)) ?? false
  }

  /** Estimates from a sample how many slots have a first number that passes. */
  estimate(test: NumberTest): number {
    const step = Math.ceil(this.column.end / sampled) | 1
    let passing = 0
    for (let slot = 0; slot < this.column.end; slot += step) {
      if (test.accepts(this.column.get(slot))) passing += 1
    }
    return Math.min(this.count, (passing + 1) * step)
  }

  /** Estimates the cost of `fill` in nanoseconds. */
  fillCost(test: NumberTest): number {
    const { bytesPerNumber } = this.column
    const isByKernel = test.isInterval || bytesPerNumber === 1
    return this.count * (isByKernel ? bytesPerNumber * nsPerByte : nsPerTest)
  }

  /**
   * Sets the bits of the slots with a number that passes.
   *
   * @param within slots outside this set need not be tested
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
      else {
        const further = this.column.moreOf(index)
        yield* fillFromArray(part, index * (partLength / 32), further, { test, words, within })
      }
      this.#fillFurther(index, words, test, false)
      yield
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

/** Number of slots in the sample of an estimate. Testing them takes about half a microsecond. */
const sampled = 32
/** Cost for each byte of a column that a kernel reads. */
const nsPerByte = 0.08
/** Cost of testing one number without a kernel. */
const nsPerTest = 10
