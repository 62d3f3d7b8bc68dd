import { partLength } from './column-part.ts'
import { keysOf } from './number-table.ts'
import { bytesAfter, type LeftOut, type Piece, RecordReader, RecordWriter, recordPieces } from './pieces.ts'
import type { SlotColumn } from './slot-column.ts'

/** Describes entries that stand for several values. */
interface SeveralValues {
  /** The lowest such entry: all entries from here on stand for several values. */
  readonly from: number
  readonly of: (entry: number) => readonly number[]
}

/**
 * Yields a column as pieces of a file. The column may change between pieces. An untouched slot occurs exactly once, or
 * twice if it has further numbers.
 *
 * @param several for ordinals only: a slot whose entry stands for several values occurs once, with all of these values
 */
export function* columnPieces(column: SlotColumn, several?: SeveralValues): Generator<Piece, void> {
  const { sparse } = column
  if (sparse !== undefined) yield* slotPieces(column, keysOf(sparse), 0, several)
  const partCount = Math.ceil(column.end / partLength)
  for (let index = 0; index < partCount; index += 1) {
    const firstSlot = index * partLength
    // Read once: a part can take another form while its pieces are written.
    const { table, numbers, ordinals } = (sparse === undefined ? column.parts[index] : undefined) ?? {}
    if (table !== undefined) yield* slotPieces(column, keysOf(table), firstSlot, several)
    else if (numbers !== undefined) yield { form: 'array', bytes: bytesAfter([index], numbers.toBytes()) }
    else if (ordinals !== undefined) {
      const { array } = ordinals
      yield { form: 'array', bytes: bytesAfter([index], ordinals.toBytes(several?.from ?? 2 ** 32)) }
      if (several !== undefined && array instanceof Uint32Array)
        yield* listPieces(column, firstSlot, array.length, several)
    }
    const further = column.moreOf(index)
    if (further !== undefined)
      yield* recordPieces('several', further, ([slot, values], records) => records.several(slot, values))
  }
}

/** Loads a piece into a column that has none of the piece's slots. */
export function loadColumn(
  column: SlotColumn,
  { form, bytes }: Piece,
  leftOut: LeftOut,
  addSeveral: (slot: number, values: readonly number[]) => void,
): void {
  if (form === 'array') {
    const array = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
    const index = array.readUInt32LE(0)
    column.loadPart(index, array.subarray(4))
    for (const slot of leftOut.inPart(index)) if (column.has(slot)) column.delete(slot)
    return
  }
  const records = new RecordReader(bytes)
  while (!records.isAtEnd) {
    const slot = records.u32()
    if (form === 'entries') {
      const value = records.f64()
      if (!leftOut.has(slot)) column.set(slot, value)
    } else {
      const values = records.numbers()
      if (!leftOut.has(slot)) addSeveral(slot, values)
    }
  }
}

/** Yields the current entries of some slots. The column may have changed since the slots were listed. */
function* slotPieces(
  column: SlotColumn,
  locals: Float64Array,
  firstSlot: number,
  several: SeveralValues | undefined,
): Generator<Piece, void> {
  const entries = new RecordWriter()
  const lists = new RecordWriter()
  for (const local of locals) {
    const slot = firstSlot + local
    if (!column.has(slot)) continue
    const value = column.get(slot)
    if (several !== undefined && value >= several.from) lists.several(slot, several.of(value))
    else {
      entries.u32(slot)
      entries.f64(value)
    }
    if (entries.isFull) yield { form: 'entries', bytes: entries.take() }
    if (lists.isFull) yield { form: 'several', bytes: lists.take() }
  }
  if (!entries.isEmpty) yield { form: 'entries', bytes: entries.take() }
  if (!lists.isEmpty) yield { form: 'several', bytes: lists.take() }
}

/** Yields the slots of a part that currently have several values. */
function* listPieces(
  column: SlotColumn,
  firstSlot: number,
  count: number,
  several: SeveralValues,
): Generator<Piece, void> {
  const lists = new RecordWriter()
  for (let slot = firstSlot; slot < firstSlot + count; slot += 1) {
    const entry = column.get(slot)
    if (entry >= several.from) lists.several(slot, several.of(entry))
    if (lists.isFull) yield { form: 'several', bytes: lists.take() }
  }
  if (!lists.isEmpty) yield { form: 'several', bytes: lists.take() }
}
