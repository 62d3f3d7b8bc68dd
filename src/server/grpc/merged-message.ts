import { WireReader } from './wire.ts'

/**
 * The occurrences of one nested message, which protobuf merges. Concatenating the bytes of messages merges them, so
 * they are concatenated once, when all of them have been read.
 */
export class MergedMessage {
  readonly #parts: Buffer[] = []

  /** Whether the message is absent. An occurrence without bytes counts as present. */
  get isEmpty(): boolean {
    return this.#parts.length === 0
  }

  /** @param bytes the field's bytes in one occurrence */
  add(bytes: Buffer): void {
    this.#parts.push(bytes)
  }

  reader(): WireReader {
    return new WireReader(this.#parts.length === 1 ? this.#parts[0]! : Buffer.concat(this.#parts))
  }
}

/**
 * A oneof while its message is read. The last field counts. A message only merges with directly preceding messages of
 * the same field. A message that does not count is not decoded.
 */
export class Oneof {
  /** The number of the field that counts; 0 if there is none. */
  field = 0
  #message: MergedMessage | undefined

  /** Records a field that is not a message; from now on only this one counts. */
  setScalar(field: number): void {
    this.field = field
    this.#message = undefined
  }

  setMessage(field: number, bytes: Buffer): void {
    if (this.field !== field || this.#message === undefined) this.#message = new MergedMessage()
    this.field = field
    this.#message.add(bytes)
  }

  /** Returns a reader of the field that counts, which must be a message. */
  reader(): WireReader {
    return this.#message!.reader()
  }
}
