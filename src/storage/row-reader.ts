import { closeSync, openSync } from 'node:fs'
import { damaged } from './data-directory.ts'
import { type RowView, rowBytesOf, rowsHeaderBytes, rowViews } from './key-layout.ts'
import { hasBit } from './live-bits.ts'
import { readFully } from './read-fully.ts'
import type { StoredRow, StoredRows } from './store.ts'

/**
 * Reads and verifies the rows of the live slots in [from, to), in slot order. The row that `each` receives is
 * overwritten after `each` returns.
 *
 * @throws DatabaseError that names the first damaged row
 */
export function readRows(rows: StoredRows, from: number, to: number, each: (row: StoredRow) => void): void {
  const { path, dimension } = rows
  const rowBytes = rowBytesOf(dimension)
  const { bytes, views } = chunkFor(dimension)
  const file = openSync(path, 'r')
  try {
    for (let first = from; first < to; first += views.length) {
      const position = rowsHeaderBytes + first * rowBytes
      const count = Math.min(views.length, to - first)
      const available = readFully(file, bytes, count * rowBytes, position)
      for (let index = 0; index < count; index += 1) {
        const slot = first + index
        if (!hasBit(rows.live, slot)) continue
        const offset = index * rowBytes
        const isWhole = offset + rowBytes <= available
        const view = views[index]!
        const sequence = isWhole ? view.verify() : undefined
        if (sequence === undefined) throw damagedRow(path, slot, position + offset, isWhole)
        if (sequence > rows.sequence) {
          throw damaged(path, `slot ${slot} has sequence ${sequence}, the last is ${rows.sequence}`)
        }
        each({ slot, id: view.id, sequence, vector: view.vector })
      }
    }
  } finally {
    closeSync(file)
  }
}

function damagedRow(path: string, slot: number, position: number, isWhole: boolean): Error {
  const fault = isWhole ? 'damaged (its checksum does not match)' : 'cut off'
  return damaged(path, `the row of slot ${slot} at byte ${position} is ${fault}`)
}

/** The buffer for reading rows, with a view for each row that fits. */
interface Chunk {
  readonly dimension: number
  readonly bytes: Buffer
  readonly views: readonly RowView[]
}

/**
 * Each thread has one chunk. Reading a million points takes hundreds of calls, and a buffer for each call would stay in
 * memory until a garbage collection.
 */
let chunk: Chunk | undefined

function chunkFor(dimension: number): Chunk {
  if (chunk?.dimension === dimension) return chunk
  const bytes = Buffer.allocUnsafeSlow(Math.max(chunkBytes, rowBytesOf(dimension)))
  chunk = { dimension, bytes, views: rowViews(bytes, dimension) }
  return chunk
}

/** Large enough for the disk to be read at full speed, small enough to stay in the processor's cache. */
const chunkBytes = 256 * 1024
