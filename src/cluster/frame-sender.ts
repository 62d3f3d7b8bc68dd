import { encodeFrame, type Frame, piecesOf } from './peer-frames.ts'
import { Waiters } from './waiters.ts'

/** A grpc-js stream, in either direction. */
export interface MessageStream {
  /** Returns false when the message is buffered in memory. */
  write(message: Buffer): boolean
  on(event: 'drain' | 'close' | 'end' | 'error', listener: () => void): unknown
}

/** Sends frames on one stream. Messages wait between their pieces while the other side does not read. */
export class FrameSender {
  readonly #stream: MessageStream
  readonly #passed = new Waiters()
  readonly #ended = new AbortController()
  #isFull = false

  constructor(stream: MessageStream) {
    this.#stream = stream
    stream.on('drain', () => {
      this.#isFull = false
      this.#passed.wakeAll()
    })
    for (const event of ['close', 'end', 'error'] as const) stream.on(event, () => this.#ended.abort())
  }

  send(frame: Frame): void {
    if (this.#ended.signal.aborted) return
    if (!this.#stream.write(encodeFrame(frame))) this.#isFull = true
  }

  /**
   * Sends a message in pieces. Resolves when the last one is written, or when the call or the stream has ended.
   *
   * @param frame makes the frame of a piece with its number
   */
  async message(
    bytes: Uint8Array,
    signal: AbortSignal,
    frame: (piece: { readonly bytes: Buffer; readonly isWhole: boolean }, number: number) => Frame,
  ): Promise<void> {
    let number = 0
    for (const piece of piecesOf(bytes)) {
      // Other calls get their turn between two pieces.
      while (this.#isFull && number > 0 && !this.#isOver(signal)) {
        await this.#passed.wait(AbortSignal.any([signal, this.#ended.signal]))
      }
      if (this.#isOver(signal)) return
      this.send(frame(piece, number))
      number += 1
    }
  }

  #isOver(signal: AbortSignal): boolean {
    return signal.aborted || this.#ended.signal.aborted
  }
}
