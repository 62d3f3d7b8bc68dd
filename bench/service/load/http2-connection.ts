import { once } from 'node:events'
import { createConnection, type Socket } from 'node:net'
import { apiKey, type Outcome, type WireRequest } from './load-plan.ts'

/**
 * gRPC over one HTTP/2 connection (RFC 9113), reduced to what a load generator needs. Frames are written whole from
 * prepared bytes, and answers are counted but not decoded. With node:http2, a request costs the generator as much as
 * the server, so on a machine with two cores the generator would limit the result.
 *
 * Departures: no priorities, no padding, no push and no request trailers. It requests a header table of size 0 (RFC
 * 7541, 4.2), so that the server sends every header in full and `grpc-status` can be found without a decoder.
 */
export class Http2Connection {
  readonly #socket: Socket
  readonly #streams = new Map<number, Stream>()
  /** Streams with bytes that wait for room in the flow-control windows. */
  readonly #stalled = new Set<Stream>()
  readonly #heads = new Map<string, Buffer>()
  #unread: Buffer = Buffer.alloc(0)
  #nextId = 1
  #window = initialWindow
  #streamWindow = initialWindow
  #frameMax = 16_384
  #streamsMax = 100
  #consumed = 0

  static async open(port: number): Promise<Http2Connection> {
    const socket = createConnection(port, '127.0.0.1')
    socket.setNoDelay(true)
    await once(socket, 'connect')
    const connection = new Http2Connection(socket)
    await new Promise<void>((resolve) => (connection.#ready = resolve))
    return connection
  }

  #ready: (() => void) | undefined
  #isLeaving = false

  private constructor(socket: Socket) {
    this.#socket = socket
    socket.on('data', (bytes) => this.#receive(bytes))
    socket.on('error', () => this.#fail())
    socket.on('close', () => this.#fail())
    socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
    socket.write(frame(types.settings, 0, 0, settingsOf([1, 0], [2, 0], [4, 0x7fffffff])))
    socket.write(frame(types.windowUpdate, 0, 0, u32(0x7fffffff - initialWindow)))
  }

  get hasRoom(): boolean {
    return this.#streams.size < this.#streamsMax && !this.#socket.destroyed
  }

  /** Whether the server wants the client to connect anew. Requests that it has accepted are still answered. */
  get isLeaving(): boolean {
    return this.#isLeaving
  }

  /** Sends a request. Immediately resolves to `refused` if the connection has reached its limit of requests. */
  send({ path, body }: WireRequest): Promise<Outcome> {
    if (!this.hasRoom) return Promise.resolve('refused')
    return new Promise((settle) => {
      const id = this.#nextId
      this.#nextId += 2
      const stream: Stream = {
        id,
        body,
        sent: 0,
        window: this.#streamWindow,
        hasMessage: false,
        code: -1,
        settle,
      }
      this.#streams.set(id, stream)
      this.#socket.cork()
      this.#socket.write(frame(types.headers, flags.endHeaders, id, this.#headOf(path)))
      this.#push(stream)
      process.nextTick(() => this.#socket.uncork())
    })
  }

  close(): void {
    this.#socket.destroy()
  }

  /** Sends as much of the message as the flow-control windows allow. */
  #push(stream: Stream): void {
    const total = messageHead + stream.body.length
    while (stream.sent < total) {
      const room = Math.min(this.#window, stream.window, this.#frameMax, total - stream.sent)
      if (room <= 0) {
        this.#stalled.add(stream)
        return
      }
      const isLast = stream.sent + room === total
      this.#socket.write(frameHead(room, types.data, isLast ? flags.endStream : 0, stream.id))
      this.#socket.write(sliceOf(stream.body, stream.sent, room))
      stream.sent += room
      stream.window -= room
      this.#window -= room
    }
    this.#stalled.delete(stream)
  }

  #receive(bytes: Buffer): void {
    let all = this.#unread.length === 0 ? bytes : Buffer.concat([this.#unread, bytes])
    while (all.length >= frameHeadBytes) {
      const length = all.readUIntBE(0, 3)
      if (all.length < frameHeadBytes + length) break
      const payload = all.subarray(frameHeadBytes, frameHeadBytes + length)
      this.#take(all[3]!, all[4]!, all.readUInt32BE(5) & 0x7fffffff, payload)
      all = all.subarray(frameHeadBytes + length)
    }
    this.#unread = all
  }

  #take(type: number, flag: number, id: number, payload: Buffer): void {
    const stream = this.#streams.get(id)
    if (type === types.data) this.#consume(stream, payload.length)
    else if (type === types.headers) noteStatus(stream, payload)
    else if (type === types.settings && (flag & flags.ack) === 0) this.#agree(payload)
    else if (type === types.ping && (flag & flags.ack) === 0) this.#answerPing(payload)
    else if (type === types.windowUpdate) this.#widen(stream, payload.readUInt32BE(0), id === 0)
    else if (type === types.goAway) this.#leave()
    else if (type === types.reset && stream !== undefined) this.#end(stream, refusalOf(payload))
    const isEnd = (type === types.data || type === types.headers) && (flag & flags.endStream) !== 0
    if (isEnd && stream !== undefined) this.#end(stream, outcomeOf(stream))
  }

  #leave(): void {
    this.#isLeaving = true
    if (this.#streams.size === 0) this.#socket.destroy()
  }

  #end(stream: Stream, outcome: Outcome): void {
    this.#streams.delete(stream.id)
    if (this.#isLeaving) this.#leave()
    this.#stalled.delete(stream)
    stream.settle(outcome)
  }

  #consume(stream: Stream | undefined, length: number): void {
    if (stream !== undefined && length > 0) stream.hasMessage = true
    this.#consumed += length
    if (this.#consumed < windowStep) return
    this.#socket.write(frame(types.windowUpdate, 0, 0, u32(this.#consumed)))
    this.#consumed = 0
  }

  #agree(payload: Buffer): void {
    for (let at = 0; at < payload.length; at += 6) {
      const value = payload.readUInt32BE(at + 2)
      const name = payload.readUInt16BE(at)
      if (name === 3) this.#streamsMax = value
      else if (name === 5) this.#frameMax = value
      else if (name === 4) this.#resizeWindows(value)
    }
    this.#socket.write(frame(types.settings, flags.ack, 0, Buffer.alloc(0)))
    this.#ready?.()
  }

  #resizeWindows(size: number): void {
    for (const stream of this.#streams.values()) stream.window += size - this.#streamWindow
    this.#streamWindow = size
  }

  #widen(stream: Stream | undefined, step: number, isConnection: boolean): void {
    if (isConnection) this.#window += step
    else if (stream !== undefined) stream.window += step
    for (const each of this.#stalled) this.#push(each)
  }

  #answerPing(payload: Buffer): void {
    this.#socket.write(frame(types.ping, flags.ack, 0, payload))
  }

  #fail(): void {
    this.#ready?.()
    for (const stream of [...this.#streams.values()]) this.#end(stream, 'failed')
  }

  #headOf(path: string): Buffer {
    const known = this.#heads.get(path)
    if (known !== undefined) return known
    const made = headersOf(path)
    this.#heads.set(path, made)
    return made
  }
}

interface Stream {
  readonly id: number
  readonly body: Uint8Array
  readonly settle: (outcome: Outcome) => void
  /** Bytes of the gRPC message that have been sent, including its head. */
  sent: number
  window: number
  hasMessage: boolean
  /** The gRPC status code; -1 until it has arrived. */
  code: number
}

const types = {
  data: 0,
  headers: 1,
  reset: 3,
  settings: 4,
  ping: 6,
  goAway: 7,
  windowUpdate: 8,
} as const
const flags = { endStream: 1, ack: 1, endHeaders: 4 } as const
const frameHeadBytes = 9
/** The initial value of RFC 9113, until the settings of the server change it. */
const initialWindow = 65_535
const windowStep = 8 * 1024 * 1024
/** The head of a gRPC message: the compressed flag and the length. */
const messageHead = 5
const resourceExhausted = 8
const refusedStream = 7

function frame(type: number, flag: number, id: number, payload: Buffer): Buffer {
  return Buffer.concat([frameHead(payload.length, type, flag, id), payload])
}

function frameHead(length: number, type: number, flag: number, id: number): Buffer {
  const head = Buffer.allocUnsafe(frameHeadBytes)
  head.writeUIntBE(length, 0, 3)
  head[3] = type
  head[4] = flag
  head.writeUInt32BE(id, 5)
  return head
}

/** The bytes [from, from + length) of the message, which consists of head and body. */
function sliceOf(body: Uint8Array, from: number, length: number): Uint8Array {
  if (from >= messageHead) return body.subarray(from - messageHead, from - messageHead + length)
  const head = Buffer.allocUnsafe(messageHead)
  head[0] = 0
  head.writeUInt32BE(body.length, 1)
  const whole = Buffer.concat([head, body.subarray(0, Math.max(0, from + length - messageHead))])
  return whole.subarray(from, from + length)
}

function settingsOf(...entries: readonly (readonly [number, number])[]): Buffer {
  return Buffer.concat(entries.map(([name, value]) => Buffer.concat([Buffer.from([0, name]), u32(value)])))
}

function u32(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(4)
  bytes.writeUInt32BE(value)
  return bytes
}

/** Headers without HPACK compression: `:method POST` and `:scheme http` from its static table, the rest in full. */
function headersOf(path: string): Buffer {
  const fields = [
    [':path', path],
    [':authority', 'localhost'],
    ['content-type', 'application/grpc'],
    ['te', 'trailers'],
    ['authorization', apiKey],
  ]
  const literal = (text: string): Buffer => Buffer.concat([Buffer.from([text.length]), Buffer.from(text)])
  const spelled = fields.map(([name, value]) =>
    Buffer.concat([Buffer.from([0]), literal(name!), literal(value!)]),
  )
  return Buffer.concat([Buffer.from([0x83, 0x86]), ...spelled])
}

/** `grpc-status` in HPACK's Huffman code. Its value follows, preceded by the length. */
const statusName = Buffer.from('9acac8b21234da8f', 'hex')

function noteStatus(stream: Stream | undefined, block: Buffer): void {
  const at = block.indexOf(statusName)
  if (stream === undefined || at === -1) return
  const length = block[at + statusName.length]!
  const from = at + statusName.length + 1
  // A status of two digits may be Huffman-coded. It need not be decoded: none of these is a success or a refusal.
  stream.code = length === 1 ? Number(block.toString('latin1', from, from + 1)) : 99
}

function outcomeOf({ code, hasMessage }: Stream): Outcome {
  if (code === 0 && hasMessage) return 'answered'
  return code === resourceExhausted ? 'refused' : 'failed'
}

function refusalOf(payload: Buffer): Outcome {
  return payload.readUInt32BE(0) === refusedStream ? 'refused' : 'failed'
}
