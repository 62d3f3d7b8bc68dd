import type { IncomingMessage, Server, ServerOptions, ServerResponse } from 'node:http'
import type { ServerHttp2Session } from 'node:http2'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { onClosed, plainText } from './answers.ts'

/**
 * The connections of a server, and how they end when it stops. Every client that has sent a request receives an answer
 * instead of a reset.
 *
 *   stop ──────────────> grace ─────────────> grace ──────────────> linger ────> timeout
 *    every answer has     no new connections:   idle ones are        idle ones    all are
 *    `connection: close`, open ones may still   half-closed: what    are closed   closed
 *    new requests: 503    send requests         arrives is read
 *
 * Over HTTP/2, GOAWAY is what `connection: close` is: clients see which requests have not been read.
 *
 * A client learns of the stop from the answer to its next request, so connections stay open for that request.
 * Closing a socket with unread bytes resets the connection, and a reset discards what the client has not read yet.
 * So we close only our end until the client has closed its own.
 */
export class Connections {
  /** The number of running requests on each connection. */
  readonly #running = new Map<Socket, number>()
  /** Of those that speak HTTP/2. */
  readonly #sessions = new WeakMap<Socket, ServerHttp2Session>()
  /** The number of connections accepted since the start. */
  #added = 0
  readonly #stopped = Promise.withResolvers<void>()
  /** Those whose clients have been asked to connect anew. */
  #leaving = new WeakSet<Socket>()
  #isHangingUp = false
  #onEmpty: () => void = () => {}

  get size(): number {
    return this.#running.size
  }

  /** Lets each connection that is open now end with its next answer. */
  leave(): void {
    this.#leaving = new WeakSet(this.#running.keys())
  }

  isLeaving(socket: Socket): boolean {
    return this.#leaving.has(socket)
  }

  /** Adds a new connection. @param session if it speaks HTTP/2 */
  add(socket: Socket, session?: ServerHttp2Session): void {
    if (session !== undefined) this.#sessions.set(socket, session)
    this.#running.set(socket, 0)
    this.#added += 1
    socket.once('close', () => {
      this.#running.delete(socket)
      if (this.#running.size === 0) this.#onEmpty()
    })
  }

  /** Records that a request runs on the connection until its response is closed. */
  begin(socket: Socket, response: ServerResponse): void {
    this.#count(socket, 1)
    onClosed(response, () => this.#count(socket, -1))
  }

  /** Lets a connection that speaks HTTP/2 end with the requests that run on it. */
  endSession(socket: Socket): void {
    this.#sessions.get(socket)?.close()
  }

  /**
   * Resolves when the server has stopped listening. Refusals wait for this: a client that is refused earlier
   * immediately retries on a new connection, and pending connections are reset when listening ends.
   */
  get stopped(): Promise<void> {
    return this.#stopped.promise
  }

  /** Resolves when all connections have ended; closes those that are still open after `timeoutMs`. */
  async drain(timeoutMs: number, stopListening: () => void): Promise<void> {
    const startedMs = performance.now()
    const graceMs = Math.min(graceMsMax, timeoutMs * graceShare)
    await this.#emptyWithin(graceMs)
    await this.#acceptPending(graceMs)
    stopListening()
    this.#stopped.resolve()
    await this.#emptyWithin(graceMs)
    this.#isHangingUp = true
    for (const [socket, running] of this.#running) if (running === 0) this.#hangUp(socket)
    await this.#emptyWithin(Math.max(0, startedMs + timeoutMs - performance.now()))
    for (const socket of this.#running.keys()) socket.destroy()
  }

  /** Accepts the system's pending connections, one per turn of the event loop; any that remain would be reset. */
  async #acceptPending(ms: number): Promise<void> {
    const endMs = performance.now() + ms
    let before: number
    do {
      before = this.#added
      await nextTurn()
    } while (this.#added > before && performance.now() < endMs)
  }

  #count(socket: Socket, change: number): void {
    const running = this.#running.get(socket)
    if (running === undefined) return
    this.#running.set(socket, running + change)
    if (this.#isHangingUp && running + change === 0) this.#hangUp(socket)
  }

  /** Closes our end immediately, and the connection a moment later, even if the client has not closed its end. */
  #hangUp(socket: Socket): void {
    if (this.#sessions.has(socket)) this.endSession(socket)
    else {
      lingerOn(socket)
      socket.end()
    }
  }

  async #emptyWithin(ms: number): Promise<void> {
    if (this.#running.size === 0) return
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms)
      this.#onEmpty = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }
}

/** The share of SHUTDOWN_TIMEOUT_MS. By default 250 ms: long for a round trip, and short for a restart. */
const graceShare = 1 / 20
const graceMsMax = 1000

/** Closes a connection a moment from now. */
export function lingerOn(socket: Duplex): void {
  const timer = setTimeout(() => socket.destroy(), lingerMs)
  socket.once('close', () => clearTimeout(timer))
}

// An import would load everything that node:http re-exports, including an HTTP client: some 50 ms of the start.
const { maxHeaderSize: headerBytesMax, STATUS_CODES } = process.getBuiltinModule('node:http')

export const maxHeaderSize: number = headerBytesMax

/**
 * Answers to malformed requests and time-outs, which Node handles below the framework. Node's own answers have neither
 * body nor content type; these are plain text, like all others.
 */

/** @param requestTimeoutMs time a client has to send a whole request, including headers and body */
export function socketOptions(requestTimeoutMs: number): ServerOptions {
  return {
    requestTimeout: requestTimeoutMs,
    headersTimeout: requestTimeoutMs,
    // By default, Node looks for late requests only every 30 s.
    connectionsCheckingInterval: Math.min(30_000, Math.ceil(requestTimeoutMs / 4)),
    // Node would refuse a request without a host with an empty answer; the framework's hook answers with a message.
    requireHostHeader: false,
  }
}

export function answerBelowFramework(server: Server): void {
  server.on('checkExpectation', (request: IncomingMessage, response) => {
    response.writeHead(417, { 'content-type': plainText })
    response.end(`no such expectation: ${request.headers.expect?.slice(0, 100)}`)
  })
  server.on('connect', (_request, socket: Duplex) => {
    answerAndClose(socket, 405, 'CONNECT is not allowed: this is not a proxy')
  })
}

/** Answers requests that the HTTP parser rejects, and those that did not arrive in time. */
export function refuseMalformed(error: NodeJS.ErrnoException, socket: Duplex): void {
  // The request was already answered; bytes that arrive after the fault get no answer.
  if (socket.writableEnded) return
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const [code, message] = malformedAnswers[error.code ?? ''] ?? [400, 'the request is not valid HTTP']
  answerAndClose(socket, code, message)
}

const malformedAnswers: Readonly<Record<string, readonly [number, string]>> = {
  HPE_HEADER_OVERFLOW: [431, `the headers are larger than ${maxHeaderSize} bytes`],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'the request did not arrive in time'],
}

/**
 * Sends an answer and closes the connection. Closing a socket with unread bytes resets the connection, and the reset
 * can overtake the answer. So our end is closed immediately, and the connection a moment later, even if the client has
 * not closed its end.
 */
function answerAndClose(socket: Duplex, code: number, message: string): void {
  socket.on('error', () => socket.destroy())
  lingerOn(socket)
  socket.end(
    `HTTP/1.1 ${code} ${STATUS_CODES[code]}\r\ncontent-type: ${plainText}\r\ncontent-length: ${message.length}\r\nconnection: close\r\n\r\n${message}`,
  )
  socket.resume()
}

/** Long enough for an answer to cross any real network, and too short to help a client that holds sockets open. */
const lingerMs = 1000
