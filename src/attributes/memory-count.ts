/** Counts the bytes that the structures of an index use. A count with a parent also adds to its parent. */
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

  /** Subtracts all bytes and detaches from the parent, so that later changes of the freed structures do not count. */
  release(): void {
    this.add(-this.#bytes)
    this.#parent = undefined
  }
}
