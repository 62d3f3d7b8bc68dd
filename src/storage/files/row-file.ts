import { closeSync, fdatasyncSync, fsyncSync, openSync, readSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'
import { beyondRepair, damaged, damagedRow, unopenable } from '../../base/errors.ts'
import { syncDirectory } from '../../base/files.ts'
import {
  faultOfRowsHeader,
  isRowsHeader,
  type RowView,
  rowBytesOf,
  rowsHeader,
  rowsHeaderBytes,
  rowViews,
  sealRow,
} from '../key-layout.ts'
import type { StoredRow, StoredRows } from '../store.ts'
import { hasBit } from '../table.ts'

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

/**
 * The row files that one thread writes. Only a limited number is open at a time: the least recently used file is
 * closed, and opened again when needed.
 */
export class RowFiles {
  readonly #maxOpen: number
  /** Open files by path, the most recently used last. */
  readonly #files = new Map<string, { readonly rows: RowFile; isWritten: boolean }>()
  /** By path: the error of the sync before a file was closed to make room. The file's group must fail with it. */
  readonly #unsynced = new Map<string, unknown>()

  constructor(maxOpen: number) {
    this.#maxOpen = maxOpen
  }

  /** @throws DatabaseError if the file is missing, damaged or of another dimension */
  open(path: string, dimension: number): RowFile {
    const held = this.#files.get(path)
    if (held !== undefined) {
      this.#files.delete(path)
      this.#files.set(path, held)
      return held.rows
    }
    return this.#hold(path, () => RowFile.open(path, dimension))
  }

  /** Creates an empty file, replacing an existing one. */
  create(path: string, dimension: number): RowFile {
    this.close(path)
    return this.#hold(path, () => RowFile.create(path, dimension))
  }

  /** Notes that rows were written and must be synced. */
  noteWritten(path: string): void {
    const held = this.#files.get(path)
    if (held !== undefined) held.isWritten = true
  }

  /** Returns when everything written to the file is on the disk. */
  sync(path: string): void {
    if (this.#unsynced.has(path)) {
      const error = this.#unsynced.get(path)
      this.#unsynced.delete(path)
      throw error
    }
    const held = this.#files.get(path)
    // A file that was closed has already been synced.
    if (held?.isWritten !== true) return
    held.rows.sync()
    held.isWritten = false
  }

  close(path: string): void {
    this.#files.get(path)?.rows.close()
    this.#files.delete(path)
  }

  closeAll(): void {
    for (const path of [...this.#files.keys()]) this.close(path)
  }

  #hold(path: string, open: () => RowFile): RowFile {
    while (this.#files.size >= this.#maxOpen) this.#closeOldest()
    const rows = open()
    this.#files.set(path, { rows, isWritten: false })
    return rows
  }

  /** Syncs before closing, if rows were written: the system reports write errors only to open descriptors. */
  #closeOldest(): void {
    const path = this.#files.keys().next().value!
    try {
      this.sync(path)
    } catch (error) {
      this.#unsynced.set(path, error)
    }
    this.close(path)
  }
}

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

/** Reads `length` bytes, or up to the end of the file. Returns the number of bytes read. */
export function readFully(file: number, target: Buffer, length: number, position: number): number {
  let read = 0
  while (read < length) {
    const bytesRead = readSync(file, target, read, length - read, position + read)
    if (bytesRead === 0) break
    read += bytesRead
  }
  return read
}
