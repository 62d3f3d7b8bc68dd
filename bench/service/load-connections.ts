import { once } from 'node:events'
import { type ClientHttp2Session, connect } from 'node:http2'
import { createConnection, type Socket } from 'node:net'
import { apiKey, type WireRequest } from './load-plan.ts'

/** Sends requests as cheaply as can be, so that the generator is not what is measured. */
export interface Sender {
  /** Whether the answer was a success. */
  send(request: WireRequest): Promise<boolean>
}

/** gRPC over one connection, by streams of plain HTTP/2. */
export async function connectGrpc(port: number): Promise<Sender> {
  const session = connect(`http://127.0.0.1:${port}`)
  await once(session, 'connect')
  return { send: (request) => sendGrpc(session, request) }
}

function sendGrpc(session: ClientHttp2Session, { path, body }: WireRequest): Promise<boolean> {
  const stream = session.request({
    ':method': 'POST',
    ':path': path,
    'content-type': 'application/grpc',
    te: 'trailers',
    authorization: apiKey,
  })
  const frame = Buffer.allocUnsafe(5 + body.length)
  frame[0] = 0
  frame.writeUInt32BE(body.length, 1)
  frame.set(body, 5)
  stream.end(frame)
  stream.resume()
  return new Promise((resolve) => {
    let succeeded = false
    const judge = (headers: Record<string, unknown>): void => {
      if (headers['grpc-status'] !== undefined) succeeded = headers['grpc-status'] === '0'
    }
    stream.on('response', judge)
    stream.on('trailers', judge)
    stream.on('error', () => resolve(false))
    stream.on('close', () => resolve(succeeded))
  })
}

/** HTTP/1.1 over kept connections, a request at a time on each; what finds none free waits its turn. */
export async function connectHttp(port: number, connections: number): Promise<Sender> {
  const free = await Promise.all(
    Array.from({ length: connections }, async () => {
      const socket = createConnection(port, '127.0.0.1')
      socket.setNoDelay(true)
      await once(socket, 'connect')
      return new HttpConnection(socket)
    }),
  )
  const waiting: ((connection: HttpConnection) => void)[] = []
  return {
    async send(request) {
      const connection = free.pop() ?? (await new Promise<HttpConnection>((resolve) => waiting.push(resolve)))
      const succeeded = await connection.send(request)
      const next = waiting.shift()
      if (next === undefined) free.push(connection)
      else next(connection)
      return succeeded
    },
  }
}

class HttpConnection {
  readonly #socket: Socket
  #received = ''
  #settle: ((succeeded: boolean) => void) | undefined

  constructor(socket: Socket) {
    this.#socket = socket
    socket.setEncoding('latin1')
    socket.on('data', (text: string) => this.#receive(text))
    socket.on('close', () => this.#settle?.(false))
    socket.on('error', () => this.#settle?.(false))
  }

  send({ path, body }: WireRequest): Promise<boolean> {
    const head = `POST ${path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n`
    this.#socket.cork()
    this.#socket.write(head)
    this.#socket.write(body)
    this.#socket.uncork()
    return new Promise((resolve) => {
      this.#settle = resolve
    })
  }

  #receive(text: string): void {
    this.#received += text
    const end = this.#received.indexOf('\r\n\r\n')
    if (end === -1) return
    const length = /^content-length: *(\d+)/im.exec(this.#received.slice(0, end))
    if (this.#received.length < end + 4 + Number(length?.[1] ?? 0)) return
    const succeeded = /^HTTP\/1.1 2/.test(this.#received)
    this.#received = ''
    this.#settle?.(succeeded)
  }
}
