import { closeSync, openSync, readSync } from 'node:fs'
import { idBytes } from '../base/ids.ts'
import { damaged } from './data-directory.ts'
import { readRow, rowBytesOf, rowsHeaderBytes } from './key-layout.ts'
import type { StoredRow, StoredRows } from './store.ts'

/**
 * Reads the rows of the live slots in [from, to), in slot order, verifying each. `each` gets an object
 * that is overwritten after it returns.
 *
 * @throws DatabaseError that names the first damaged row
 */
export function readRows(rows: StoredRows, from: number, to: number, each: (row: StoredRow) => void): void {
  const { path, dimension } = rows
  const rowBytes = rowBytesOf(dimension)
  if (chunk.length < rowBytes) chunk = Buffer.allocUnsafeSlow(rowBytes)
  const rowsPerChunk = Math.floor(chunk.length / rowBytes)
  const vector = new Float32Array(dimension)
  const row = { slot: 0, id: new Uint8Array(idBytes), sequence: 0, vector }
  const into = new Uint8Array(vector.buffer)
  const file = openSync(path, 'r')
  try {
    for (let first = from; first < to; first += rowsPerChunk) {
      const position = rowsHeaderBytes + first * rowBytes
      const count = Math.min(rowsPerChunk, to - first)
      const available = readFully(file, chunk, count * rowBytes, position)
      for (let index = 0; index < count; index += 1) {
        const slot = first + index
        if (!isLive(rows, slot)) continue
        const offset = index * rowBytes
        const isWhole = offset + rowBytes <= available
        const sequence = isWhole ? readRow(chunk, offset, into) : undefined
        if (sequence === undefined) throw damagedRow(path, slot, position + offset, isWhole)
        if (sequence > rows.sequence) {
          throw damaged(path, `slot ${slot} has sequence ${sequence}, the last is ${rows.sequence}`)
        }
        for (let at = 0; at < idBytes; at += 1) row.id[at] = chunk[offset + at]!
        row.slot = slot
        row.sequence = sequence
        each(row)
      }
    }
  } finally {
    closeSync(file)
  }
}

function isLive({ live }: StoredRows, slot: number): boolean {
  return (live[slot >> 3]! & (1 << (slot & 7))) !== 0
}

/** Reads until `length` bytes or the end of the file; gives the number of bytes read. */
function readFully(file: number, target: Buffer, length: number, position: number): number {
  let read = 0
  while (read < length) {
    const bytesRead = readSync(file, target, read, length - read, position + read)
    if (bytesRead === 0) break
    read += bytesRead
  }
  return read
}

function damagedRow(path: string, slot: number, position: number, isWhole: boolean): Error {
  const fault = isWhole ? 'not what its checksum says' : 'cut off'
  return damaged(path, `the row of slot ${slot} at byte ${position} is ${fault}`)
}

/**
 * Large enough for the disk to be read at full speed, small enough to stay in the processor's cache. One for each thread:
 * a million points are read in hundreds of calls, and what those left behind would stay in memory until a collection.
 */
let chunk = Buffer.allocUnsafeSlow(256 * 1024)
