import { once } from 'node:events'
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  type OutgoingHttpHeaders,
  type SecureClientSessionOptions,
} from 'node:http2'

export interface Http2Answer {
  /** 0 if there was none. */
  readonly status: number
  readonly headers: Readonly<Record<string, unknown>>
  readonly body: string
  /** The code with which the stream ended. */
  readonly code: number
}

/** One connection that speaks HTTP/2 over TLS. */
export class Http2Client implements Disposable {
  readonly session: ClientHttp2Session
  /** Resolves with the code of the server's GOAWAY. */
  readonly goneAway: Promise<number>

  constructor(origin: string, options: SecureClientSessionOptions) {
    this.session = connect(origin, options)
    // A server that ends the connection also ends the requests; tests see it there.
    this.session.on('error', () => {})
    this.goneAway = new Promise((resolve) => {
      this.session.on('goaway', resolve)
    })
  }

  /** Sends the head of a request like `GET /health`. */
  open(line: string, headers: OutgoingHttpHeaders = {}, hasBody = true): ClientHttp2Stream {
    const [method, path] = line.split(' ')
    const stream = this.session.request(
      { ':method': method, ':path': path, ...headers },
      { endStream: !hasBody },
    )
    stream.on('error', () => {})
    return stream
  }

  /** Sends a request, with a body as JSON if there is one. */
  async send(line: string, headers: OutgoingHttpHeaders = {}, body?: string): Promise<Http2Answer> {
    const type = body === undefined ? {} : { 'content-type': 'application/json' }
    const stream = this.open(line, { ...type, ...headers }, body !== undefined)
    if (body !== undefined) stream.end(body)
    return await answerOn(stream)
  }

  /** Resolves when the connection has ended. */
  async closed(): Promise<void> {
    if (!this.session.destroyed) await once(this.session, 'close')
  }

  [Symbol.dispose](): void {
    this.session.destroy()
  }
}

/** The answer on a stream, when the stream has ended in any way. */
export async function answerOn(stream: ClientHttp2Stream): Promise<Http2Answer> {
  let headers: Readonly<Record<string, unknown>> = {}
  const parts: Buffer[] = []
  stream.on('response', (received) => {
    headers = received
  })
  stream.on('data', (part: Buffer) => parts.push(part))
  await new Promise<void>((resolve) => stream.on('close', resolve))
  const body = Buffer.concat(parts).toString()
  return { status: Number(headers[':status'] ?? 0), headers, body, code: stream.rstCode ?? 0 }
}

/** A fetch over HTTP/2, on one connection to each origin; what it has is what our client uses. */
export function fetchOverHttp2(options: SecureClientSessionOptions): typeof fetch & Disposable {
  const clients = new Map<string, Http2Client>()
  const clientOf = (origin: string): Http2Client => {
    const known = clients.get(origin)
    if (known !== undefined && !known.session.closed && !known.session.destroyed) return known
    const client = new Http2Client(origin, options)
    clients.set(origin, client)
    return client
  }
  const fetchOf = async (address: unknown, init: RequestInit = {}): Promise<Response> => {
    const { origin, pathname, search } = new URL(String(address))
    const { method = 'GET', body, signal } = init
    const headers = Object.fromEntries(new Headers(init.headers))
    const hasBody = body !== undefined && body !== null
    const stream = clientOf(origin).open(`${method} ${pathname}${search}`, headers, hasBody)
    const cancel = (): void => stream.close(8)
    signal?.addEventListener('abort', cancel)
    if (hasBody) stream.end(body)
    const answer = await answerOn(stream).finally(() => signal?.removeEventListener('abort', cancel))
    signal?.throwIfAborted()
    if (answer.status === 0 || answer.code !== 0) throw new TypeError(`the stream ended with ${answer.code}`)
    const received = Object.entries(answer.headers).filter(([name]) => !name.startsWith(':'))
    const isEmpty = answer.status === 204 || answer.status === 304
    return new Response(isEmpty ? null : answer.body, {
      status: answer.status,
      headers: new Headers(received.map(([name, value]) => [name, String(value)])),
    })
  }
  return Object.assign(fetchOf as typeof fetch, {
    [Symbol.dispose](): void {
      for (const client of clients.values()) client[Symbol.dispose]()
    },
  })
}
