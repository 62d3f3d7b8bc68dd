import { blockBytes, columnFilter } from '../kernels/column-filter.ts'
import { type ColumnPart, partLength, zoneLength } from './column-part.ts'
import type { MemoryCount } from './memory-count.ts'
import type { NumberCounts } from './number-table.ts'
import type { CodeRange } from './packed-numbers.ts'
import type { LeftOut, Piece } from './pieces.ts'
import { columnPieces, loadColumn, SlotColumn } from './slot-column.ts'
import { hasMany, orBlock, setBit } from './slot-words.ts'
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

/** A test of numbers, and the bitmaps to read and write. The bitmaps cover all slots, not only those of one part. */
interface NumberFill {
  readonly test: NumberTest
  readonly words: Uint32Array
  /** If defined, slots outside this set need not be tested. */
  readonly within: Uint32Array | undefined
}

/**
 * Sets the bits of a part's slots whose number passes the test. The part must have an array.
 *
 * @param firstWord the part's first word in the bitmaps
 * @param further the further numbers of the part's slots
 */
function* fillFromArray(
  part: ColumnPart,
  firstWord: number,
  further: ReadonlyMap<number, readonly number[]> | undefined,
  fill: NumberFill,
): Generator<void, void> {
  const { test, words, within } = fill
  const range = part.numbers!.range(test.min, test.max)
  if (range.low > range.high) return
  const ofPart: PartFill = { test, words, within, ...range, firstWord }
  const zonesAtOnce = blockBytes / range.codes.BYTES_PER_ELEMENT / zoneLength
  const wordsEnd = Math.min(range.codes.length >>> 5, words.length - firstWord)
  const manyMin = range.codes.BYTES_PER_ELEMENT * manyPerByte
  const isByKernel = prepareKernel(part, range, test)
  const isSkipped = (zone: number): boolean =>
    part.zoneMin[zone]! > test.max || part.zoneMax[zone]! < test.min
  const isDense = (zone: number): boolean =>
    within === undefined ||
    hasMany(within, firstWord + zone * zoneWords, firstWord + (zone + 1) * zoneWords, manyMin)
  const zones = Math.ceil(wordsEnd / zoneWords)
  for (let zone = 0; zone < zones; zone += 1) {
    if (isSkipped(zone)) continue
    const first = zone
    let found: number
    if (isByKernel && isDense(zone)) {
      const last = Math.min(first + zonesAtOnce, zones) - 1
      while (zone < last && !isSkipped(zone + 1) && isDense(zone + 1)) zone += 1
      const end = Math.min((zone + 1) * zoneWords, wordsEnd)
      found = fillBlock(ofPart, first * zoneWords, end)
    } else {
      const end = Math.min((zone + 1) * zoneWords, wordsEnd)
      found = fillWords(ofPart, part, first * zoneWords, end)
      // Testing slot by slot can take a hundred times as long as the kernel.
      if (!isByKernel) yield
    }
    if (found > 0 || within !== undefined) continue
    for (let empty = first; empty <= zone; empty += 1) part.tighten(empty, further)
  }
}

/** Prepares the kernel for a test. Returns false if the kernel does not support the test. */
function prepareKernel(part: ColumnPart, range: CodeRange, test: NumberTest): boolean {
  if (test.isInterval) return true
  const accepted = part.numbers!.accepted(range, test)
  if (accepted !== undefined) columnFilter.accept(accepted, 0)
  return accepted !== undefined
}

interface PartFill extends NumberFill, CodeRange {
  /** The part's first word in the bitmaps. */
  readonly firstWord: number
}

/** Tests words [start, end) of a part, at most `blockBytes`. Returns an upper bound of the number of bits set. */
function fillBlock(
  { codes, low, high, test, words, firstWord }: PartFill,
  start: number,
  end: number,
): number {
  const block = codes.subarray(start << 5, end << 5)
  const found = testBlock(block, low, high, test)
  if (found > 0) orBlock(words, columnFilter.bits, firstWord + start, end - start)
  return found
}

function testBlock(block: CodeRange['codes'], low: number, high: number, { isInterval }: NumberTest): number {
  if (isInterval) return columnFilter.within(block, low, high)
  columnFilter.ofAccepted(block as Uint8Array | Uint16Array)
  return block.length
}

/** As `fillBlock`, but tests slot by slot. Returns 0 if no bit was set. */
function fillWords(fill: PartFill, part: ColumnPart, start: number, end: number): number {
  const { words, firstWord, within } = fill
  let found = 0
  for (let word = start; word < end; word += 1) {
    const wanted = within === undefined ? allBits : (within[firstWord + word] ?? 0)
    if (wanted === 0) continue
    const bits = bitsAccepted(fill, part, word << 5, wanted)
    words[firstWord + word]! |= bits
    found |= bits
  }
  return found
}

/** Tests the wanted ones of 32 numbers. Returns a bit for each. */
function bitsAccepted(
  { codes, low, high, test }: PartFill,
  part: ColumnPart,
  at: number,
  wanted: number,
): number {
  let bits = 0
  for (let rest = wanted; rest !== 0; rest &= rest - 1) {
    const bit = rest & -rest
    const position = at + 31 - Math.clz32(bit)
    const code = codes[position]!
    if (code >= low && code <= high && (test.isInterval || test.accepts(part.get(position)))) bits |= bit
  }
  return bits
}

const zoneWords = zoneLength / 32
const allBits = -1
/** With b bytes a number, the kernel tests 4,096 slots in about the time of testing this many times b slots singly. */
const manyPerByte = 16
