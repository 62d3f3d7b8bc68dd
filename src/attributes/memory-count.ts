/** Counts the bytes that the structures of an index take; a count within another one adds to it. */
export class MemoryCount {
  #parent: MemoryCount | undefined
  #bytes = 0

  constructor(parent?: MemoryCount) {
    this.#parent = parent
  }

  get bytes(): number {
    return this.#bytes
  }

  /** @param bytes negative when memory is freed */
  add(bytes: number): void {
    this.#bytes += bytes
    this.#parent?.add(bytes)
  }

  /** Everything that it counted is freed. What it counts from now on, of structures that are still read, is nobody's. */
  release(): void {
    this.add(-this.#bytes)
    this.#parent = undefined
  }
}
