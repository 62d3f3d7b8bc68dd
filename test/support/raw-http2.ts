import { once } from 'node:events'
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from 'node:http2'

export interface GrpcStatus {
  /** HTTP status of the answer. */
  readonly http: number
  /** `grpc-status` and `grpc-message` as received; undefined if the stream was reset. */
  readonly code: number | undefined
  readonly message: string
}

/** A gRPC message in its frame: the compressed flag, the length, the bytes. */
export function frame(bytes: Uint8Array, compressed = 0): Buffer {
  const head = Buffer.alloc(5)
  head[0] = compressed
  head.writeUInt32BE(bytes.length, 1)
  return Buffer.concat([head, bytes])
}

/** gRPC over plain HTTP/2, to send what no client library would. */
export class RawHttp2 implements Disposable {
  readonly #session: ClientHttp2Session

  constructor(port: number) {
    this.#session = connect(`http://localhost:${port}`)
    // A server that ends the connection also ends the calls; tests see it there.
    this.#session.on('error', () => {})
  }

  /** Opens a call and sends only its headers. */
  open(path: string, headers: Readonly<Record<string, string>> = {}): ClientHttp2Stream {
    return this.#session.request({
      ':method': 'POST',
      ':path': path,
      te: 'trailers',
      'content-type': 'application/grpc',
      ...headers,
    })
  }

  /** Sends the bytes as the whole body of a call. */
  async call(
    path: string,
    body: Uint8Array,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<GrpcStatus> {
    const stream = this.open(path, headers)
    stream.end(body)
    return statusOf(stream)
  }

  /** Waits for the next ping of the server; Node answers it. */
  async pinged(): Promise<void> {
    await once(this.#session, 'ping')
  }

  [Symbol.dispose](): void {
    this.#session.destroy()
  }
}

/** Waits until the server has ended its side of a call; ours may still be open. */
export async function statusOf(stream: ClientHttp2Stream): Promise<GrpcStatus> {
  let http = 0
  let trailers: Readonly<Record<string, unknown>> = {}
  stream.on('response', (headers) => {
    http = Number(headers[':status'])
    trailers = { ...trailers, ...headers }
  })
  stream.on('trailers', (headers) => {
    trailers = { ...trailers, ...headers }
  })
  stream.on('error', () => {})
  stream.resume()
  // If the connection is cut while our side is open, the stream is aborted and may never close.
  const events = ['end', 'close', 'aborted']
  if (!stream.closed)
    await Promise.race(events.map((event) => new Promise((resolve) => stream.once(event, resolve))))
  const code = trailers['grpc-status']
  return {
    http,
    code: code === undefined ? undefined : Number(code),
    message: decodeURIComponent(String(trailers['grpc-message'] ?? '')),
  }
}
