import type { Server } from 'node:http'
import {
  constants,
  Http2ServerRequest,
  Http2ServerResponse,
  type IncomingHttpHeaders,
  performServerHandshake,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2'
import type { Socket } from 'node:net'
import { connectionWindow, detachListeners, streamWindow } from '../listener.ts'
import { plainText } from './answers.ts'
import { lingerOn, maxHeaderSize } from './connections.ts'

/**
 * HTTP/2 on the HTTP port, which clients choose by ALPN. Its requests go the way of HTTP/1.1: they look like those of
 * node:http, so the framework and all of ours behind it need not know. The framework's own option for HTTP/2 would also
 * pass HTTP/1.1 through a server of node:http2, which has other time-outs. What differs is here:
 *
 *   HTTP/1.1                                     HTTP/2
 *   a connection has one request at a time       up to 100; `socket` is that of all of them
 *   `connection: close` ends it                  GOAWAY: requests that run are answered
 *   a refused body: the connection is closed     the stream is reset, without an error, after the answer
 *   a slow reader: the connection is closed      the stream is reset; the connection, if it does not answer pings
 *   a slow request: Node looks for it            a timer for each request with a body
 *   floods                                       Node: 1000 resets at once and 33 a second, 1000 pings and settings that
 *                                                wait for an answer; more end the connection
 */

interface Http2Options {
  readonly requestTimeoutMs: number
  /** How long a connection stays open without a request; how often one with requests is pinged. */
  readonly keepAliveMs: number
}

/** Serves a connection: emits its requests on `http`, like those that arrive over HTTP/1.1. */
export function serveHttp2(socket: Socket, http: Server, options: Http2Options): ServerHttp2Session {
  const session = performServerHandshake(socket, {
    settings: {
      maxConcurrentStreams: streamsMax,
      maxHeaderListSize: maxHeaderSize,
      initialWindowSize: streamWindow,
    },
    maxSessionMemory: sessionMegabytesMax,
  })
  session.setLocalWindowSize(connectionWindow)
  // Node ends the session, and its requests see that they are aborted.
  session.on('error', () => {})
  const begin = endWhenIdle(session, socket, options)
  session.on('stream', (stream, headers, _flags, rawHeaders) => {
    // It was reset before its turn, perhaps in a flood.
    if (stream.closed || stream.destroyed) return
    stream.on('close', begin())
    const request = new Request(stream, headers, rawHeaders, socket)
    const response = new Response(stream)
    stream.on('close', detachListeners)
    // After the listener of the response, which ends the stream in the same round of the event loop.
    stream.on('wantTrailers', () => setImmediate(() => stopUpload(request)))
    if (!stream.endAfterHeaders) refuseLate(request, response, options.requestTimeoutMs)
    dispatch(http, request, response)
  })
  return session
}

/** Each may have headers of 16 KiB. RFC 9113 recommends no fewer. */
const streamsMax = 100
/** Of headers, their compression tables, and pings and settings that wait; the default of Node. */
const sessionMegabytesMax = 10

function dispatch(http: Server, request: Request, response: Response): void {
  const { expect } = request.headers
  if (request.method === 'CONNECT') {
    answerAtOnce(response, 405, 'CONNECT is not allowed: this is not a proxy')
  } else if (expect !== undefined && !/^100-continue$/i.test(expect)) {
    http.emit('checkExpectation', request, response)
  } else {
    if (expect !== undefined) response.writeContinue()
    http.emit('request', request, response)
  }
}

function answerAtOnce(response: Response, status: number, text: string): void {
  response.writeHead(status, { 'content-type': plainText, 'content-length': Buffer.byteLength(text) })
  response.end(text)
}

/** Tells the client not to send the rest of a request that has been answered. What still arrives is discarded. */
function stopUpload(request: Request): void {
  if (!request.complete) request.stream.close(constants.NGHTTP2_NO_ERROR)
}

/** Refuses a request that does not arrive in time, unless it has been answered. */
function refuseLate(request: Request, response: Response, timeoutMs: number): void {
  const onLate = (): void => {
    if (request.complete) return
    if (response.headersSent) response.destroy()
    else answerAtOnce(response, 408, 'the request did not arrive in time')
  }
  // Bytes that arrived while the event loop was busy are read before the client counts as late.
  const timer = setTimeout(() => setImmediate(onLate), timeoutMs)
  const stop = (): void => clearTimeout(timer)
  request.on('end', stop).on('close', stop)
}

/**
 * Closes a connection without requests, and destroys one whose client does not read: it does not answer a ping until
 * the next one. A client that does not begin has as long as for the first headers over HTTP/1.1.
 *
 * @returns call it for each request; call what that returns when the request has ended
 */
function endWhenIdle(
  session: ServerHttp2Session,
  socket: Socket,
  { requestTimeoutMs, keepAliveMs }: Http2Options,
): () => () => void {
  let running = 0
  let isAnswering = true
  const close = (): void => {
    if (running > 0) return
    session.close()
    // Also if what is written waits for a client that does not read.
    lingerOn(socket)
  }
  const look = (): void => {
    if (!isAnswering || session.destroyed) {
      socket.destroy()
    } else if (running > 0) {
      isAnswering = false
      session.ping(() => {
        isAnswering = true
      })
    }
  }
  const beginning = setTimeout(() => socket.destroy(), requestTimeoutMs).unref()
  session.once('remoteSettings', () => clearTimeout(beginning))
  const idle = setTimeout(close, keepAliveMs).unref()
  const pings = setInterval(look, keepAliveMs).unref()
  socket.once('close', () => {
    for (const timer of [beginning, idle, pings]) clearTimeout(timer)
  })
  // A closed session waits for the client to close its end: not long.
  socket.once('finish', () => lingerOn(socket))
  return () => {
    running += 1
    return () => {
      running -= 1
      if (running === 0 && !socket.destroyed) idle.refresh()
    }
  }
}

// Node's types have properties where its classes have accessors, which cannot be overridden then.
type Without<Class extends abstract new (...parameters: never) => object, Names extends string> = new (
  ...parameters: ConstructorParameters<Class>
) => Omit<InstanceType<Class>, Names>
const BareRequest = Http2ServerRequest as Without<typeof Http2ServerRequest, 'socket' | 'complete'>
const BareResponse = Http2ServerResponse as Without<
  typeof Http2ServerResponse,
  'closed' | 'writableFinished' | 'writeHead' | 'destroy'
>

class Request extends BareRequest {
  readonly #socket: Socket

  constructor(
    stream: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    raw: readonly string[],
    socket: Socket,
  ) {
    super(stream, headers, {}, raw)
    this.#socket = socket
    headers.host ??= headers[constants.HTTP2_HEADER_AUTHORITY] as string | undefined
  }

  /** Node has a proxy here, another one for each request. */
  get socket(): Socket {
    return this.#socket
  }

  get complete(): boolean {
    return this.stream.endAfterHeaders || this.readableEnded || this.aborted || this.stream.destroyed
  }
}

const bodiless: ReadonlySet<number> = new Set([204, 205, 304])

class Response extends BareResponse {
  #isClosed = false

  constructor(stream: ServerHttp2Stream) {
    super(stream)
    this.on('close', () => {
      this.#isClosed = true
    })
  }

  /** As responses of HTTP/1.1 have it: whether `close` has been emitted. */
  get closed(): boolean {
    return this.#isClosed
  }

  get writableFinished(): boolean {
    return this.stream.writableFinished && !this.stream.aborted
  }

  writeHead(status: number, ...rest: readonly unknown[]): this {
    const { req } = this
    Reflect.apply(Http2ServerResponse.prototype.writeHead, this, [status, ...rest])
    // Without a body, there is no `wantTrailers`.
    if (req.method === 'HEAD' || bodiless.has(status)) setImmediate(() => stopUpload(req as Request))
    return this
  }

  /** Resets the stream: its client sees that the answer is incomplete. Pings find a client that does not read. */
  destroy(): this {
    this.stream.close(constants.NGHTTP2_CANCEL)
    this.stream.destroy()
    return this
  }
}
