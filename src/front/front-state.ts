import type { WritesBlocked } from '../base/writes-blocked.ts'

/** What every front has to know of the engine at any moment, in shared memory: the main thread alone writes it. */
export class FrontState {
  readonly buffer: SharedArrayBuffer
  readonly #words: Int32Array

  constructor(buffer: SharedArrayBuffer = new SharedArrayBuffer(12)) {
    this.buffer = buffer
    this.#words = new Int32Array(buffer)
  }

  /** Whether the stored points are loaded. */
  get isReady(): boolean {
    return Atomics.load(this.#words, words.isReady) === 1
  }

  /** Length of every vector; undefined until the first insert fixes it. */
  get dimension(): number | undefined {
    return Atomics.load(this.#words, words.dimension) || undefined
  }

  get writesBlocked(): WritesBlocked | undefined {
    return blockedCodes[Atomics.load(this.#words, words.writesBlocked)]
  }

  setReady(): void {
    Atomics.store(this.#words, words.isReady, 1)
  }

  setDimension(dimension: number | undefined): void {
    Atomics.store(this.#words, words.dimension, dimension ?? 0)
  }

  setWritesBlocked(reason: WritesBlocked | undefined): void {
    Atomics.store(this.#words, words.writesBlocked, blockedCodes.indexOf(reason))
  }
}

const words = { isReady: 0, dimension: 1, writesBlocked: 2 } as const

const blockedCodes: readonly (WritesBlocked | undefined)[] = [undefined, 'disk_full', 'disk_failed']
