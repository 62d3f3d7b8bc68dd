import assert from 'node:assert/strict'
import { once } from 'node:events'
import { constants } from 'node:http2'
import { connect, type Socket } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { create, toBinary } from '@bufbuild/protobuf'
import { InsertVectorRequestSchema } from './support/generated-messages.ts'
import { figureOf } from './support/metrics.ts'
import { RawGrpc } from './support/raw-grpc.ts'
import { RawHttp } from './support/raw-http.ts'
import { frame, RawHttp2, statusOf } from './support/raw-http2.ts'
import { apiKey, startTestService, type TestService } from './support/service.ts'
import { until } from './support/until.ts'

/** Request and response bodies in memory: how much all clients together may use, and for how long. */

const mebibyte = 1024 * 1024
const key = { authorization: apiKey }
const json = 'content-type: application/json'
const insertPath = '/vectordb.VectorDB/InsertVector'
const retryLater = /a share of MAX_BUFFERED_BYTES\): try again later$/

/** The first five bytes of a gRPC message: an uncompressed message of this length. */
function head(bytes: number): Buffer {
  const start = Buffer.alloc(5)
  start.writeUInt32BE(bytes, 1)
  return start
}

function announcement(bytes: number): string {
  return `POST /points HTTP/1.1\r\nhost: x\r\n${json}\r\ncontent-length: ${bytes}\r\n\r\n`
}

const chunked = `POST /points HTTP/1.1\r\nhost: x\r\n${json}\r\ntransfer-encoding: chunked\r\n\r\n`

function chunk(bytes: number): string {
  return `${bytes.toString(16)}\r\n${' '.repeat(bytes)}\r\n`
}

function pointBody(content: string): string {
  return JSON.stringify({ vector: [1, 2], payload: { content_type: 'Text', content } })
}

function pointMessage(content: string): Uint8Array {
  const payload = { contentType: 1, content }
  return toBinary(
    InsertVectorRequestSchema,
    create(InsertVectorRequestSchema, { vector: { values: [1, 2] }, payload }),
  )
}

/** Bytes of request bodies in memory. The request for the metrics has no body. */
function held(service: TestService): Promise<number> {
  return figureOf(service, 'vicinal_buffered_request_bytes')
}

function unsent(service: TestService): Promise<number> {
  return figureOf(service, 'vicinal_buffered_answer_bytes')
}

interface HttpOutcome {
  readonly status: number
  readonly text: string
  readonly retryAfter: string | null
}

async function insertOverHttp({ httpUrl }: TestService, content: string): Promise<HttpOutcome> {
  const response = await fetch(`${httpUrl}/points`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: pointBody(content),
  })
  const { status, headers } = response
  return { status, text: await response.text(), retryAfter: headers.get('retry-after') }
}

/** Asserts that small requests pass while large ones fill the memory. */
async function assertSmallOnesPass(service: TestService, grpc: RawGrpc): Promise<void> {
  assert.equal((await insertOverHttp(service, 'small')).status, 201)
  assert.equal((await grpc.send('InsertVector', pointMessage('small'))).code, 0)
  assert.equal(await (await fetch(`${service.httpUrl}/health`)).text(), 'OK')
}

describe('requests that are still arriving', { timeout: 300_000 }, () => {
  let service: TestService
  let grpc: RawGrpc
  const httpPort = (): number => service.service.httpAddress!.port
  const grpcPort = (): number => service.service.grpcAddress.port

  before(async () => {
    // 3 MiB for large requests, 1 MiB for small ones.
    service = await startTestService({
      DIMENSION: '2',
      MAX_BUFFERED_BYTES: String(4 * mebibyte),
    })
    grpc = new RawGrpc(service.grpcAddress, apiKey)
  })
  after(async () => {
    grpc[Symbol.dispose]()
    await service[Symbol.asyncDispose]()
  })

  /** Asserts that no bytes are held, and that the largest possible request succeeds on both transports. */
  async function assertFree(): Promise<void> {
    await until(async () => (await held(service)) === 0)
    const content = 'x'.repeat(3_000_000)
    assert.equal((await insertOverHttp(service, content)).status, 201)
    assert.equal((await grpc.send('InsertVector', pointMessage(content))).code, 0)
  }

  async function assertLargeOnesAreRefused(): Promise<void> {
    using connection = await RawHttp.open(httpPort())
    connection.write(announcement(1_500_000))
    const answer = await connection.answer()
    assert.equal(answer.status, 429)
    assert.match(answer.body, retryLater)
    assert.equal(answer.headers['content-type'], 'text/plain; charset=utf-8')
    assert.equal(answer.headers['retry-after'], '1')
    assert.equal(answer.headers.connection, 'close')
    await connection.closed()

    using raw = new RawHttp2(grpcPort())
    const stream = raw.open(insertPath, key)
    let retryAfter: unknown
    stream.on('response', (headers) => {
      retryAfter = headers['retry-after-ms']
    })
    stream.write(head(1_500_000))
    const { code, message } = await statusOf(stream)
    assert.equal(code, 8, message)
    assert.match(message, retryLater)
    assert.equal(retryAfter, '1000')
  }

  it('share one bound: further large ones are refused immediately, small ones pass, and all memory is freed', async () => {
    const [http, raw] = [await RawHttp.open(httpPort()), new RawHttp2(grpcPort())]
    http.write(announcement(1_200_000))
    const stream = raw.open(insertPath, key)
    stream.on('error', () => {})
    stream.write(head(1_400_000))
    await until(async () => (await held(service)) === 2_600_000)
    await assertLargeOnesAreRefused()
    await assertSmallOnesPass(service, grpc)
    assert.equal(await held(service), 2_600_000)
    http[Symbol.dispose]()
    stream.close(constants.NGHTTP2_CANCEL)
    await assertFree()
    raw[Symbol.dispose]()
  })

  it('are counted as they arrive if their length is not announced', async () => {
    using growing = await RawHttp.open(httpPort())
    growing.write(`${chunked}${chunk(mebibyte)}`)
    // Space for further small parts is counted, too.
    await until(async () => (await held(service)) >= mebibyte)
    growing.write(chunk(mebibyte))
    await until(async () => (await held(service)) >= 2 * mebibyte)
    using second = await RawHttp.open(httpPort())
    second.write(`${chunked}${chunk(900_000)}`)
    await until(async () => (await held(service)) >= 2 * mebibyte + 900_000)
    second.write(chunk(1_000_000))
    const answer = await second.answer()
    assert.equal(answer.status, 429)
    assert.match(answer.body, retryLater)
    await second.closed()
    growing[Symbol.dispose]()
    await assertFree()
  })

  it('may include a single one that is larger than the bound', async () => {
    const content = 'x'.repeat(12 * mebibyte)
    assert.equal((await insertOverHttp(service, content)).status, 201)
    assert.equal((await grpc.send('InsertVector', pointMessage(content))).code, 0)
    await assertFree()
  })

  it('are refused even for a client that sends its whole body before it reads', async () => {
    using raw = new RawHttp2(grpcPort())
    const stream = raw.open(insertPath, key)
    stream.on('error', () => {})
    stream.write(head(3_000_000))
    await until(async () => (await held(service)) > 0)
    const refused = await insertOverHttp(service, 'x'.repeat(2 * mebibyte))
    assert.equal(refused.status, 429)
    assert.equal(refused.retryAfter, '1')
    const outcome = await grpc.send('InsertVector', pointMessage('x'.repeat(2 * mebibyte)))
    assert.equal(outcome.code, 8)
    assert.match(outcome.text, retryLater)
    assert.ok((await figureOf(service, 'vicinal_refused_bodies{body="request"}')) >= 2)
  })

  it('free their memory after a thousand aborted requests', async () => {
    for (let round = 0; round < 10; round += 1) {
      // If the previous round still held memory, some requests of this one would be refused.
      await until(async () => (await held(service)) === 0)
      const sockets = await Promise.all(Array.from({ length: 50 }, () => RawHttp.open(httpPort())))
      for (const socket of sockets) socket.write(announcement(10_000) + ' '.repeat(5000))
      using raw = new RawHttp2(grpcPort())
      const streams = Array.from({ length: 50 }, () => raw.open(insertPath, key))
      for (const stream of streams) {
        stream.on('error', () => {})
        stream.write(Buffer.concat([head(10_000), Buffer.alloc(5000)]))
      }
      await until(async () => (await held(service)) === 50 * 20_000)
      for (const socket of sockets) socket[Symbol.dispose]()
      if (round % 2 === 0) for (const stream of streams) stream.close(constants.NGHTTP2_CANCEL)
    }
    await assertFree()
  })

  it('free their memory after every outcome', async () => {
    const malformed = await fetch(`${service.httpUrl}/points`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"vector":[1],"payload"',
    })
    assert.equal(malformed.status, 400)
    const answers = await Promise.all([
      fetch(`${service.httpUrl}/points/x`, {
        method: 'DELETE',
        headers: { 'content-type': 'application/json' },
        body: 'no matter what',
      }),
      fetch(`${service.httpUrl}/nowhere`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: '{}',
      }),
    ])
    assert.deepEqual(
      answers.map(({ status }) => status),
      [400, 404],
    )
    assert.equal((await grpc.send('InsertVector', Buffer.from([0xff]))).code, 3)
    assert.equal((await grpc.send('InsertVector', pointMessage('x'), { authorization: [] })).code, 16)
    await assertFree()
  })
})

describe('gRPC calls', { timeout: 300_000 }, () => {
  let service: TestService
  const grpcPort = (): number => service.service.grpcAddress.port

  before(async () => {
    service = await startTestService({
      DIMENSION: '2',
      // Also the limit for the complete call, so it is longer than any delay of a busy service.
      requestTimeoutMs: 6000,
    })
  })
  after(() => service[Symbol.asyncDispose]())

  describe('that arrive in part', { concurrency: true }, () => {
    const beginnings = {
      nothing: Buffer.alloc(0),
      'half a head': head(100).subarray(0, 3),
      'half a message': Buffer.concat([head(100), Buffer.alloc(50)]),
      'a truncated message': frame(pointMessage('x')).subarray(0, -1),
    }
    for (const [name, bytes] of Object.entries(beginnings)) {
      it(`time out after ${name}, while other calls on the connection continue`, async () => {
        using raw = new RawHttp2(grpcPort())
        const stream = raw.open(insertPath, key)
        if (bytes.length > 0) stream.write(bytes)
        const late = statusOf(stream)
        assert.equal((await raw.call(insertPath, frame(pointMessage('x')), key)).code, 0)
        const { code, message } = await late
        assert.equal(code, 4)
        assert.match(message, /did not arrive/)
        await until(async () => (await held(service)) === 0)
      })
    }
  })
})

describe('answers that are not read', { timeout: 300_000 }, () => {
  let service: TestService
  let grpc: RawGrpc
  const httpPort = (): number => service.service.httpAddress!.port
  const grpcPort = (): number => service.service.grpcAddress.port

  /** More than the kernel buffers between two local sockets. */
  const content = 'x'.repeat(30 * mebibyte)
  let id: string

  before(async () => {
    service = await startTestService({
      DIMENSION: '2',
      MAX_BUFFERED_BYTES: String(8 * mebibyte),
    })
    grpc = new RawGrpc(service.grpcAddress, apiKey)
    id = JSON.parse((await insertOverHttp(service, content)).text).point_id
  })
  after(async () => {
    grpc[Symbol.dispose]()
    await service[Symbol.asyncDispose]()
  })

  async function askOverHttp(): Promise<Socket> {
    const socket = await opened(httpPort())
    socket.write(`GET /points/${id} HTTP/1.1\r\nhost: x\r\n\r\n`)
    return socket
  }

  /** Opens a call for the point and does not read the response. */
  function askOverGrpc(raw: RawHttp2): ReturnType<RawHttp2['open']> {
    const stream = raw.open('/vectordb.VectorDB/GetPoint', key)
    stream.on('error', () => {})
    stream.end(frame(Buffer.concat([Buffer.from([0x0a, 38, 0x0a, 36]), Buffer.from(id)])))
    return stream
  }

  async function assertRefused(): Promise<void> {
    const response = await fetch(`${service.httpUrl}/points/${id}`)
    assert.equal(response.status, 429)
    assert.match(await response.text(), retryLater)
    const outcome = await grpc.call('GetPoint', { id: { value: id } })
    assert.equal(outcome.code, 8)
    assert.match(outcome.text, retryLater)
  }

  it('share one bound, and are freed when their clients disconnect, over HTTP', async () => {
    const socket = await askOverHttp()
    await until(async () => (await unsent(service)) > content.length)
    await assertRefused()
    await assertSmallOnesPass(service, grpc)
    socket.destroy()
    await until(async () => (await unsent(service)) === 0)
  })

  it('share one bound, and are freed when their clients disconnect, over gRPC', async () => {
    const raw = new RawHttp2(grpcPort())
    askOverGrpc(raw)
    await until(async () => (await unsent(service)) > content.length)
    await assertRefused()
    await assertSmallOnesPass(service, grpc)
    raw[Symbol.dispose]()
    await until(async () => (await unsent(service)) === 0)
  })

  it('are delivered in full to clients that read', async () => {
    const response = await fetch(`${service.httpUrl}/points/${id}`)
    const { payload } = (await response.json()) as { payload: { content: string } }
    assert.ok(payload.content === content)
    await until(async () => (await unsent(service)) === 0)
  })

  describe('after the time for a request', () => {
    before(async () => {
      grpc[Symbol.dispose]()
      await service.restart({ requestTimeoutMs: 6000 })
      grpc = new RawGrpc(service.grpcAddress, apiKey)
    })

    /** The answers that were ready to be sent, also if they were cut off before a busy machine looked at them. */
    function answers(transport: 'http' | 'grpc'): Promise<number> {
      return figureOf(
        service,
        `vicinal_requests_total{operation="GetPoint",transport="${transport}",outcome="ok"}`,
      )
    }

    it('are cut off over HTTP', async () => {
      const socket = await askOverHttp()
      await until(async () => (await answers('http')) === 1)
      await until(async () => (await unsent(service)) === 0)
      socket.resume()
      await once(socket, 'close')
      assert.ok(socket.bytesRead < content.length)
    })

    it('are cut off over gRPC', async () => {
      using raw = new RawHttp2(grpcPort())
      const stream = askOverGrpc(raw)
      await until(async () => (await answers('grpc')) === 1)
      await until(async () => (await unsent(service)) === 0)
      if (!stream.closed) await once(stream, 'close')
      assert.equal(stream.rstCode, constants.NGHTTP2_CANCEL)
      assert.equal((await raw.call(insertPath, frame(pointMessage('x')), key)).code, 0)
    })
  })
})

async function opened(port: number): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1' })
  await once(socket, 'connect')
  socket.pause()
  // The server resets the connection.
  socket.on('error', () => {})
  return socket
}
