import { constants, type ServerHttp2Stream } from 'node:http2'
import { Metadata, type ServerInterceptingCallInterface, type StatusObject, status } from '@grpc/grpc-js'
import type { ApiKey } from '../../base/api-key.ts'
import type { BodyBudgets, ByteHold } from '../../base/budgets.ts'
import { assert, DatabaseError, reasonHeader, reasons } from '../../base/errors.ts'
import { frontBytes } from '../../messages/writer.ts'
import { detachListeners, openWindows } from '../listener.ts'
import type { ReadScheduler } from '../read-scheduler.ts'

/**
 * Bounds the memory of requests and answers, which many slow or hostile clients together could exhaust. Each body
 * counts towards a budget, from the head that announces its length until the body is no longer needed.
 *
 *   head ─> declared length held ─> bytes arrive ─> decoded ─> points read, encoded ─> sent
 *               └ RESOURCE_EXHAUSTED    └ too slow:  └ released    │ answer held       └ released; reset
 *                                         DEADLINE_EXCEEDED        └ RESOURCE_EXHAUSTED   when not read
 */
interface BodyBounds {
  readonly maxRequestBytes: number
  /** Time a client has to send a whole request, and to receive a whole answer. */
  readonly requestTimeoutMs: number
  readonly budgets: BodyBudgets
  readonly readScheduler: ReadScheduler
}

/** A request, in the form that the handlers of operations receive. */
export interface ReceivedRequest {
  /** The caller's key; unset until it is known. */
  readonly key: ApiKey | undefined
  /** Returns the bytes and drops the reference to them, so that they can be freed when the caller is done with them. */
  take(): Buffer
  /** Call when the bytes are no longer needed. */
  release(): void
  /** Counts the answer towards its budget while it is made, and until it is sent. */
  readonly room: ByteHold
  /** Call when the answer is complete, and being sent. */
  answered(): void
  /** Ends a call that can no longer be answered; its client sees an internal error. */
  abort(): void
}

/**
 * The parts of grpc-js's call that we use beyond its public interface. No public hook sees a message before it is
 * complete, accepts a message that is already framed, or ends a stream whose client does not read. The version of
 * grpc-js is pinned, and tests fail when these parts change.
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
 * @param call the call of grpc-js that the first interceptor receives
 * @param isOperation whether its method is one of our operations, whose handlers receive a `ReceivedRequest`
 * @param reword replaces the status of calls that grpc-js itself refuses, bypassing the interceptors
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
  // The codec leaves room for the frame; grpc-js would copy the answer to add one.
  own.serializeMessage = frameOf
  return new CallBody(own, bounds, reword)
}

/** The memory of one call. */
class CallBody implements ReceivedRequest {
  key: ApiKey | undefined
  readonly #call: OwnCall
  readonly #bounds: BodyBounds
  #bytes: Buffer | undefined
  #requestHold: ByteHold | undefined
  #room: ByteHold | undefined
  #timer: NodeJS.Timeout | undefined
  #refusal: DatabaseError | undefined
  #hasEnded = false

  constructor(call: OwnCall, bounds: BodyBounds, reword: (outcome: OutgoingStatus) => OutgoingStatus) {
    assert('decoder' in call && 'stream' in call, 'grpc-js gives us access to its decoder and stream')
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
      send(reword(statusOf(this.#refusal)))
      this.#stopUpload()
    }
  }

  /** Ends the call if the request does not arrive in time. */
  startRequestTimer(): void {
    this.#startTimer(() => {
      const { requestTimeoutMs } = this.#bounds
      const details = `the request did not arrive within ${requestTimeoutMs} ms`
      this.#call.sendStatus({ code: status.DEADLINE_EXCEEDED, details })
      this.#stopUpload()
    })
  }

  /** Accepts the complete request; returns what the handler receives. */
  received(message: Buffer): ReceivedRequest | Buffer {
    this.#stopTimer()
    this.#bytes = message
    // Until now, a compressed message counted with its largest possible size.
    this.#requestHold?.resize(message.length)
    return this
  }

  take(): Buffer {
    const bytes = this.#bytes
    assert(bytes !== undefined, 'a request is taken only once')
    this.#bytes = undefined
    return bytes
  }

  release(): void {
    this.#requestHold?.release()
    this.#requestHold = undefined
  }

  get room(): ByteHold {
    this.#room ??= this.#bounds.budgets.answers.hold(0)
    if (this.#hasEnded) this.#room.release()
    return this.#room
  }

  answered(): void {
    if (!this.#hasEnded) this.#startTimer(() => this.#call.stream.close(constants.NGHTTP2_CANCEL))
  }

  abort(): void {
    this.#call.stream.close(constants.NGHTTP2_INTERNAL_ERROR)
  }

  /** Call when the answer is sent, or its caller has disconnected. */
  end(): void {
    this.#hasEnded = true
    this.#stopTimer()
    this.#bytes = undefined
    this.release()
    this.#room?.release()
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

  /** Starts the timer. Bytes that arrived while the event loop was busy are read before the client counts as late. */
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

  /**
   * Tells the client to stop sending its request; bytes that still arrive are discarded. Does so when the status has
   * been written: nghttp2 drops the queued frames of a stream that it resets.
   */
  #stopUpload(): void {
    setImmediate(() => this.#call.stream.close(constants.NGHTTP2_NO_ERROR))
  }
}

/** The body of a call to health or reflection, whose handlers expect the message as grpc-js has read it. */
class OtherBody extends CallBody {
  /**
   * The handler of a stream can send a message after the status, for instance when the deadline has passed. grpc-js
   * would write it to the ended stream, whose error then stops the status: the call would never end.
   */
  constructor(call: OwnCall, bounds: BodyBounds, reword: (outcome: OutgoingStatus) => OutgoingStatus) {
    super(call, bounds, reword)
    const send = call.sendMessage.bind(call)
    call.sendMessage = (message, sent) => {
      if (!call.stream.writableEnded) send(message, sent)
    }
  }

  override received(message: Buffer): Buffer {
    // First, because a message that was read has no length any more.
    this.release()
    super.received(message)
    return message
  }
}

export function statusOf(error: DatabaseError): StatusObject {
  // A message can quote text with half of a surrogate pair, which grpc-js cannot send: `encodeURI` throws.
  const details = error.message.toWellFormed()
  const metadata = new Metadata()
  metadata.set(reasonHeader, error.reason)
  if (error.reason === 'overloaded') metadata.set('retry-after-ms', '1000')
  return { code: reasons[error.reason].grpc, details, metadata }
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
function frameOf(message: Buffer): Buffer {
  const frame = Buffer.from(message.buffer, message.byteOffset - headBytes, message.byteLength + headBytes)
  frame[0] = 0
  frame.writeUInt32BE(message.length, 1)
  return frame
}
