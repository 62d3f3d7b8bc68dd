import { EventEmitter } from 'node:events'
import { constants, type Http2Session, type ServerHttp2Stream } from 'node:http2'
import { Metadata, type ServerInterceptingCallInterface, type StatusObject, status } from '@grpc/grpc-js'
import { assert } from '../base/assert.ts'
import type { BodyBudgets, ByteHold } from '../base/byte-budget.ts'
import { DatabaseError, reasons } from '../base/errors.ts'
import type { ReadScheduler } from '../base/read-scheduler.ts'
import { frameOf } from './frames.ts'
import { MessageReader } from './message-reader.ts'

/**
 * Bodies of requests and answers in memory, which many slow or hostile clients together could exhaust: each counts
 * towards a budget from the head that announces its length until it is no longer needed.
 *
 *   head ─> declared length held ─> bytes arrive ─> decoded ─> answer held ─> sent
 *               └ RESOURCE_EXHAUSTED    └ too slow:  └ released   └ released; reset when
 *                                         DEADLINE_EXCEEDED         the client does not read
 */
export interface BodyBounds {
  readonly maxRequestBytes: number
  /** Time a client has to send a whole request, and to receive a whole answer. */
  readonly requestTimeoutMs: number
  readonly budgets: BodyBudgets
  readonly readScheduler: ReadScheduler
}

/** A request as the handlers of operations receive it. */
export interface ReceivedRequest {
  /** Returns the bytes and keeps no reference: they can be freed as soon as the caller is done with them. */
  take(): Buffer
  /** Call when the bytes are no longer needed. */
  release(): void
  /** Holds the answer until it is sent. @throws DatabaseError `overloaded` */
  holdAnswer(bytes: number): void
}

/**
 * The parts of grpc-js's call that we use beyond its public interface. No public hook sees a message before it is
 * complete, accepts one that is already framed, or can end a stream whose client does not read; the version is pinned,
 * and tests fail when this changes.
 */
interface OwnCall extends ServerInterceptingCallInterface {
  decoder: { write(data: Buffer): Buffer[] }
  serializeMessage(message: Buffer): Buffer
  readonly stream: ServerHttp2Stream
}

export type OutgoingStatus = Parameters<ServerInterceptingCallInterface['sendStatus']>[0]

/**
 * Bounds the body of a call from here on.
 *
 * @param call of grpc-js, which the first interceptor receives
 * @param isOperation whether its method is one of ours, whose handlers receive a `ReceivedRequest`
 * @param reword replaces the status of calls that grpc-js itself refuses, past the interceptors
 */
export function boundBody(
  call: ServerInterceptingCallInterface,
  bounds: BodyBounds,
  isOperation: boolean,
  reword: (outcome: OutgoingStatus) => OutgoingStatus,
): CallBody {
  const own = call as OwnCall
  if (!isOperation) return new OtherBody(own, { ...bounds, maxRequestBytes: otherBytesMax }, reword)
  assert('serializeMessage' in own, 'grpc-js lets us frame messages')
  // The codec leaves room for the frame: grpc-js would copy the answer to put one in front.
  own.serializeMessage = frameOf
  return new CallBody(own, bounds, reword)
}

/** The memory of one call. */
export class CallBody implements ReceivedRequest {
  readonly #call: OwnCall
  readonly #bounds: BodyBounds
  #bytes: Buffer | undefined
  #requestHold: ByteHold | undefined
  #answerHold: ByteHold | undefined
  #timer: NodeJS.Timeout | undefined
  #refusal: DatabaseError | undefined
  #hasEnded = false

  constructor(call: OwnCall, bounds: BodyBounds, reword: (outcome: OutgoingStatus) => OutgoingStatus) {
    assert('decoder' in call && 'stream' in call, 'grpc-js lets us at its decoder and stream')
    this.#call = call
    this.#bounds = bounds
    openWindows(call.stream.session)
    call.stream.on('close', detachListeners)
    call.decoder = new MessageReader(
      (bytes, isCompressed) => this.#admit(bytes, isCompressed),
      () => bounds.readScheduler.noteWork(),
    )
    const send = call.sendStatus.bind(call)
    call.sendStatus = (outcome) => {
      if (this.#refusal === undefined) return send(reword(outcome))
      send(statusOf(this.#refusal))
      this.#stopUpload()
    }
  }

  /** Ends the call if the request does not arrive in time. */
  startRequestTimer(): void {
    this.#startTimer(() => {
      const { requestTimeoutMs } = this.#bounds
      const details = `the request did not arrive within ${requestTimeoutMs} ms (REQUEST_TIMEOUT_MS)`
      this.#call.sendStatus({ code: status.DEADLINE_EXCEEDED, details })
      this.#stopUpload()
    })
  }

  /** Takes the complete request; returns what the handler receives. */
  received(message: Buffer): ReceivedRequest | Buffer {
    this.#stopTimer()
    this.#bytes = message
    // A compressed message counts with its largest possible size until the actual one is known.
    this.#requestHold?.resize(message.length)
    return this
  }

  take(): Buffer {
    const bytes = this.#bytes
    assert(bytes !== undefined, 'a request is taken once')
    this.#bytes = undefined
    return bytes
  }

  release(): void {
    this.#requestHold?.release()
    this.#requestHold = undefined
  }

  holdAnswer(bytes: number): void {
    if (this.#hasEnded) return
    this.#answerHold = this.#bounds.budgets.answers.hold(bytes)
    this.#startTimer(() => this.#call.stream.close(constants.NGHTTP2_CANCEL))
  }

  /** The answer is sent, or its caller has gone. */
  end(): void {
    this.#hasEnded = true
    this.#stopTimer()
    this.#bytes = undefined
    this.release()
    this.#answerHold?.release()
  }

  /** @throws DatabaseError whose message is sent to the caller */
  #admit(bytes: number, isCompressed: boolean): void {
    const { maxRequestBytes, budgets } = this.#bounds
    try {
      if (bytes > maxRequestBytes) throw tooLarge(maxRequestBytes)
      const claim = isCompressed ? Math.min(maxRequestBytes, bytes * compressionMax) : bytes
      const before = this.#requestHold?.bytes ?? 0
      this.#requestHold ??= budgets.requests.hold(claim)
      this.#requestHold.resize(before + claim)
    } catch (error) {
      this.#refusal = error as DatabaseError
      throw error
    }
  }

  /** Before a client counts as late, the bytes that arrived while the event loop was busy are read. */
  #startTimer(onLate: () => void): void {
    const timer = setTimeout(() => {
      setImmediate(() => {
        if (this.#timer === timer) onLate()
      })
    }, this.#bounds.requestTimeoutMs)
    this.#timer = timer
  }

  #stopTimer(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  /** Tells the client to stop sending its request; what still arrives is discarded. */
  #stopUpload(): void {
    this.#call.stream.close(constants.NGHTTP2_NO_ERROR)
  }
}

/**
 * Lets a client send more before it needs an acknowledgement than HTTP/2's default of 64 KiB, with which a batch would wait
 * for the event loop every few dozen vectors. The budget bounds what arrives, not the windows. grpc-js has no option for it.
 */
function openWindows(session: Http2Session | undefined): void {
  if (session === undefined || session.destroyed || opened.has(session)) return
  opened.add(session)
  session.setLocalWindowSize(connectionWindow)
  session.settings({ initialWindowSize: streamWindow })
}

const opened = new WeakSet<Http2Session>()
const streamWindow = 1024 * 1024
const connectionWindow = 8 * streamWindow

/**
 * Detaches a finished stream from its call. V8's minor GCs treat the streams of node:http2 as alive, so that each is only
 * freed by a major one, and with it everything its listeners reference: a call, its request and its answer.
 */
function detachListeners(this: ServerHttp2Stream): void {
  // The stream itself listens to what is removed: without that listener, first, all others go in one step.
  removeAllListeners.call(this, 'removeListener')
  removeAllListeners.call(this)
  // An error without a listener would end the process.
  on.call(this, 'error', ignore)
}

/** Those of streams also bring their reading up to date, which has ended. */
const { removeAllListeners, on } = EventEmitter.prototype

function ignore(): void {}

/** The body of a call to health or reflection, whose handlers expect plain bytes. */
class OtherBody extends CallBody {
  override received(message: Buffer): Buffer {
    super.received(message)
    this.release()
    return message
  }
}

export function statusOf(error: DatabaseError): StatusObject {
  const metadata = new Metadata()
  if (error.reason === 'overloaded') metadata.set('retry-after-ms', '1000')
  return { code: reasons[error.reason].grpc, details: error.message, metadata }
}

function tooLarge(maxRequestBytes: number): DatabaseError {
  return new DatabaseError(
    'request_too_large',
    `the request is larger than ${maxRequestBytes} bytes (MAX_REQUEST_BYTES)`,
  )
}

/** Requests to health and reflection hold only names of services and files. */
const otherBytesMax = 65_536

/** The highest compression ratio of deflate. */
const compressionMax = 1032
