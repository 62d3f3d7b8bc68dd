import { type FileHandle, open } from 'node:fs/promises'
import { DatabaseError } from '../base/errors.ts'
import {
  faultOfRowsHeader,
  readRow,
  rowBytesOf,
  rowsHeader,
  rowsHeaderBytes,
  writeRow,
} from './key-layout.ts'
import type { Insertion, StoredRow } from './store.ts'

/** Opens a file: the seam where tests let the disk fail. */
export type OpenFile = (path: string, flags: string, mode: number) => Promise<FileHandle>

/** The vectors on disk: see key-layout.ts for the bytes. Written and synced before LMDB makes rows count. */
export class RowFile {
  readonly path: string
  readonly #handle: FileHandle
  readonly #dimension: number
  readonly #rowBytes: number

  private constructor(path: string, handle: FileHandle, dimension: number) {
    this.path = path
    this.#handle = handle
    this.#dimension = dimension
    this.#rowBytes = rowBytesOf(dimension)
  }

  /**
   * Opens the file for vectors of `dimension`, making it when `isNew`: no committed row stands in it yet, so
   * whatever an interrupted first insertion left behind is replaced.
   *
   * @throws DatabaseError when the file is missing, damaged or of another dimension
   */
  static async open(
    path: string,
    dimension: number,
    isNew: boolean,
    openFile: OpenFile = open,
  ): Promise<RowFile> {
    const handle = await openFile(path, isNew ? 'w+' : 'r+', 0o600)
    try {
      if (isNew) {
        await handle.write(rowsHeader(dimension), 0, rowsHeaderBytes, 0)
        await handle.datasync()
      }
      const header = Buffer.alloc(rowsHeaderBytes)
      const { bytesRead } = await handle.read(header, 0, rowsHeaderBytes, 0)
      const fault = faultOfRowsHeader(header.subarray(0, bytesRead), dimension)
      if (fault !== undefined) throw damaged(path, fault)
      return new RowFile(path, handle, dimension)
    } catch (error) {
      await handle.close()
      throw error
    }
  }

  /** Writes the rows of `insertions` and waits until they are on the disk. */
  async write(insertions: readonly Insertion[]): Promise<void> {
    const ordered = insertions.toSorted((a, b) => a.slot - b.slot)
    for (let first = 0; first < ordered.length; ) {
      let end = first + 1
      while (end < ordered.length && this.#extendsRun(ordered, first, end)) end += 1
      await this.#writeRun(ordered.slice(first, end))
      first = end
    }
    await this.#handle.datasync()
  }

  /**
   * Reads the rows of the live slots below `slotCount`, verifying each; yields after every chunk.
   *
   * @throws DatabaseError that names the first damaged row
   */
  async read(
    slotCount: number,
    isLive: (slot: number) => boolean,
    each: (row: StoredRow) => void,
  ): Promise<void> {
    const rowsPerChunk = Math.max(1, Math.floor(chunkBytes / this.#rowBytes))
    const chunk = Buffer.alloc(Math.min(rowsPerChunk, Math.max(1, slotCount)) * this.#rowBytes)
    const vector = new Float32Array(this.#dimension)
    for (let first = 0; first < slotCount; first += rowsPerChunk) {
      const count = Math.min(rowsPerChunk, slotCount - first)
      const available = await this.#readFully(chunk, count * this.#rowBytes, this.#offsetOf(first))
      for (let index = 0; index < count; index += 1) {
        const slot = first + index
        if (!isLive(slot)) continue
        const offset = index * this.#rowBytes
        const whole = offset + this.#rowBytes <= available
        const sequence = whole ? readRow(chunk, offset, vector) : undefined
        if (sequence === undefined) {
          const at = this.#offsetOf(slot)
          throw damaged(
            this.path,
            `the row of slot ${slot} at byte ${at} is ${whole ? 'not what its checksum says' : 'cut off'}`,
          )
        }
        each({ slot, id: chunk.subarray(offset, offset + 16), sequence, vector })
      }
    }
  }

  async sizeBytes(): Promise<number> {
    return (await this.#handle.stat()).size
  }

  async close(): Promise<void> {
    await this.#handle.close()
  }

  #extendsRun(ordered: readonly Insertion[], first: number, index: number): boolean {
    const isNext = ordered[index]!.slot === ordered[index - 1]!.slot + 1
    return isNext && (index - first) * this.#rowBytes < chunkBytes
  }

  async #writeRun(run: readonly Insertion[]): Promise<void> {
    const bytes = Buffer.allocUnsafe(run.length * this.#rowBytes)
    for (const [index, { id, sequence, point }] of run.entries()) {
      writeRow(bytes, index * this.#rowBytes, { id, sequence, vector: point.vector })
    }
    const position = this.#offsetOf(run[0]!.slot)
    for (let written = 0; written < bytes.length; ) {
      const { bytesWritten } = await this.#handle.write(
        bytes,
        written,
        bytes.length - written,
        position + written,
      )
      written += bytesWritten
    }
  }

  /** Reads until `length` bytes or the end of the file; gives the number of bytes read. */
  async #readFully(target: Buffer, length: number, position: number): Promise<number> {
    let read = 0
    while (read < length) {
      const { bytesRead } = await this.#handle.read(target, read, length - read, position + read)
      if (bytesRead === 0) break
      read += bytesRead
    }
    return read
  }

  #offsetOf(slot: number): number {
    return rowsHeaderBytes + slot * this.#rowBytes
  }
}

/** Large enough for the disk to be read at full speed, small enough to copy in a few milliseconds. */
const chunkBytes = 4 * 1024 * 1024

/** An error at start-up that says which file is damaged, how, and what is left to do. */
export function damaged(path: string, fault: string): DatabaseError {
  return new DatabaseError(
    'internal',
    `${path} cannot be used: ${fault}. Restore the data directory from a backup.`,
  )
}
