import { constants, type Http2Session, type ServerHttp2Stream } from 'node:http2'
import { Metadata, type ServerInterceptingCallInterface, type StatusObject, status } from '@grpc/grpc-js'
import { assert } from '../base/assert.ts'
import type { BodyBudgets, ByteHold } from '../base/byte-budget.ts'
import { DatabaseError, reasons } from '../base/errors.ts'
import type { Intake } from '../base/intake.ts'
import { frameOf } from './frames.ts'
import { MessageReader } from './message-reader.ts'

/**
 * Bodies of requests and answers in memory, which many slow or hostile clients together would fill: each is
 * held in a budget from the head that announces it until nobody needs it.
 *
 *   head ─> declared length held ─> bytes arrive ─> decoded ─> answer held ─> sent
 *               └ RESOURCE_EXHAUSTED    └ too slow:  └ released   └ released; reset when
 *                                         DEADLINE_EXCEEDED         the client does not read
 */
export interface BodyBounds {
  readonly maxRequestBytes: number
  /** Time a client has to send a whole request, and to take in a whole answer. */
  readonly requestTimeoutMs: number
  readonly budgets: BodyBudgets
  readonly intake: Intake
}

/** A request as handlers of operations get it. */
export interface ReceivedRequest {
  /** Hands the bytes over: they can go as soon as whoever has them is through. */
  take(): Buffer
  /** The bytes are not needed any more. */
  release(): void
  /** Holds the answer until it is sent. @throws DatabaseError `overloaded` */
  holdAnswer(bytes: number): void
}

/**
 * What there is of grpc-js's own call beyond its interface. No public hook sees a message before it is whole,
 * takes one that is framed already, or can end a stream whose client does not read; the version is pinned, and tests
 * fail when this changes.
 */
interface OwnCall extends ServerInterceptingCallInterface {
  decoder: { write(data: Buffer): Buffer[] }
  serializeMessage(message: Buffer): Buffer
  readonly stream: ServerHttp2Stream
}

export type OutgoingStatus = Parameters<ServerInterceptingCallInterface['sendStatus']>[0]

/**
 * The body of a call, bounded from here on.
 *
 * @param call grpc-js's own, which the first of the interceptors gets
 * @param isOperation whether its method is one of ours, whose handlers get a `ReceivedRequest`
 * @param reword gives what grpc-js refuses of itself, past the interceptors, our words
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
  // The codec leaves room for the frame: grpc-js would copy the answer behind one.
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
    call.stream.on('close', letGo)
    call.decoder = new MessageReader(
      (bytes, isCompressed) => this.#admit(bytes, isCompressed),
      () => bounds.intake.note(),
    )
    const send = call.sendStatus.bind(call)
    call.sendStatus = (outcome) => {
      if (this.#refusal === undefined) return send(reword(outcome))
      send(statusOf(this.#refusal))
      this.#stopUpload()
    }
  }

  /** The request has to be here in time. */
  expect(): void {
    this.#startTimer(() => {
      const { requestTimeoutMs } = this.#bounds
      const details = `the request did not arrive within ${requestTimeoutMs} ms (REQUEST_TIMEOUT_MS)`
      this.#call.sendStatus({ code: status.DEADLINE_EXCEEDED, details })
      this.#stopUpload()
    })
  }

  /** Takes in the whole request; gives what the handler gets. */
  received(message: Buffer): ReceivedRequest | Buffer {
    this.#stopTimer()
    this.#bytes = message
    // What was compressed is held as what it might have become until it is known.
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

  /** @throws DatabaseError; its words go out as the refusal's */
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

  /** What has arrived while the event loop was busy is read before anybody is called late. */
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

  /** Tells the client that the rest of its request is not wanted; what comes all the same is passed over. */
  #stopUpload(): void {
    this.#call.stream.close(constants.NGHTTP2_NO_ERROR)
  }
}

/**
 * Lets a client send more before it hears from us than HTTP/2's 64 KiB, with which a batch would wait for the event
 * loop every few dozen vectors. What comes is bounded by the budget, not by the windows. grpc-js has no option for it.
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
 * Cuts a stream that is through off from its call. V8's quick collections take the streams of node:http2 for alive, so
 * that each waits for a full one, and with it all that its listeners lead to: a call, its request and its answer.
 */
function letGo(this: ServerHttp2Stream): void {
  this.removeAllListeners()
  // An error without a listener would end the process.
  this.on('error', ignore)
}

function ignore(): void {}

/** Of a method that is not ours, whose handler knows nothing of it. */
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

/** Of health checks and reflection: names of services and files. */
const otherBytesMax = 65_536

/** No byte of deflate can stand for more than this many. */
const compressionMax = 1032
