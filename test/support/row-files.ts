import { newId } from '../../src/base/partitions.ts'
import type { RowFileLayout } from '../../src/index/segment.ts'
import { RowFile } from '../../src/storage/files/row-file.ts'
import { packRow, rowBytesOf, rowHeadBytes, rowsHeaderBytes } from '../../src/storage/key-layout.ts'

/** A row of a point: its slot, vector and sequence number. */
export type SlotRow = readonly [slot: number, vector: Float32Array, sequence: number]

/** Writes a file of rows as a store does. */
export function writeRows(path: string, dimension: number, rows: readonly SlotRow[]): RowFileLayout {
  const file = RowFile.create(path, dimension)
  addRows(file, rows)
  file.close()
  return rowLayout(path, dimension)
}

export function addRows(file: RowFile, rows: readonly SlotRow[]): void {
  const rowBytes = rowBytesOf(file.dimension)
  const bytes = Buffer.alloc(rows.length * rowBytes)
  for (const [at, [, vector, sequence]] of rows.entries())
    packRow(bytes, at * rowBytes, { id: newId(), sequence, vector })
  file.write(
    bytes,
    Uint32Array.from(rows, ([slot]) => slot),
  )
}

export function rowLayout(path: string, dimension: number): RowFileLayout {
  return { path, firstRow: rowsHeaderBytes, headBytes: rowHeadBytes, rowBytes: rowBytesOf(dimension) }
}
