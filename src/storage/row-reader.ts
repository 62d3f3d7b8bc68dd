import { type FileHandle, open } from 'node:fs/promises'
import { idBytes } from '../base/ids.ts'
import { damaged } from './data-directory.ts'
import { readRow, rowBytesOf, rowsHeaderBytes } from './key-layout.ts'
import type { StoredRow } from './store.ts'

/**
 * Reads the rows of the live slots below `slotCount`, in slot order, verifying each; yields after every chunk.
 * `each` gets views that are overwritten after it returns.
 *
 * @throws DatabaseError that names the first damaged row
 */
export async function readRows(
  path: string,
  dimension: number,
  slots: { readonly count: number; readonly isLive: (slot: number) => boolean },
  each: (row: StoredRow) => void,
): Promise<void> {
  await using file = await open(path, 'r')
  const rowBytes = rowBytesOf(dimension)
  const rowsPerChunk = Math.max(1, Math.floor(chunkBytes / rowBytes))
  const vector = new Float32Array(dimension)
  const readChunk = async (first: number, chunk: Buffer): Promise<Chunk | undefined> => {
    const count = Math.min(rowsPerChunk, slots.count - first)
    if (count <= 0) return undefined
    const position = rowsHeaderBytes + first * rowBytes
    return {
      first,
      count,
      position,
      bytes: chunk,
      available: await readFully(file, chunk, count * rowBytes, position),
    }
  }
  const readEach = ({ first, count, position, bytes, available }: Chunk): void => {
    for (let index = 0; index < count; index += 1) {
      const slot = first + index
      if (!slots.isLive(slot)) continue
      const offset = index * rowBytes
      const isWhole = offset + rowBytes <= available
      const sequence = isWhole ? readRow(bytes, offset, vector) : undefined
      if (sequence === undefined) throw damagedRow(path, slot, position + offset, isWhole)
      each({ slot, id: bytes.subarray(offset, offset + idBytes), sequence, vector })
    }
  }
  const bytes = Math.min(rowsPerChunk, Math.max(1, slots.count)) * rowBytes
  const spare = [Buffer.alloc(bytes), Buffer.alloc(bytes)]
  let chunk = await readChunk(0, spare[0]!)
  while (chunk !== undefined) {
    spare.reverse()
    // The next chunk comes from the disk while this one is checked and copied.
    const next = readChunk(chunk.first + chunk.count, spare[0]!)
    try {
      readEach(chunk)
    } finally {
      await next
    }
    chunk = await next
  }
}

interface Chunk {
  readonly first: number
  readonly count: number
  /** Byte offset in the file. */
  readonly position: number
  readonly bytes: Buffer
  /** Of the bytes that were asked for, those that the file had. */
  readonly available: number
}

/** Reads until `length` bytes or the end of the file; gives the number of bytes read. */
async function readFully(
  file: FileHandle,
  target: Buffer,
  length: number,
  position: number,
): Promise<number> {
  let read = 0
  while (read < length) {
    const { bytesRead } = await file.read(target, read, length - read, position + read)
    if (bytesRead === 0) break
    read += bytesRead
  }
  return read
}

function damagedRow(path: string, slot: number, position: number, isWhole: boolean): Error {
  const fault = isWhole ? 'not what its checksum says' : 'cut off'
  return damaged(path, `the row of slot ${slot} at byte ${position} is ${fault}`)
}

/** Large enough for the disk to be read at full speed, small enough to copy in a few milliseconds. */
const chunkBytes = 4 * 1024 * 1024
