/** Reads pieces of a given size from chunks of any size. */
export class ByteSource {
  readonly #chunks: AsyncIterator<Uint8Array>
  readonly #refused: (fault: string) => Error
  #pieces: Buffer[] = []
  #available = 0
  /** Bytes taken so far. */
  position = 0

  /** @param refused creates the error for chunks that end too early */
  constructor(chunks: AsyncIterable<Uint8Array>, refused: (fault: string) => Error) {
    this.#chunks = chunks[Symbol.asyncIterator]()
    this.#refused = refused
  }

  /** Takes the next `length` bytes: a view, if they are in one chunk. */
  async take(length: number): Promise<Buffer> {
    while (this.#available < length) {
      if (!(await this.#more())) {
        throw this.#refused(`it is cut off at byte ${this.position + this.#available}`)
      }
    }
    const all = this.#pieces.length === 1 ? this.#pieces[0]! : Buffer.concat(this.#pieces)
    this.#pieces = [all.subarray(length)]
    this.#available -= length
    this.position += length
    return all.subarray(0, length)
  }

  /** Yields everything after the pieces that were taken, as it arrives. */
  async *rest(): AsyncGenerator<Uint8Array> {
    try {
      do {
        const pieces = this.#pieces.splice(0)
        this.#available = 0
        yield* pieces
      } while (await this.#more())
    } finally {
      await this.close()
    }
  }

  async isAtEnd(): Promise<boolean> {
    while (this.#available === 0) if (!(await this.#more())) return true
    return false
  }

  async close(): Promise<void> {
    await this.#chunks.return?.()
  }

  async #more(): Promise<boolean> {
    const { value, done } = await this.#chunks.next()
    if (done) return false
    this.#pieces.push(Buffer.from(value.buffer, value.byteOffset, value.byteLength))
    this.#available += value.byteLength
    return true
  }
}
