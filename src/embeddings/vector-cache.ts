/** The embeddings of the texts that were used last, by the hash of the text. The bytes they take are bounded. */
export class VectorCache {
  readonly #maxBytes: number
  /** In the order of their last use: a Map keeps the order in which its keys were set. */
  readonly #vectors = new Map<string, Float32Array>()
  #bytes = 0

  /** @param maxBytes 0 to keep nothing */
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

/** The components, and about what an entry takes besides: its key, the objects of the array, its place in the Map. */
function bytesOf({ byteLength }: Float32Array): number {
  return byteLength + 300
}
