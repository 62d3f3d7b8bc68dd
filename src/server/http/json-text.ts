import { answerBytesMax, answerTooLarge } from '../../api/answer-size.ts'
import type { AnswerRoom } from '../../base/byte-budget.ts'

/** Builds an answer of unknown size from beginning to end. */
export class JsonText {
  readonly #parts: Buffer[] = []
  readonly #room: AnswerRoom | undefined
  #bytes = 0
  #text: string

  /** @param room counts the answer as it grows */
  constructor(beginning: string, room?: AnswerRoom) {
    this.#text = beginning
    this.#room = room
  }

  /**
   * Appends text; returns true after a long stretch, when other work should have a turn.
   *
   * @throws DatabaseError `invalid_argument` for an answer that has become too large, `overloaded`
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
    if (this.#parts.length === 1) return this.#parts[0]!
    this.#room?.add(this.#bytes)
    return Buffer.concat(this.#parts, this.#bytes)
  }

  #flush(): void {
    if (this.#text !== '') this.#append(Buffer.from(this.#text))
    this.#text = ''
  }

  #append(bytes: Buffer): void {
    this.#bytes += bytes.length
    if (this.#bytes > answerBytesMax) throw answerTooLarge()
    this.#room?.add(bytes.length)
    this.#parts.push(bytes)
  }
}

/** Writing this many characters takes well under a millisecond. */
const charactersPerPart = 65_536
