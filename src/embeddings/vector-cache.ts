/** An LRU cache of embeddings by the hash of the text, with a limit in bytes. */
export class VectorCache {
  readonly #maxBytes: number
  /** In the order of their last use, because a Map keeps the order in which its keys were set. */
  readonly #vectors = new Map<string, Float32Array>()
  #bytes = 0

  /** @param maxBytes 0 disables the cache */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  get bytes(): number {
    return this.#bytes
  }

  get(key: string): Float32Array | undefined {
    const vector = this.#vectors.get(key)
    if (vector === undefined) return undefined
    this.#vectors.delete(key)
    this.#vectors.set(key, vector)
    return vector
  }

  set(key: string, vector: Float32Array): void {
    this.#delete(key)
    if (bytesOf(vector) > this.#maxBytes) return
    this.#vectors.set(key, vector)
    this.#bytes += bytesOf(vector)
    for (const oldest of this.#vectors.keys()) {
      if (this.#bytes <= this.#maxBytes) return
      this.#delete(oldest)
    }
  }

  #delete(key: string): void {
    const vector = this.#vectors.get(key)
    if (vector === undefined) return
    this.#vectors.delete(key)
    this.#bytes -= bytesOf(vector)
  }
}

/**
 * Returns the size of an entry: the components, and an estimate for the key, the array's objects and the Map's entry.
 */
function bytesOf({ byteLength }: Float32Array): number {
  return byteLength + 300
}
