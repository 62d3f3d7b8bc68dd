import { closeSync, fstatSync, ftruncateSync, openSync, statfsSync, statSync, writeSync } from 'node:fs'
import type { RootDatabase } from 'lmdb'
import { databaseBytes } from './environment.ts'
import { pagesOf, type Table, type TreeStats } from './table.ts'

/**
 * Sees to it that LMDB has room for what a transaction writes. The package `lmdb` 3.5 writes past a buffer when a page cannot be
 * written because the disk is full: it reports that in up to 120 characters, for which it has 100. So LMDB must not be
 * the one to find out. Where little space is left, its file is made longer first: new pages are at its end, and what is
 * there already can be written.
 */
export class PageRoom {
  readonly #root: RootDatabase
  readonly #path: string
  readonly #tables: readonly Table[]

  /**
   * @param path of the environment's file
   * @param tables all of it
   */
  constructor(root: RootDatabase, path: string, tables: readonly Table[]) {
    this.#root = root
    this.#path = path
    this.#tables = tables
  }

  /**
   * @param bytesOf what a transaction can need; asked for only where little space is left
   * @throws Error with the code of the system, as `isDiskFull` knows it, when there is no room for so much
   */
  ensure(bytesOf: () => number): void {
    const { bavail, bsize } = statfsSync(this.#path)
    if (bavail * bsize >= plentyBytes) return
    const bytes = bytesOf()
    try {
      lengthen(this.#path, databaseBytes(this.#root) + bytes)
    } catch (error) {
      // LMDB takes free pages first, and then those at the end. Readers can hold some of them back.
      if (this.#unusedBytes < bytes) throw error
    }
  }

  /** Of the file, in none of its trees. */
  get #unusedBytes(): number {
    const stats = this.#root.getStats() as TreeStats & { readonly pageSize: number; readonly free: TreeStats }
    const used = [...this.#tables.map(({ pages }) => pages), pagesOf(stats), pagesOf(stats.free)]
    const pages = used.reduce((sum, { tree, overflow }) => sum + tree + overflow, metaPages)
    return statSync(this.#path).size - pages * stats.pageSize
  }
}

/** Writes zeros from the end of a file on, up to a length: space that is only promised can be somebody else's later. */
function lengthen(path: string, bytes: number): void {
  const file = openSync(path, 'r+')
  try {
    const before = fstatSync(file).size
    try {
      for (let at = before; at < bytes; ) {
        at += writeSync(file, zeros, 0, Math.min(zeros.length, bytes - at), at)
      }
    } catch (error) {
      // Others, and smaller transactions, may need it.
      if (fstatSync(file).size > before) ftruncateSync(file, before)
      throw error
    }
  } finally {
    closeSync(file)
  }
}

const zeros = Buffer.alloc(256 * 1024)

/** More than any transaction writes, and than others take away while one is written. */
const plentyBytes = 1024 ** 3

/** At the beginning of every file. */
const metaPages = 2
