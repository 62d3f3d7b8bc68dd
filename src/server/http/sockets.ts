import type { IncomingMessage, Server, ServerOptions } from 'node:http'
import type { Duplex } from 'node:stream'
import { plainText } from './errors.ts'

// An import would load everything that node:http re-exports, including an HTTP client: some 50 ms of the start.
const { maxHeaderSize, STATUS_CODES } = process.getBuiltinModule('node:http')

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
  const timer = setTimeout(() => socket.destroy(), lingerMs)
  socket.once('close', () => clearTimeout(timer))
  socket.end(
    `HTTP/1.1 ${code} ${STATUS_CODES[code]}\r\ncontent-type: ${plainText}\r\ncontent-length: ${message.length}\r\nconnection: close\r\n\r\n${message}`,
  )
  socket.resume()
}

/** Long enough for an answer to cross any real network, and too short to help a client that holds sockets open. */
const lingerMs = 1000
