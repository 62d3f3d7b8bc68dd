import { type ClientDuplexStream, type ServiceError, status } from '@grpc/grpc-js'
import type { AnswerRoom } from '../base/budgets.ts'
import { DatabaseError, type Reason, reasons, toDatabaseError } from '../base/errors.ts'
import { FrameSender } from './frame-sender.ts'
import { decodeFrame, type Frame, Pieces } from './peer-frames.ts'
import { firstHello, lastProof, type OwnName, RefusedPeer } from './peer-handshake.ts'

/** The events of a call. `failed` is called at most once, and nothing after it. */
export interface CallEvents {
  message(bytes: Buffer): void
  /** All messages have arrived. */
  ended(): void
  failed(error: DatabaseError): void
  /** Counts what arrives. When it refuses more, the call fails. */
  readonly room?: AnswerRoom | undefined
}

export interface PeerSessionOptions {
  readonly own: OwnName
  /** The node that is asked. */
  readonly node: string
  /** Maximum bytes of one answer. */
  readonly messageBytesMax: number
  /** Called when the other node has proved its identity. */
  readonly onReady: () => void
  /** Called once, with the cause of the end. */
  readonly onEnd: (cause: unknown) => void
}

interface OpenCall {
  readonly events: CallEvents
  readonly answer: Pieces
  readonly ended: AbortController
}

/** One stream to a node, from the first hello to its end. Main thread only. */
export class PeerSession {
  readonly #options: PeerSessionOptions
  readonly #stream: ClientDuplexStream<Buffer, Buffer>
  readonly #sender: FrameSender
  readonly #calls = new Map<number, OpenCall>()
  readonly #hello
  /** Sends the calls that wait until the other node has proved its identity, by number. */
  #waiting: Map<number, () => void> | undefined = new Map()
  #last = 0
  #hasEnded = false

  constructor(stream: ClientDuplexStream<Buffer, Buffer>, options: PeerSessionOptions) {
    this.#options = options
    this.#stream = stream
    this.#sender = new FrameSender(stream)
    this.#hello = firstHello(options.own)
    stream.on('data', (bytes: Buffer) => {
      try {
        this.#take(decodeFrame(bytes))
      } catch (error) {
        this.end(error)
      }
    })
    stream.on('error', (error: ServiceError) => this.end(refusalIn(error)))
    stream.on('end', () => this.end(new Error('the other node has ended the connection')))
    this.#sender.send(this.#hello)
  }

  /** Calls in progress. */
  get calls(): number {
    return this.#calls.size
  }

  /**
   * Starts a call; its events go to `events`.
   *
   * @param timeoutMs 0 for none
   * @returns the number of the call
   */
  begin(method: number, body: Uint8Array, timeoutMs: number, events: CallEvents): number {
    this.#last += 1
    const call = this.#last
    const ended = new AbortController()
    this.#calls.set(call, { events, answer: new Pieces(this.#options.messageBytesMax), ended })
    const send = (): void => {
      if (ended.signal.aborted) return
      void this.#sender.message(body, ended.signal, ({ bytes, isWhole }, number) =>
        number === 0
          ? { kind: 'ask', call, method, timeoutMs, isWhole, bytes }
          : { kind: 'rest', call, isWhole, bytes },
      )
    }
    if (this.#waiting === undefined) send()
    else this.#waiting.set(call, send)
    return call
  }

  /** Cancels a call: its answer is no longer wanted. */
  cancel(call: number): void {
    if (this.#close(call) === undefined) return
    // The other node refuses a `cancel` before the proof, and has not received the call.
    if (this.#waiting === undefined) this.#sender.send({ kind: 'cancel', call })
    else this.#waiting.delete(call)
  }

  /** Accepts more messages of the answer to a call. */
  grant(call: number, count: number): void {
    if (this.#calls.has(call)) this.#sender.send({ kind: 'credit', call, count })
  }

  /** Ends the stream and fails its calls. Idempotent. */
  end(cause: unknown): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#stream.cancel()
    this.#options.onEnd(cause)
    for (const call of [...this.#calls.keys()])
      this.#close(call)!.events.failed(unreachable(this.#options.node, cause))
  }

  #take(frame: Frame): void {
    switch (frame.kind) {
      case 'hello': {
        if (this.#waiting === undefined) throw new RangeError('a second hello')
        const { own, node } = this.#options
        this.#sender.send({ kind: 'proof', proof: lastProof(own, this.#hello, frame, node) })
        const waiting = this.#waiting
        this.#waiting = undefined
        this.#options.onReady()
        for (const send of waiting.values()) send()
        return
      }
      case 'answer':
        this.#answer(frame)
        return
      case 'failure':
        this.#close(frame.call)?.events.failed(errorOf(frame.reason, frame.message))
        return
      default:
        throw new RangeError(`an answering node does not send ${frame.kind}`)
    }
  }

  #answer({ call, isWhole, isLast, bytes }: Extract<Frame, { readonly kind: 'answer' }>): void {
    const open = this.#calls.get(call)
    // Cancelled while this frame was on its way.
    if (open === undefined) return
    try {
      open.events.room?.add(bytes.length)
    } catch (error) {
      this.cancel(call)
      open.events.failed(toDatabaseError(error))
      return
    }
    const message = open.answer.add({ bytes, isWhole })
    if (message === undefined) return
    if (message === 'too long') {
      const { node, messageBytesMax } = this.#options
      this.cancel(call)
      open.events.failed(
        new DatabaseError('request_too_large', `the answer of node ${node} exceeds ${messageBytesMax} bytes`),
      )
      return
    }
    if (isLast) this.#close(call)
    if (!isLast || message.length > 0) open.events.message(message)
    if (isLast) open.events.ended()
  }

  #close(call: number): OpenCall | undefined {
    const open = this.#calls.get(call)
    this.#calls.delete(call)
    open?.ended.abort()
    return open
  }
}

export function unreachable(node: string, cause?: unknown): DatabaseError {
  return new DatabaseError('not_ready', `node ${node} of the cluster cannot be reached: try again later`, {
    cause,
  })
}

function errorOf(reason: string, message: string): DatabaseError {
  // A later program may have reasons that this one does not know.
  return new DatabaseError(Object.hasOwn(reasons, reason) ? (reason as Reason) : 'internal', message)
}

/** The other node's own message, if it has refused this one. */
function refusalIn(error: ServiceError): Error {
  return error.code === status.FAILED_PRECONDITION ? new RefusedPeer(error.details) : error
}
