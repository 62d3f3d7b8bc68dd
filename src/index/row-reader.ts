import { closeSync, openSync, readSync } from 'node:fs'
import type { RowFileLayout } from './segment.ts'

/**
 * Reads rows from the store's row file, through the operating system's file cache, when rows are not kept in memory.
 * The caller must have seen the slot live. A row is written to disk before its slot becomes live.
 */
export class RowReader implements Disposable {
  readonly #layout: RowFileLayout
  readonly #dimension: number
  readonly #buffer: Buffer
  #file: number | undefined

  constructor(layout: RowFileLayout, dimension: number) {
    this.#layout = layout
    this.#dimension = dimension
    this.#buffer = Buffer.alloc(Math.max(layout.rowBytes, readBytes))
  }

  /** Maximum number of rows of one read. */
  get rowsPerRead(): number {
    return Math.max(1, Math.floor(this.#buffer.length / this.#layout.rowBytes))
  }

  /**
   * Reads the vectors of `count` slots from `slot` on into `target`, `stride` components apart.
   *
   * @param count at most `rowsPerRead`
   */
  read(slot: number, count: number, target: Float32Array, stride: number): void {
    const { path, firstVector, rowBytes } = this.#layout
    this.#file ??= openSync(path, 'r')
    const bytes = (count - 1) * rowBytes + this.#dimension * 4
    const read = readSync(this.#file, this.#buffer, 0, bytes, firstVector + slot * rowBytes)
    // Rows past the end of the file were never written, so their slots are not live.
    this.#buffer.fill(0, read, bytes)
    const target8 = new Uint8Array(target.buffer, target.byteOffset, target.byteLength)
    for (let row = 0; row < count; row += 1) {
      const from = row * rowBytes
      target8.set(this.#buffer.subarray(from, from + this.#dimension * 4), row * stride * 4)
    }
  }

  /** Closes the file. The next read opens it again. */
  [Symbol.dispose](): void {
    if (this.#file !== undefined) closeSync(this.#file)
    this.#file = undefined
  }
}

const readBytes = 256 * 1024
