import { frontBytes } from '../../messages/writer.ts'

/**
 * Assembles the messages of a gRPC call from its data frames: a flag, four bytes of length, the message.
 *
 * Why not the reader of grpc-js? It accepts any number of concurrent large messages, collects the frames of each and
 * concatenates them at the end, 64 MiB in one go. Here, a message is admitted or refused by its declared length, before
 * its bytes arrive. Frames are copied to their place as they arrive; small messages are not copied at all.
 */
export class MessageReader {
  readonly #admit: (bytes: number, isCompressed: boolean) => void
  readonly #onPiece: () => void
  /** Allocated when a message arrives in pieces. */
  #head: Buffer | undefined
  #headLength = 0
  /** The incomplete message with its head; undefined while its head is incomplete. */
  #frame: Buffer | undefined
  #frameLength = 0

  /**
   * @param admit called with the declared length of each message; throws to refuse the call
   * @param onPiece called for every piece of a message that arrives in several
   */
  constructor(admit: (bytes: number, isCompressed: boolean) => void, onPiece: () => void) {
    this.#admit = admit
    this.#onPiece = onPiece
  }

  /** Returns the messages that `data` completes, with their heads. */
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

  /** Returns the message if `data` contains all of it, which is nearly always the case. */
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
      // Not from the pool, and not initialized, so that a head alone takes no physical memory for its message.
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

/** The head of a frame: a flag byte for compression and four bytes of length. A `MessageWriter` leaves room for it. */
export const headBytes: number = frontBytes

/**
 * Allocates a message of this many bytes, with room for its head in front of it, so that an answer of megabytes need not
 * be copied to add it.
 */
export function allocateMessage(bytes: number): Buffer {
  return Buffer.allocUnsafe(headBytes + bytes).subarray(headBytes)
}

/** Returns a message together with its head. @param message with `headBytes` of free memory in front of it */
export function frameOf(message: Buffer): Buffer {
  const frame = Buffer.from(message.buffer, message.byteOffset - headBytes, message.byteLength + headBytes)
  frame[0] = 0
  frame.writeUInt32BE(message.length, 1)
  return frame
}
