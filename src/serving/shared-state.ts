/**
 * What every serving thread must know of the engine at any time, in shared memory. Only the engine's thread writes.
 *
 *   ├ isReady ┼ dimension ┼ catalog ┤
 */
export class SharedState {
  readonly memory: SharedArrayBuffer
  readonly #words: Int32Array

  constructor(memory: SharedArrayBuffer = new SharedArrayBuffer(3 * Int32Array.BYTES_PER_ELEMENT)) {
    this.memory = memory
    this.#words = new Int32Array(memory)
  }

  /** Whether the points are loaded. */
  get isReady(): boolean {
    return Atomics.load(this.#words, 0) === 1
  }

  setReady(): void {
    Atomics.store(this.#words, 0, 1)
  }

  /** The dimension of the default collection; undefined until its first insert. */
  get dimension(): number | undefined {
    return Atomics.load(this.#words, 1) || undefined
  }

  set dimension(dimension: number | undefined) {
    Atomics.store(this.#words, 1, dimension ?? 0)
  }

  /** Changes whenever a collection or an alias may have changed: what was known of them is out of date. */
  get catalog(): number {
    return Atomics.load(this.#words, 2)
  }

  noteCatalog(): void {
    Atomics.add(this.#words, 2, 1)
  }
}
