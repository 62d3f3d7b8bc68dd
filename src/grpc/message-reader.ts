import { headBytes } from './frames.ts'

/**
 * Puts the messages of a gRPC call together from its data frames: a flag, four bytes of length, the message.
 *
 * Why not the one of grpc-js: it takes in any number of large messages at once, collects the frames of each and
 * copies them together at the end, 64 MiB in one go. Here a message is asked for leave by its declared length,
 * before it comes, and its bytes go to their place as they come; small ones are not copied at all.
 */
export class MessageReader {
  readonly #admit: (bytes: number, isCompressed: boolean) => void
  readonly #onPiece: () => void
  /** Made when a message comes in pieces. */
  #head: Buffer | undefined
  #headLength = 0
  /** The message under way with its head; undefined while its head is. */
  #frame: Buffer | undefined
  #frameLength = 0

  /**
   * @param admit told the length of each message by its head; what it throws refuses the call
   * @param onPiece told of every piece of a message that does not come whole
   */
  constructor(admit: (bytes: number, isCompressed: boolean) => void, onPiece: () => void) {
    this.#admit = admit
    this.#onPiece = onPiece
  }

  /** The messages that `data` completes, with their heads. */
  write(data: Buffer): Buffer[] {
    const messages: Buffer[] = []
    for (let at = 0; at < data.length; ) {
      if (this.#frame === undefined) {
        const whole = this.#headLength === 0 ? this.#wholeAt(data, at) : undefined
        if (whole !== undefined) messages.push(whole)
        at += whole?.length ?? this.#takeHead(data, at)
      } else {
        at += this.#takeBody(this.#frame, data, at)
      }
      const message = this.#completed()
      if (message !== undefined) messages.push(message)
    }
    return messages
  }

  /** A message that is all in `data`, as nearly all are. */
  #wholeAt(data: Buffer, at: number): Buffer | undefined {
    if (data.length - at < headBytes) return undefined
    const length = data.readUInt32BE(at + 1)
    if (data.length - at < headBytes + length) return undefined
    this.#admit(length, data[at] !== 0)
    return data.subarray(at, at + headBytes + length)
  }

  #takeHead(data: Buffer, at: number): number {
    this.#head ??= Buffer.alloc(headBytes)
    const taken = data.copy(this.#head, this.#headLength, at, at + headBytes - this.#headLength)
    this.#headLength += taken
    if (this.#headLength === headBytes) {
      const length = this.#head.readUInt32BE(1)
      this.#admit(length, this.#head[0] !== 0)
      // Not from the pool, and not touched before bytes come: a head alone takes no memory.
      this.#frame = Buffer.allocUnsafeSlow(headBytes + length)
      this.#frameLength = this.#head.copy(this.#frame)
    }
    return taken
  }

  #takeBody(frame: Buffer, data: Buffer, at: number): number {
    this.#onPiece()
    const taken = data.copy(frame, this.#frameLength, at)
    this.#frameLength += taken
    return taken
  }

  #completed(): Buffer | undefined {
    const frame = this.#frame
    if (frame === undefined || this.#frameLength < frame.length) return undefined
    this.#frame = undefined
    this.#headLength = 0
    return frame
  }
}
