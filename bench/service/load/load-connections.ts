import { once } from 'node:events'
import { createConnection, type Socket } from 'node:net'
import { Http2Connection } from './http2-connection.ts'
import type { Outcome, WireRequest } from './load-plan.ts'

/** Sends requests as cheaply as possible, so that the generator does not limit the result. */
export interface Sender {
  send(request: WireRequest): Promise<Outcome>
}

/** gRPC over several connections, used in turn. */
export async function connectGrpc(port: number, count: number): Promise<Sender> {
  const connections = await Promise.all(Array.from({ length: count }, () => Http2Connection.open(port)))
  const replacements = new Map<number, Promise<void>>()
  const replace = async (place: number): Promise<void> => {
    connections[place] = await Http2Connection.open(port)
    replacements.delete(place)
  }
  let turn = 0
  return {
    async send(request) {
      turn += 1
      const place = turn % count
      if (connections[place]!.isLeaving) {
        if (!replacements.has(place)) replacements.set(place, replace(place))
        await replacements.get(place)
      }
      return await connections[place]!.send(request)
    },
  }
}

/**
 * HTTP/1.1 over keep-alive connections, with one request at a time on each. Further requests wait for a free
 * connection.
 */
export async function connectHttp(
  port: number,
  count: number,
  waitingMax: number = Number.POSITIVE_INFINITY,
): Promise<Sender> {
  const free = await Promise.all(Array.from({ length: count }, () => HttpConnection.open(port)))
  const waiting: ((connection: HttpConnection) => void)[] = []
  return {
    async send(request) {
      if (free.length === 0 && waiting.length >= waitingMax) return 'refused'
      let connection = free.pop() ?? (await new Promise<HttpConnection>((resolve) => waiting.push(resolve)))
      if (connection.isLeaving) connection = await HttpConnection.open(port)
      const outcome = await connection.send(request)
      const next = waiting.shift()
      if (next === undefined) free.push(connection)
      else next(connection)
      return outcome
    },
  }
}

class HttpConnection {
  readonly #socket: Socket
  #received: string[] = []
  #missing = 0
  #settle: ((outcome: Outcome) => void) | undefined
  #isLeaving = false

  static async open(port: number): Promise<HttpConnection> {
    const socket = createConnection(port, '127.0.0.1')
    socket.setNoDelay(true)
    await once(socket, 'connect')
    return new HttpConnection(socket)
  }

  /** Whether the server wants the client to connect anew. */
  get isLeaving(): boolean {
    return this.#isLeaving
  }

  private constructor(socket: Socket) {
    this.#socket = socket
    socket.setEncoding('latin1')
    // `setEncoding` makes this a string, although its type is different.
    socket.on('data', (text) => this.#receive(String(text)))
    socket.on('close', () => this.#settle?.('failed'))
    socket.on('error', () => this.#settle?.('failed'))
  }

  send({ path, body, method }: WireRequest): Promise<Outcome> {
    if (this.#socket.destroyed) return Promise.resolve('failed')
    const head = `${method ?? 'POST'} ${path} HTTP/1.1\r\nhost: localhost\r\n`
    const length = `content-type: application/json\r\ncontent-length: ${body.length}\r\n`
    this.#socket.cork()
    this.#socket.write(`${head}${method === 'GET' ? '' : length}\r\n`)
    if (body.length > 0) this.#socket.write(body)
    this.#socket.uncork()
    return new Promise((resolve) => {
      this.#settle = resolve
    })
  }

  #receive(text: string): void {
    this.#received.push(text)
    this.#missing -= text.length
    if (this.#missing > 0) return
    const received = this.#received.join('')
    const end = received.indexOf('\r\n\r\n')
    const length = /^content-length: *(\d+)/im.exec(received.slice(0, Math.max(end, 0)))
    this.#missing = end === -1 ? 0 : end + 4 + Number(length?.[1] ?? 0) - received.length
    if (end === -1 || this.#missing > 0) {
      this.#received = [received]
      return
    }
    this.#received = []
    this.#isLeaving = /^connection: *close/im.test(received.slice(0, end))
    const status = Number(received.slice(9, 12))
    this.#settle?.(status === 429 ? 'refused' : status < 300 ? 'answered' : 'failed')
  }
}
