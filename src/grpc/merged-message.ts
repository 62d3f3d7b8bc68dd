import { WireReader } from './wire.ts'

/**
 * The occurrences of one nested message. Protobuf merges them, and the merger of messages is their bytes one after the other:
 * they are joined once, when all of them have come.
 */
export class MergedMessage {
  readonly #parts: Buffer[] = []

  /** Whether the message has not come: an empty one has. */
  get isEmpty(): boolean {
    return this.#parts.length === 0
  }

  /** @param bytes the field's, of one occurrence */
  add(bytes: Buffer): void {
    this.#parts.push(bytes)
  }

  reader(): WireReader {
    return new WireReader(this.#parts.length === 1 ? this.#parts[0]! : Buffer.concat(this.#parts))
  }
}

/**
 * A oneof while its message is read: the field that came last counts, and messages only merge with those of the same field
 * that came directly before. A message that does not count is not read at all.
 */
export class Oneof {
  /** The number of the field that counts; 0 for none. */
  field = 0
  #message: MergedMessage | undefined

  /** A field that is no message came: it is the only one that counts now. */
  setScalar(field: number): void {
    this.field = field
    this.#message = undefined
  }

  setMessage(field: number, bytes: Buffer): void {
    if (this.field !== field || this.#message === undefined) this.#message = new MergedMessage()
    this.field = field
    this.#message.add(bytes)
  }

  /** Of a field that is a message. */
  reader(): WireReader {
    return this.#message!.reader()
  }
}
