import { answerBytesMax, answerTooLarge } from '../api/answer-size.ts'

/** Builds an answer of unknown size from beginning to end. */
export class JsonText {
  readonly #parts: Buffer[] = []
  #bytes = 0
  #text: string

  constructor(beginning: string) {
    this.#text = beginning
  }

  /**
   * Appends text; returns true after a long stretch, when other work should have a turn.
   *
   * @throws DatabaseError `invalid_argument` for an answer that has become too large
   */
  add(text: string): boolean {
    this.#text += text
    if (this.#text.length < charactersPerPart) return false
    this.#flush()
    return true
  }

  /** Appends bytes that are already JSON. */
  addBytes(bytes: Buffer): void {
    this.#flush()
    this.#append(bytes)
  }

  finish(): Buffer {
    this.#flush()
    return this.#parts.length === 1 ? this.#parts[0]! : Buffer.concat(this.#parts, this.#bytes)
  }

  #flush(): void {
    if (this.#text !== '') this.#append(Buffer.from(this.#text))
    this.#text = ''
  }

  #append(bytes: Buffer): void {
    this.#bytes += bytes.length
    if (this.#bytes > answerBytesMax) throw answerTooLarge()
    this.#parts.push(bytes)
  }
}

/** Writing this many characters takes well under a millisecond. */
const charactersPerPart = 65_536
