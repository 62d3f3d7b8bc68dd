import { randomBytes } from 'node:crypto'
import { closeSync, fstatSync, fsyncSync, openSync, rmSync, writeSync } from 'node:fs'

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

  /** Frees the space. Returns false if none was reserved. */
  giveUp(): boolean {
    if (this.#heldBytes === 0) return false
    rmSync(this.#path, { force: true })
    this.#heldBytes = 0
    this.#lastTryMs = Number.NEGATIVE_INFINITY
    return true
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
