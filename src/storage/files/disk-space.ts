import { randomBytes } from 'node:crypto'
import {
  closeSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  rmSync,
  statfsSync,
  statSync,
  writeSync,
} from 'node:fs'
import type { RootDatabase } from 'lmdb'
import { pagesOf, type Table, type TreeStats } from '../table.ts'
import { databaseBytes } from './environment.ts'

/**
 * Ensures that LMDB has room for the pages that a transaction writes. If a page cannot be written because the disk is
 * full, the package `lmdb` 3.5 writes past a buffer: its message has up to 120 characters, the buffer 100. So LMDB must
 * never be the first to find the disk full. When little space is left, this class extends the file before the
 * transaction: new pages are at its end, and allocated space can be written.
 */
export class PageSpace {
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
   * @param needsOf returns how much a transaction can need; only called when little space is left
   * @param mayReuse whether pages within the file may have to do, because there is no space to extend it
   * @throws Error with the system's code, which `isDiskFull` recognizes, if there is not enough room
   */
  ensure(needsOf: () => SpaceNeeds, mayReuse = true): void {
    const { bavail, bsize } = statfsSync(this.#path)
    if (bavail * bsize >= plentyBytes) return
    const { bytes, runBytes = 0 } = needsOf()
    const end = databaseBytes(this.#root)
    try {
      lengthen(this.#path, end + bytes)
    } catch (error) {
      // LMDB uses free pages first, then pages at the end. But it cannot use those that the last transactions freed or
      // a reader holds, hence twice as many, and a value of several pages needs adjacent ones: only the end is certain.
      if (!mayReuse || this.#unusedBytes < 2 * bytes) throw error
      lengthen(this.#path, end + runBytes)
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

/** Upper estimates of the space for a transaction. */
export interface SpaceNeeds {
  readonly bytes: number
  /** Of these, for values of several pages. */
  readonly runBytes?: number
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

/**
 * Reserved disk space: a file whose content has no meaning. On a full disk LMDB cannot even delete, because it writes
 * new pages before it frees old ones. Giving up the reserve lets deletions succeed. It is reserved again immediately,
 * as far as there is space, so that insertions only get the space that deletions have freed.
 */
export class ReserveFile {
  readonly #path: string
  #heldBytes = 0
  #lastTryMs = Number.NEGATIVE_INFINITY

  constructor(path: string) {
    this.#path = path
  }

  /** Frees the space, if any is reserved. */
  giveUp(): void {
    if (this.#heldBytes === 0) return
    rmSync(this.#path, { force: true })
    this.#heldBytes = 0
    this.#lastTryMs = Number.NEGATIVE_INFINITY
  }

  /**
   * Reserves the missing space, or as much of it as possible. Until all is reserved, it tries at most once a second.
   */
  hold(): void {
    if (this.#heldBytes >= reserveBytes || performance.now() - this.#lastTryMs < retryMs) return
    this.#lastTryMs = performance.now()
    try {
      this.#heldBytes = grow(this.#path)
    } catch {
      // Not even an empty file could be created: nothing is reserved, as on a disk that was full at the start.
      this.#heldBytes = 0
    }
  }
}

function grow(path: string): number {
  const file = openSync(path, 'a', 0o600)
  try {
    try {
      // Not zeros: a compressing file system would reserve no space for them.
      while (missingBytes(file) > 0) writeSync(file, randomBytes(Math.min(missingBytes(file), chunkBytes)))
      fsyncSync(file)
    } catch {
      // The disk is full: the reserve is as large as possible. Its content does not matter.
    }
    return fstatSync(file).size
  } finally {
    closeSync(file)
  }
}

function missingBytes(file: number): number {
  return reserveBytes - fstatSync(file).size
}

/** A deletion writes a few 4 KiB pages. This is enough for the deletions of a large group. */
const reserveBytes = 4 * 1024 * 1024
const chunkBytes = 256 * 1024
const retryMs = 1000
