import { closeSync, fstatSync, ftruncateSync, openSync, statfsSync, statSync, writeSync } from 'node:fs'
import type { RootDatabase } from 'lmdb'
import { databaseBytes } from './environment.ts'
import { pagesOf, type Table, type TreeStats } from './table.ts'

/**
 * Ensures that LMDB has room for the pages that a transaction writes. If a page cannot be written because the disk is
 * full, the package `lmdb` 3.5 writes past a buffer: its message has up to 120 characters, the buffer 100. So LMDB must
 * never be the first to find the disk full. When little space is left, this class extends the file before the
 * transaction: new pages are at its end, and allocated space can be written.
 */
export class PageRoom {
  readonly #root: RootDatabase
  readonly #path: string
  readonly #tables: readonly Table[]

  /**
   * @param path the environment's file
   * @param tables all tables of the environment
   */
  constructor(root: RootDatabase, path: string, tables: readonly Table[]) {
    this.#root = root
    this.#path = path
    this.#tables = tables
  }

  /**
   * @param bytesOf returns how much a transaction can need; only called when little space is left
   * @throws Error with the system's code, which `isDiskFull` recognizes, if there is not enough room
   */
  ensure(bytesOf: () => number): void {
    const { bavail, bsize } = statfsSync(this.#path)
    if (bavail * bsize >= plentyBytes) return
    const bytes = bytesOf()
    try {
      lengthen(this.#path, databaseBytes(this.#root) + bytes)
    } catch (error) {
      // LMDB uses free pages first, then pages at the end. Readers can keep some free pages from being used.
      if (this.#unusedBytes < bytes) throw error
    }
  }

  /** Bytes of the file that belong to no tree. */
  get #unusedBytes(): number {
    const stats = this.#root.getStats() as TreeStats & { readonly pageSize: number; readonly free: TreeStats }
    const used = [...this.#tables.map(({ pages }) => pages), pagesOf(stats), pagesOf(stats.free)]
    const pages = used.reduce((sum, { tree, overflow }) => sum + tree + overflow, metaPages)
    return statSync(this.#path).size - pages * stats.pageSize
  }
}

/** Extends a file to a length by writing zeros: space that is not written can still be taken by others. */
function lengthen(path: string, bytes: number): void {
  const file = openSync(path, 'r+')
  try {
    const before = fstatSync(file).size
    try {
      for (let at = before; at < bytes; ) {
        at += writeSync(file, zeros, 0, Math.min(zeros.length, bytes - at), at)
      }
    } catch (error) {
      // Other programs and smaller transactions may need the space.
      if (fstatSync(file).size > before) ftruncateSync(file, before)
      throw error
    }
  } finally {
    closeSync(file)
  }
}

const zeros = Buffer.alloc(256 * 1024)

/** More than a transaction writes and other programs use during it. */
const plentyBytes = 1024 ** 3

/** The meta pages at the beginning of every file. */
const metaPages = 2
