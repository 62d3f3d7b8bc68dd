import { partLength } from './column-part.ts'
import type { NumberTable } from './number-table.ts'
import { bytesAfter, type LeftOut, type Piece, RecordReader, RecordWriter } from './pieces.ts'
import type { SlotColumn } from './slot-column.ts'

/** Of entries that stand for several values: from which one on they do, and which these are. */
export interface SeveralValues {
  readonly from: number
  readonly of: (entry: number) => readonly number[]
}

/**
 * A column as pieces of a file. It may change between two of them: slots that are not touched come exactly once, those with
 * several values once more.
 *
 * @param several of ordinals: the slots with such entries come only once, with the values; without it, further numbers come
 */
export function* columnPieces(column: SlotColumn, several?: SeveralValues): Generator<Piece, void> {
  const { sparse } = column
  if (sparse !== undefined) yield* tablePieces(sparse, 0, several)
  const partCount = Math.ceil(column.end / partLength)
  for (let index = 0; index < partCount; index += 1) {
    const part = sparse === undefined ? column.parts[index] : undefined
    if (part?.table !== undefined) yield* tablePieces(part.table, index * partLength, several)
    if (part?.numbers !== undefined)
      yield { form: 'array', bytes: bytesAfter([index], part.numbers.toBytes()) }
    if (part?.ordinals !== undefined) {
      const lists = several && listsOf(part.ordinals.array, index * partLength, several)
      yield { form: 'array', bytes: bytesAfter([index], part.ordinals.toBytes(several?.from ?? 2 ** 32)) }
      if (lists !== undefined) yield lists
    }
    const further = furtherOf(column.moreOf(index))
    if (further !== undefined) yield further
  }
}

/** Enters a piece into a column that has none of its slots. */
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

function* tablePieces(
  { keys, values }: NumberTable,
  firstSlot: number,
  several: SeveralValues | undefined,
): Generator<Piece, void> {
  const entries = new RecordWriter()
  const lists = new RecordWriter()
  for (let index = 0; index < keys.length; index += 1) {
    if (Number.isNaN(keys[index]!)) continue
    const slot = firstSlot + keys[index]!
    const value = values[index]!
    if (several !== undefined && value >= several.from) lists.several(slot, several.of(value))
    else {
      entries.u32(slot)
      entries.f64(value)
    }
  }
  if (!entries.isEmpty) yield { form: 'entries', bytes: entries.take() }
  if (!lists.isEmpty) yield { form: 'several', bytes: lists.take() }
}

function listsOf(
  entries: Uint8Array | Uint16Array | Uint32Array,
  firstSlot: number,
  several: SeveralValues,
): Piece | undefined {
  if (!(entries instanceof Uint32Array)) return undefined
  const lists = new RecordWriter()
  for (let local = 0; local < entries.length; local += 1) {
    if (entries[local]! >= several.from) lists.several(firstSlot + local, several.of(entries[local]!))
  }
  return lists.isEmpty ? undefined : { form: 'several', bytes: lists.take() }
}

function furtherOf(more: ReadonlyMap<number, readonly number[]> | undefined): Piece | undefined {
  if (more === undefined) return undefined
  const records = new RecordWriter()
  for (const [slot, values] of more) records.several(slot, values)
  return { form: 'several', bytes: records.take() }
}
