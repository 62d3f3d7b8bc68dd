import { closeSync, openSync, readSync } from 'node:fs'
import { crc32 } from 'node:zlib'
import { encodeHead, headBytes, headerOf, headOf, replaceFile } from '../base/files.ts'

/**
 * A cache on disk that consists of columns of memory:
 *
 *   head (base/files.ts), whose header has length and checksum of each column | columns in sequence
 */
export interface Column {
  readonly name: string
  readonly bytes: Uint8Array
}

interface Columns {
  readonly columns: readonly { readonly name: string; readonly bytes: number; readonly crc: number }[]
}

/** Replaces a file. If a column changes while it is written, its checksum does not match. */
export function saveColumns(path: string, magic: string, header: object, columns: readonly Column[]): void {
  const stated: Columns = {
    columns: columns.map(({ name, bytes }) => ({ name, bytes: bytes.length, crc: checksumOf(bytes) })),
  }
  const head = encodeHead(magic, { ...header, ...stated })
  replaceFile(path, [head, ...columns.map(({ bytes }) => bytes)])
}

/** A file of columns that is being read. */
export class ColumnFile<Header> implements Disposable {
  readonly header: Header & Columns
  readonly #file: number

  private constructor(file: number, magic: string, what: string) {
    this.#file = file
    const next = (bytes: number): Buffer => {
      const read = Buffer.alloc(bytes)
      this.#readAll(read, 'header')
      return read
    }
    const head = headOf(next(headBytes), magic, what)
    this.header = headerOf(head, next(head.bytes))
  }

  /**
   * @param what the file should be, for the error
   * @returns undefined if there is no file
   * @throws Error that names the fault of the file
   */
  static open<Header>(path: string, magic: string, what: string): ColumnFile<Header> | undefined {
    let file: number
    try {
      file = openSync(path, 'r')
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
      throw error
    }
    try {
      return new ColumnFile<Header>(file, magic, what)
    } catch (error) {
      closeSync(file)
      throw error
    }
  }

  /** Fills columns from the file. @throws Error that names the fault of the file */
  read(columns: readonly Column[]): void {
    for (const [index, { name, bytes }] of columns.entries()) {
      const stated = this.header.columns[index]
      if (stated?.name !== name || stated.bytes !== bytes.length)
        throw new Error(`its column ${name} has the wrong length`)
      if (this.#readAll(bytes, name) !== stated.crc)
        throw new Error(`its column ${name} does not match its checksum`)
    }
  }

  /** Fills `bytes` from the file. Returns the checksum of the bytes. */
  #readAll(bytes: Uint8Array, name: string): number {
    let crc = 0
    for (let at = 0; at < bytes.length; ) {
      const read = readSync(this.#file, bytes, at, Math.min(chunkBytes, bytes.length - at), null)
      if (read === 0) throw new Error(`it ends within its ${name}`)
      crc = crc32(bytes.subarray(at, at + read), crc)
      at += read
    }
    return crc
  }

  [Symbol.dispose](): void {
    closeSync(this.#file)
  }
}

/** Returns the checksum of bytes of any length; zlib takes less than 4 GiB at once. */
function checksumOf(bytes: Uint8Array): number {
  let crc = 0
  for (let at = 0; at < bytes.length; at += chunkBytes) crc = crc32(bytes.subarray(at, at + chunkBytes), crc)
  return crc
}

/** Small enough to be still in the CPU cache when the checksum is computed. */
const chunkBytes = 256 * 1024
