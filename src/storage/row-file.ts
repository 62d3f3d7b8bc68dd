import { closeSync, fdatasyncSync, fstatSync, fsyncSync, openSync, readSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'
import { syncDirectory } from '../base/sync-directory.ts'
import { beyondRepair, damaged, unopenable } from './data-directory.ts'
import {
  faultOfRowsHeader,
  isRowsHeader,
  rowBytesOf,
  rowsHeader,
  rowsHeaderBytes,
  sealRow,
} from './key-layout.ts'

/**
 * The writer's access to the vectors on disk: see key-layout.ts for the format. Rows are written and synced before an
 * LMDB transaction makes them valid. Synchronous, because the writer thread has nothing else to do.
 */
export class RowFile {
  readonly path: string
  readonly dimension: number
  readonly #file: number
  readonly #rowBytes: number

  private constructor(path: string, file: number, dimension: number) {
    this.path = path
    this.dimension = dimension
    this.#file = file
    this.#rowBytes = rowBytesOf(dimension)
  }

  /**
   * Creates an empty file for vectors of `dimension`. Replaces the leftovers of an interrupted first insertion; none of
   * its rows were committed.
   */
  static create(path: string, dimension: number): RowFile {
    const rows = new RowFile(path, openSync(path, 'w+', 0o600), dimension)
    try {
      rows.#writeAt(rowsHeader(dimension), 0)
      fsyncSync(rows.#file)
      syncDirectory(dirname(path))
      return rows
    } catch (error) {
      rows.close()
      throw error
    }
  }

  /** @throws DatabaseError if the file is missing, damaged or of another dimension */
  static open(path: string, dimension: number): RowFile {
    const rows = new RowFile(path, openExisting(path), dimension)
    const header = Buffer.alloc(rowsHeaderBytes)
    const bytesRead = readSync(rows.#file, header, 0, rowsHeaderBytes, 0)
    const fault = faultOfRowsHeader(header.subarray(0, bytesRead), dimension)
    if (fault === undefined) return rows
    rows.close()
    throw isRowsHeader(header) ? beyondRepair(path, fault) : damaged(path, fault)
  }

  /**
   * Fills in the checksums of `rows` and writes them, adjacent slots in one write.
   *
   * @param slots the slot of each row
   */
  write(rows: Buffer, slots: Uint32Array): void {
    for (let offset = 0; offset < rows.length; offset += this.#rowBytes) sealRow(rows, offset, this.#rowBytes)
    for (let first = 0; first < slots.length; ) {
      let end = first + 1
      while (end < slots.length && slots[end]! === slots[end - 1]! + 1) end += 1
      const run = rows.subarray(first * this.#rowBytes, end * this.#rowBytes)
      this.#writeAt(run, rowsHeaderBytes + slots[first]! * this.#rowBytes)
      first = end
    }
  }

  /** Returns when everything written is on the disk. */
  sync(): void {
    fdatasyncSync(this.#file)
  }

  get sizeBytes(): number {
    return fstatSync(this.#file).size
  }

  close(): void {
    closeSync(this.#file)
  }

  #writeAt(bytes: Buffer, position: number): void {
    for (let written = 0; written < bytes.length; ) {
      written += writeSync(this.#file, bytes, written, bytes.length - written, position + written)
    }
  }
}

function openExisting(path: string): number {
  try {
    return openSync(path, 'r+')
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') throw beyondRepair(path, 'it is missing')
    if (lastingCodes.includes(code)) throw unopenable(path, error as NodeJS.ErrnoException)
    throw error
  }
}

/** Unlike others, such as EMFILE, these failures last until someone changes the file. */
const lastingCodes: readonly string[] = ['EACCES', 'EISDIR', 'ELOOP', 'ENOTDIR', 'EPERM']
