import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ByteBudget, ByteHold } from '../../base/budgets.ts'
import { DatabaseError } from '../../base/errors.ts'
import { Turn } from '../../base/turns.ts'
import { onClosed } from './answers.ts'

/**
 * Bounds the memory of requests and answers, which many slow or hostile clients together could exhaust. Each body
 * counts towards a budget, from its first byte or from a head that announces its length, until the body is no longer
 * needed.
 *
 *   head ─> declared length held ─> bytes arrive ─> decoded ─> points read, encoded ─> sent
 *               └ 429, and the connection ends          └ released    │ answer held       └ released; cut off
 *                                                                     └ 429                 when not read
 */

/** A complete body. */
export class RequestBody {
  #bytes: Buffer
  readonly #hold: ByteHold

  constructor(bytes: Buffer, hold: ByteHold) {
    this.#bytes = bytes
    this.#hold = hold
  }

  /** Returns the bytes and drops the reference to them, so that they can be freed when the caller is done with them. */
  take(): Buffer {
    const bytes = this.#bytes
    this.#bytes = noBytes
    return bytes
  }

  release(): void {
    this.#hold.release()
  }
}

const noBytes = Buffer.alloc(0)

interface BodyBounds {
  readonly maxRequestBytes: number
  /** The budget of bodies until they are decoded. */
  readonly requestBytes: ByteBudget
}

/**
 * Reads a body. If it is refused, the rest is discarded as it arrives.
 *
 * @throws DatabaseError `request_too_large`, `overloaded`, or `invalid_argument` if the body is incomplete
 */
export async function readBody(request: IncomingMessage, bounds: BodyBounds): Promise<RequestBody> {
  const declared = request.headers['content-length']
  const length = declared === undefined ? undefined : Number(declared)
  if (length !== undefined && length > bounds.maxRequestBytes) throw tooLarge(bounds.maxRequestBytes)
  const hold = bounds.requestBytes.hold(length ?? 0)
  const parts = length === undefined ? new ChunkedBody() : new SizedBody(length)
  try {
    await eachPart(request, (part) => {
      const { receivedBytes, heldBytes } = parts.add(part)
      if (receivedBytes > bounds.maxRequestBytes) throw tooLarge(bounds.maxRequestBytes)
      if (heldBytes > hold.bytes) hold.resize(heldBytes)
    })
    return new RequestBody(await parts.whole(), hold)
  } catch (error) {
    hold.release()
    throw error
  }
}

function tooLarge(maxRequestBytes: number): DatabaseError {
  return new DatabaseError(
    'request_too_large',
    `the request body is larger than ${maxRequestBytes} bytes (MAX_REQUEST_BYTES)`,
  )
}

/** Calls `take` for each part, and resolves when the body has ended. If `take` throws, reading stops. */
function eachPart(request: IncomingMessage, take: (part: Buffer) => void): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const onData = (part: Buffer): void => {
    try {
      take(part)
    } catch (error) {
      stop()
      reject(error)
    }
  }
  const onEnd = (): void => {
    stop()
    resolve()
  }
  const onBroken = (): void => {
    stop()
    reject(
      new DatabaseError('invalid_argument', 'the connection closed before the request body was complete'),
    )
  }
  const stop = (): void => {
    request.off('data', onData).off('end', onEnd).off('close', onBroken).off('error', onBroken)
    // If the connection fails later, an error without a listener would end the process.
    request.on('error', () => {})
  }
  // An iterator would close the connection when reading stops early, and the answer could not be sent.
  request.on('data', onData).on('end', onEnd).on('error', onBroken).on('close', onBroken)
  return promise
}

/** The part of a body that has arrived. */
interface Arrived {
  readonly receivedBytes: number
  /** The memory for it: the received bytes, and space for more. */
  readonly heldBytes: number
}

/** A body of known length: parts are copied to their place as they arrive. */
class SizedBody {
  readonly #length: number
  #whole: Buffer = noBytes
  #received = 0

  constructor(length: number) {
    this.#length = length
  }

  add(part: Buffer): Arrived {
    if (part.length === this.#length) this.#whole = part
    else {
      // Not from the pool, and not initialized, so that a head alone takes no physical memory for its body.
      if (this.#received === 0) this.#whole = Buffer.allocUnsafeSlow(this.#length)
      part.copy(this.#whole, this.#received)
    }
    this.#received += part.length
    return { receivedBytes: this.#received, heldBytes: this.#received }
  }

  async whole(): Promise<Buffer> {
    return this.#whole
  }
}

/**
 * A body of unknown length: its parts are concatenated, in turns, when all have arrived.
 *
 * Every part takes about 450 bytes in addition to its own. For a client that sends chunks of one byte, this would be 450
 * times what the budget counts. So beyond the first parts, small ones are copied to blocks. Usual bodies consist of few
 * or large parts, which are not copied.
 *
 *   parts  [large] [1..5] [large] [6..9]
 *                    │               │
 *   block           [ 1 2 3 4 5      6 7 8 9   free ]
 */
class ChunkedBody {
  #parts: Buffer[] = []
  #received = 0
  #held = 0
  #block = noBytes
  /** Where the copied parts start in the block that are not in `#parts` yet. */
  #start = 0
  /** Where they end. */
  #end = 0

  add(part: Buffer): Arrived {
    this.#received += part.length
    if (part.length < smallPartBytes && this.#parts.length >= firstParts) this.#copy(part)
    else {
      this.#endRun()
      this.#parts.push(part)
      this.#held += part.length
    }
    return { receivedBytes: this.#received, heldBytes: this.#held }
  }

  #copy(part: Buffer): void {
    if (part.length > this.#block.length - this.#end) {
      this.#endRun()
      const bytes = Math.min(Math.max(2 * this.#block.length, smallPartBytes), blockBytesMax)
      this.#block = Buffer.allocUnsafeSlow(bytes)
      this.#held += bytes
      this.#start = 0
      this.#end = 0
    }
    this.#end += part.copy(this.#block, this.#end)
  }

  /** Adds the copied parts that follow each other in the block to `#parts`, as one part. */
  #endRun(): void {
    if (this.#end > this.#start) this.#parts.push(this.#block.subarray(this.#start, this.#end))
    this.#start = this.#end
  }

  async whole(): Promise<Buffer> {
    this.#endRun()
    if (this.#parts.length === 1) return this.#parts[0]!
    const whole = Buffer.allocUnsafe(this.#received)
    const turn = new Turn()
    let at = 0
    for (const [index, part] of this.#parts.entries()) {
      at += part.copy(whole, at)
      this.#parts[index] = noBytes
      if (turn.isOver) await turn.next()
    }
    return whole
  }
}

/** Beyond this size, what a part takes in addition to its bytes is about a tenth. */
const smallPartBytes = 4096

/** This many small parts are never copied; they take less than the rest of a request. */
const firstParts = 32

/** The blocks double up to this size, so that a short body does not hold a large one. */
const blockBytesMax = 64 * 1024

/**
 * Refuses a body that is still arriving: sends the complete answer immediately, then closes the connection, so that the
 * rest need not be received. Closing while bytes arrive would reset the connection, and the reset could overtake the
 * answer. So arriving bytes are discarded for a moment, until the client stops.
 */
export function refuseAndClose(
  request: IncomingMessage,
  response: ServerResponse,
  { status, headers, text }: { status: number; headers: Readonly<Record<string, string>>; text: string },
): void {
  if (request.httpVersionMajor === 2) {
    // When the answer is complete, the rest of the request is refused: see http2.ts.
    response.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(text) }).end(text)
    return
  }
  response.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(text), connection: 'close' })
  response.write(text)
  const end = (): void => {
    clearTimeout(timer)
    response.end()
  }
  const timer = setTimeout(end, lingerMs)
  request.once('close', end)
  request.resume()
}

/** Long enough for an answer to cross any real network. */
const lingerMs = 1000

/** Returns the room in which an answer is made; it is given back when the answer is sent. */
export function answerRoom(response: ServerResponse, answerBytes: ByteBudget): ByteHold {
  const room = answerBytes.hold(0)
  onClosed(response, () => room.release())
  return room
}

/** Closes the connection of a client that has not received the answer in time. */
export function cutSlowReader(response: ServerResponse, timeoutMs: number): void {
  const timer = setTimeout(() => response.destroy(), timeoutMs)
  onClosed(response, () => clearTimeout(timer))
}
