import type { ByteBudget, ByteHold } from '../base/budgets.ts'
import { DatabaseError, toDatabaseError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import type { FrameSender } from './frame-sender.ts'
import { type Frame, Pieces } from './peer-frames.ts'
import type { PeerHandlers } from './peers.ts'
import { Waiters } from './waiters.ts'

export interface PeerAnswersOptions {
  /** The asking node. */
  readonly node: string
  readonly handlers: PeerHandlers
  readonly sender: FrameSender
  /** Maximum calls of this node in progress. */
  readonly callsMax: number
  /** Maximum bytes of one request. */
  readonly messageBytesMax: number
  /** Counts the answers from the first point that is read for them until they are sent. */
  readonly answerBytes?: ByteBudget | undefined
  readonly logger: Logger
}

/** Answers the calls of one stream, many in parallel. Main thread only. */
export class PeerAnswers {
  readonly #options: PeerAnswersOptions
  readonly #calls = new Map<number, AnsweredCall>()

  constructor(options: PeerAnswersOptions) {
    this.#options = options
  }

  /** @throws RangeError for a frame that no asking node sends */
  take(frame: Frame): void {
    if (frame.kind === 'ask') this.#begin(frame)
    else if (frame.kind === 'rest') this.#addPiece(this.#calls.get(frame.call), frame)
    else if (frame.kind === 'cancel') this.#calls.get(frame.call)?.cancel()
    else if (frame.kind === 'credit') this.#calls.get(frame.call)?.grant(frame.count)
    else throw new RangeError(`an asking node does not send ${frame.kind}`)
  }

  /** Cancels all calls: nobody waits for the answers any more. */
  end(): void {
    for (const call of this.#calls.values()) call.cancel()
  }

  #begin(frame: Extract<Frame, { readonly kind: 'ask' }>): void {
    const { callsMax, messageBytesMax, sender, answerBytes } = this.#options
    if (this.#calls.has(frame.call)) throw new RangeError('a call has the number of another call')
    if (this.#calls.size >= callsMax) {
      const message = `this node is already answering ${callsMax} calls of the other one (CLUSTER_MAX_PEER_CALLS)`
      sender.send({ kind: 'failure', call: frame.call, reason: 'overloaded', message })
      return
    }
    const call = new AnsweredCall(frame, messageBytesMax, answerBytes?.hold(0))
    this.#calls.set(frame.call, call)
    this.#addPiece(call, frame)
    if (!frame.isWhole) call.signal.addEventListener('abort', () => this.#giveUp(call))
  }

  /** Ends a call whose request has not arrived completely: its rest may never come. */
  #giveUp(call: AnsweredCall): void {
    // `#answer` ends it.
    if (call.isComplete) return
    this.#drop(call)
    if (!call.isCancelled) this.#fail(call, toDatabaseError(call.signal.reason))
  }

  #addPiece(
    call: AnsweredCall | undefined,
    piece: { readonly bytes: Buffer; readonly isWhole: boolean },
  ): void {
    // Refused, cancelled or too late before all of it had arrived.
    if (call === undefined) return
    const { messageBytesMax } = this.#options
    const body = call.request.add(piece)
    if (body === 'too long') {
      const message = `a request between nodes exceeds ${messageBytesMax} bytes, which depends on MAX_REQUEST_BYTES`
      this.#fail(call, new DatabaseError('request_too_large', message))
      this.#drop(call)
    } else if (body !== undefined) {
      call.isComplete = true
      void this.#answer(call, body)
    }
  }

  #fail({ number: call }: AnsweredCall, { reason, message }: DatabaseError): void {
    this.#options.sender.send({ kind: 'failure', call, reason, message })
  }

  #drop(call: AnsweredCall): void {
    call.close()
    this.#calls.delete(call.number)
  }

  async #answer(call: AnsweredCall, body: Buffer): Promise<void> {
    const { handlers, node, logger } = this.#options
    try {
      const handler = handlers.get(call.method)
      if (handler === undefined) {
        throw new DatabaseError('not_ready', `this node does not know request ${call.method} of the link yet`)
      }
      const answer = handler(body, { node, signal: call.signal, room: call.room })
      if (answer instanceof Promise) await this.#send(call, await answer, true)
      else {
        for await (const message of answer) {
          await call.waitForCredit()
          if (call.signal.aborted) break
          await this.#send(call, message, false)
        }
        await this.#send(call, noBytes, true)
      }
    } catch (thrown) {
      const error = toDatabaseError(thrown)
      if (error.reason === 'internal') {
        logger.error({ peer: node, method: call.method, err: error.cause ?? error }, error.message)
      }
      if (!call.isCancelled) this.#fail(call, error)
    } finally {
      this.#drop(call)
    }
  }

  async #send(call: AnsweredCall, message: Uint8Array, isLast: boolean): Promise<void> {
    await this.#options.sender.message(message, call.signal, ({ bytes, isWhole }) => ({
      ...{ kind: 'answer', call: call.number, isWhole, isLast },
      bytes,
    }))
    if (call.signal.aborted) throw call.signal.reason
  }
}

/** A call that is being answered. */
class AnsweredCall {
  readonly number: number
  readonly method: number
  readonly request: Pieces
  readonly room: ByteHold | undefined
  /** Whether all of the request has arrived. */
  isComplete = false
  readonly #abort = new AbortController()
  readonly #granted = new Waiters()
  readonly #timer: NodeJS.Timeout | undefined
  #credit = firstCredit
  #isCancelled = false

  constructor(
    { call, method, timeoutMs }: Extract<Frame, { readonly kind: 'ask' }>,
    requestBytesMax: number,
    room: ByteHold | undefined,
  ) {
    this.number = call
    this.method = method
    this.request = new Pieces(requestBytesMax)
    this.room = room
    if (timeoutMs === 0) return
    this.#timer = setTimeout(
      () => this.#abort.abort(new DatabaseError('deadline_exceeded', 'the deadline of the call has passed')),
      timeoutMs,
    )
  }

  get signal(): AbortSignal {
    return this.#abort.signal
  }

  get isCancelled(): boolean {
    return this.#isCancelled
  }

  cancel(): void {
    this.#isCancelled = true
    // Its handler may ignore the signal.
    this.close()
    this.#abort.abort(new DatabaseError('cancelled', 'the caller disconnected'))
  }

  grant(count: number): void {
    this.#credit += count
    this.#granted.wakeAll()
  }

  /** Resolves when the caller accepts one more message. */
  async waitForCredit(): Promise<void> {
    while (this.#credit === 0 && !this.signal.aborted) await this.#granted.wait(this.signal)
    this.#credit -= 1
  }

  close(): void {
    clearTimeout(this.#timer)
    this.room?.release()
  }
}

/** Messages of an answer that may be sent before the caller has taken the first. */
const firstCredit = 4

const noBytes = new Uint8Array()
