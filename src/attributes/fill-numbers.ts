import { blockBytes, columnFilter } from '../kernels/column-filter.ts'
import { type ColumnPart, zoneLength } from './column-part.ts'
import type { CodeRange } from './packed-numbers.ts'
import { hasMany, orBlock } from './slot-words.ts'
import type { NumberTest } from './value-tests.ts'

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
export function* fillFromArray(
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
