import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer as createHttpServer, type ServerResponse } from 'node:http'
import { constants, type OutgoingHttpHeaders } from 'node:http2'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import { createLogger } from '../src/base/log.ts'
import { createHttpClient } from '../src/client/index.ts'
import { ServerCertificate } from '../src/server/certificate.ts'
import { serveHttp2 } from '../src/server/http/http2.ts'
import {
  acknowledged,
  endHeaders,
  endStream,
  h2Frame,
  headerBlock,
  preface,
  types,
  uint32,
} from './fuzz/http2-frames.ts'
import { makeCertsDirectory } from './support/certificates.ts'
import { startFailingHttpServer } from './support/failing-http-server.ts'
import { answerOn, fetchOverHttp2, Http2Client } from './support/http2-client.ts'
import { figureIn } from './support/metrics.ts'
import { RawHttp } from './support/raw-http.ts'
import { startTestService, type TestService } from './support/service.ts'
import type { TestSettings } from './support/settings.ts'
import { until } from './support/until.ts'

/**
 * HTTP/2 on the HTTP port, which clients choose by ALPN: what holds for HTTP/1.1 holds for it, and no client exhausts the
 * service. The suite of the contract runs over it, too.
 */

const mebibyte = 1024 * 1024
const hasOpenssl = spawnSync('openssl', ['version']).status === 0
const point = { vector: [1, 2], payload: { content_type: 'Text', content: 'x' } }

describe('HTTP/2 on the HTTP port', { skip: !hasOpenssl && 'openssl not installed' }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'vicinal-http2-'))
  let certs: string
  let ca: string
  before(() => {
    const made = makeCertsDirectory(folder)
    certs = made.certs
    ca = made.ca
  })
  after(() => rmSync(folder, { recursive: true }))

  const start = (settings: TestSettings = {}): Promise<TestService> =>
    startTestService({ CERTS_DIR: certs, DIMENSION: '2', ...settings })
  const originOf = ({ service }: TestService): string => `https://localhost:${service.httpAddress!.port}`
  const open = (service: TestService, settings?: object): Http2Client =>
    new Http2Client(originOf(service), { ca, settings: settings ?? {} })
  const figure = async (client: Http2Client, name: string): Promise<number> =>
    figureIn((await client.send('GET /metrics')).body, name) ?? 0

  describe('with a client', () => {
    let service: TestService
    let client: Http2Client
    before(async () => {
      service = await start({ requestTimeoutMs: 6000, MAX_BUFFERED_BYTES: '8M', MAX_REQUEST_BYTES: '20M' })
      client = open(service)
    })
    after(async () => {
      client?.[Symbol.dispose]()
      await service?.[Symbol.asyncDispose]()
    })

    it('answers many requests at once on one connection', async () => {
      using fetchOf = fetchOverHttp2({ ca })
      const http = createHttpClient({ baseUrl: originOf(service), fetch: fetchOf })
      const ids = await Promise.all(
        Array.from({ length: 300 }, (_, at) =>
          http.insert({ vector: [at, 1], payload: { contentType: 'Text', content: `${at}` } }),
        ),
      )
      const points = await Promise.all(ids.map((id) => http.get(id)))
      assert.deepEqual(
        points.map(({ payload }) => payload.content),
        ids.map((_, at) => `${at}`),
      )
      const { status, headers } = await client.send('HEAD /health')
      assert.deepEqual([status, headers['content-length']], [200, '2'])
    })

    it('is what the host header says, once', async () => {
      const ask = async (headers: OutgoingHttpHeaders): Promise<[number, string]> => {
        const { status, body } = await client.send('GET /health', headers)
        return [status, body]
      }
      const authority = `localhost:${service.service.httpAddress!.port}`
      assert.deepEqual(await ask({}), [200, 'OK'])
      assert.deepEqual(await ask({ host: authority }), [200, 'OK'])
      const other: [number, string] = [400, `the host header is x.example, but :authority is ${authority}`]
      assert.deepEqual(await ask({ ':authority': authority, host: 'x.example' }), other)
      const [, long] = await ask({ ':authority': authority, host: 'x'.repeat(5000) })
      assert.equal(long, `the host header is ${'x'.repeat(100)}…, but :authority is ${authority}`)
      // The names that an open service on loopback answers to, and the pages that may call it.
      const stats = async (headers: OutgoingHttpHeaders): Promise<number> =>
        (await client.send('GET /stats', headers)).status
      assert.equal(await stats({ ':authority': 'evil.example' }), 421)
      assert.equal(await stats({ origin: originOf(service) }), 200)
      assert.equal(await stats({ origin: 'https://evil.example' }), 403)
    })

    it('has the answers of HTTP/1.1 to what is unusual', async () => {
      assert.deepEqual(
        [(await client.send('GET /nowhere')).status, (await client.send('POST /stats', {}, '{}')).status],
        [404, 405],
      )
      const unknown = await client.send('GET /health', { expect: 'money' })
      assert.deepEqual([unknown.status, unknown.body], [417, 'no such expectation: money'])
      const stream = client.open('POST /points', {
        'content-type': 'application/json',
        expect: '100-continue',
      })
      const answer = answerOn(stream)
      await once(stream, 'continue')
      stream.end(JSON.stringify(point))
      assert.equal((await answer).status, 201)
      const proxy = client.session.request({ ':method': 'CONNECT', ':authority': 'localhost:1' })
      proxy.on('error', () => {}).end()
      const refused = await answerOn(proxy)
      assert.deepEqual([refused.status, refused.body], [405, 'CONNECT is not allowed: this is not a proxy'])
      const long = client.open('GET /health', { 'x-long': 'x'.repeat(20_000) }, false)
      assert.notEqual((await answerOn(long)).code, 0)
      assert.equal((await client.send('GET /health')).status, 200)
    })

    it('refuses bodies that are too large, and those for which there is no memory, and goes on', async () => {
      const json = { 'content-type': 'application/json' }
      const send = async (length: number, headers: OutgoingHttpHeaders = {}) => {
        const stream = client.open('POST /points', { ...json, ...headers })
        stream.write(Buffer.alloc(length, 0x20))
        return await answerOn(stream)
      }
      const declared = await send(1, { 'content-length': '30000000' })
      assert.equal(declared.status, 413)
      const undeclared = await send(21 * mebibyte)
      assert.deepEqual([undeclared.status, undeclared.code], [413, 0])
      const waiting = client.open('POST /points', { ...json, 'content-length': '5000000' })
      waiting.write('{')
      await until(async () => (await figure(client, 'vicinal_buffered_request_bytes')) === 5_000_000)
      const refused = await send(1, { 'content-length': '5000000' })
      assert.deepEqual([refused.status, refused.headers['retry-after'], refused.code], [429, '1', 0])
      assert.match(refused.body, /try again later$/)
      waiting.close(constants.NGHTTP2_CANCEL)
      await until(async () => (await figure(client, 'vicinal_buffered_request_bytes')) === 0)
    })

    it('refuses requests that do not arrive in time, and resets answers that are not read', async () => {
      const late = answerOn(client.open('POST /points', { 'content-type': 'application/json' }))
      const content = 'x'.repeat(10 * mebibyte)
      const stored = JSON.stringify({ ...point, payload: { ...point.payload, content } })
      const { point_id: id } = JSON.parse((await client.send('POST /points', {}, stored)).body)
      const whole = await client.send(`GET /points/${id}`)
      assert.ok(whole.body.includes(content))
      const unread = client.open(`GET /points/${id}`, {}, false)
      await once(unread, 'response')
      // Another one would be more than fits.
      assert.equal((await client.send(`GET /points/${id}`)).status, 429)
      const closed = once(unread, 'close')
      await until(async () => (await figure(client, 'vicinal_buffered_answer_bytes')) === 0)
      await closed
      assert.equal(unread.rstCode, constants.NGHTTP2_CANCEL)
      const { status, body } = await late
      assert.deepEqual([status, body], [408, 'the request did not arrive in time'])
      assert.equal((await client.send('GET /health')).status, 200)
    })

    it('cancels the work of a request that is reset', async () => {
      const vectors = Array.from({ length: 5000 }, (_, at) => ({ ...point, vector: [at, 1] }))
      assert.equal((await client.send('POST /points/batch', {}, JSON.stringify({ vectors }))).status, 201)
      // An ef larger than the index disables the graph.
      const query = { similarity: 'Euclidean', limit: 5, ef: 1_000_000 }
      // Seconds of work.
      const queries = Array.from({ length: 50_000 }, (_, at) => ({ ...query, vector: [at, 1] }))
      const body = JSON.stringify({ queries })
      const search = client.open('POST /points/search/batch', { 'content-type': 'application/json' })
      search.end(body)
      await until(async () => (await figure(client, 'vicinal_queued_queries')) > 0)
      search.close(constants.NGHTTP2_CANCEL)
      await until(async () => (await figure(client, 'vicinal_queued_queries')) === 0)
      const name = 'vicinal_requests_total{operation="SearchPointsBatch",transport="http",outcome='
      assert.equal(await figure(client, `${name}"cancelled"}`), 1)
    })
  })

  it('stays HTTP/1.1 without TLS', async () => {
    await using service = await startTestService()
    using raw = await RawHttp.open(service.service.httpAddress!.port)
    raw.write(Buffer.concat([preface, h2Frame(types.settings, 0, 0)]))
    assert.equal((await raw.answer()).status, 400)
  })

  it('answers what runs when the service stops, refuses what comes, and ends the connection', async () => {
    await using service = await start({ SHUTDOWN_TIMEOUT_MS: '600000' })
    using client = open(service)
    using silent = open(service)
    await silent.send('GET /health')
    const body = JSON.stringify(point)
    const json = { 'content-type': 'application/json', 'content-length': body.length }
    const running = client.open('POST /points', json)
    await until(async () => (await figure(client, 'vicinal_buffered_request_bytes')) === body.length)
    const closing = service.service.close()
    let refused = 200
    while (refused === 200) refused = (await client.send('GET /health')).status
    assert.equal(refused, 503)
    running.end(body)
    assert.equal((await answerOn(running)).status, 201)
    assert.deepEqual(await Promise.all([client.goneAway, silent.goneAway]), [0, 0])
    await Promise.all([client.closed(), silent.closed()])
    await closing
  })

  it('asks clients to connect anew with the next answer', async () => {
    const logger = createLogger({ level: 'silent', pretty: false })
    const certificate = ServerCertificate.in(certs, logger)!
    const server = await startFailingHttpServer(new Error('not asked'), certificate)
    const origin = `https://127.0.0.1:${server.port}`
    using client = new Http2Client(origin, { ca })
    assert.equal((await client.send('GET /health')).status, 200)
    assert.equal(server.connections, 1)
    server.askToReconnect()
    using newer = new Http2Client(origin, { ca })
    const running = client.open('POST /points', { 'content-type': 'application/json' })
    assert.equal((await client.send('GET /health')).status, 200)
    assert.equal(await client.goneAway, 0)
    // What it had sent before is answered.
    running.end('{')
    assert.equal((await answerOn(running)).status, 400)
    await client.closed()
    assert.equal((await newer.send('GET /health')).status, 200)
    assert.equal((await newer.send('GET /health')).status, 200)
    newer.session.close()
    await until(() => server.connections === 0)
    await server.close(0)
    certificate.close()
  })

  describe('with a hostile client', () => {
    let service: TestService
    let client: Http2Client
    before(async () => {
      service = await start({ requestTimeoutMs: 6000 })
      client = open(service)
    })
    after(async () => {
      client?.[Symbol.dispose]()
      await service?.[Symbol.asyncDispose]()
    })

    /** A connection on which any frames can be sent. */
    async function openRaw(): Promise<TLSSocket> {
      const { port } = service.service.httpAddress!
      const socket = connectTls({ host: 'localhost', port, ca, ALPNProtocols: ['h2'] })
      await once(socket, 'secureConnect')
      socket.on('error', () => {})
      socket.write(Buffer.concat([preface, h2Frame(types.settings, 0, 0)]))
      return socket
    }

    const get = headerBlock([
      [':method', 'GET'],
      [':path', '/stats'],
      [':scheme', 'https'],
      [':authority', 'localhost'],
    ])
    const request = (id: number): Buffer => h2Frame(types.headers, endHeaders | endStream, id, get)
    const floods: Readonly<Record<string, (round: number) => Buffer>> = {
      'requests that it resets at once': (round) =>
        Buffer.concat([request(2 * round + 1), h2Frame(types.reset, 0, 2 * round + 1, uint32(8))]),
      pings: () => h2Frame(types.ping, 0, 0, Buffer.alloc(8)),
      settings: () => h2Frame(types.settings, 0, 0),
      'more requests than it may': (round) => request(2 * round + 1),
      'headers without end': (round) =>
        h2Frame(round === 0 ? types.headers : types.continuation, 0, 1, Buffer.concat([get, get, get])),
    }
    for (const [name, frame] of Object.entries(floods)) {
      it(`ends a connection with ${name}, and serves the others`, async () => {
        const socket = await openRaw()
        // It reads nothing, so that what it is to acknowledge waits.
        const ended = new Promise((resolve) => socket.once('close', resolve))
        for (let round = 0; round < 20_000 && !socket.destroyed; round += 1) {
          if (!socket.write(frame(round))) await new Promise((resolve) => setImmediate(resolve))
        }
        socket.resume()
        await ended
        assert.equal((await client.send('GET /health')).status, 200)
      })
    }

    it('keeps no answer for a client that does not read it', async () => {
      const content = 'x'.repeat(30 * mebibyte)
      const stored = JSON.stringify({ ...point, payload: { ...point.payload, content } })
      const { point_id: id } = JSON.parse((await client.send('POST /points', {}, stored)).body)
      const socket = await openRaw()
      const window = h2Frame(types.settings, 0, 0, Buffer.concat([Buffer.of(0, 4), uint32(2 ** 31 - 1)]))
      const more = h2Frame(types.windowUpdate, 0, 0, uint32(2 ** 31 - 1 - 65_535))
      const head = headerBlock([
        [':method', 'GET'],
        [':path', `/points/${id}`],
        [':scheme', 'https'],
        [':authority', 'localhost'],
      ])
      socket.write(
        Buffer.concat([
          window,
          more,
          h2Frame(types.settings, acknowledged, 0),
          h2Frame(types.headers, endHeaders | endStream, 1, head),
        ]),
      )
      await until(async () => (await figure(client, 'vicinal_buffered_answer_bytes')) > content.length)
      await until(async () => (await figure(client, 'vicinal_buffered_answer_bytes')) === 0)
      socket.destroy()
      assert.equal((await client.send('GET /health')).status, 200)
    })
  })
})

describe('a connection over HTTP/2', () => {
  const large = Buffer.alloc(64 * mebibyte)

  /** Serves connections without TLS; answers requests for some paths only. */
  async function startServer(
    options: { readonly requestTimeoutMs?: number; readonly keepAliveMs?: number } = {},
  ): Promise<AsyncDisposable & { readonly port: number }> {
    let held: ServerResponse | undefined
    const http = createHttpServer((request, response) => {
      if (request.url === '/at-once') response.end('done')
      if (request.url === '/empty') response.writeHead(request.method === 'HEAD' ? 200 : 204).end()
      if (request.url === '/held') held = response
      if (request.url === '/large') {
        response.end(large)
        // While most of it waits to be sent.
        setImmediate(() => held?.destroy())
      }
    })
    const server = createServer((socket) => {
      socket.on('error', () => {})
      serveHttp2(socket, http, { requestTimeoutMs: 60_000, keepAliveMs: 60_000, ...options })
    }).listen(0)
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    return {
      port,
      async [Symbol.asyncDispose]() {
        server.close()
        await once(server, 'close')
      },
    }
  }

  it('ends when it has no request for some time', async () => {
    await using server = await startServer({ keepAliveMs: 1000 })
    using client = new Http2Client(`http://localhost:${server.port}`, {})
    let pings = 0
    client.session.on('ping', () => {
      pings += 1
    })
    assert.equal((await client.send('GET /at-once')).body, 'done')
    assert.equal(await client.goneAway, 0)
    // It has not waited any longer than for the first of them.
    assert.equal(pings, 0)
    await client.closed()
  })

  it('ends when the client does not begin', async () => {
    await using server = await startServer({ requestTimeoutMs: 1000 })
    using client = new Http2Client(`http://localhost:${server.port}`, {})
    assert.equal((await client.send('GET /at-once')).body, 'done')
    using silent = await RawHttp.open(server.port)
    await silent.closed()
    assert.equal((await client.send('GET /at-once')).body, 'done')
  })

  it('stays open when a request is reset while the client reads a large answer', async () => {
    await using server = await startServer()
    const window = 2 ** 31 - 1
    using client = new Http2Client(`http://localhost:${server.port}`, {
      settings: { initialWindowSize: window },
    })
    await once(client.session, 'localSettings')
    client.session.setLocalWindowSize(window)
    const reset = answerOn(client.open('GET /held', {}, false))
    const { body, code } = await answerOn(client.open('GET /large', {}, false))
    assert.deepEqual([body.length, code], [large.length, 0])
    assert.equal((await reset).code, constants.NGHTTP2_CANCEL)
  })

  it('ends the upload of a request whose answer has no body', async () => {
    await using server = await startServer()
    using client = new Http2Client(`http://localhost:${server.port}`, {})
    for (const [method, expected] of [
      ['HEAD', 200],
      ['POST', 204],
    ] as const) {
      const { status, code } = await answerOn(client.open(`${method} /empty`))
      assert.deepEqual([status, code], [expected, constants.NGHTTP2_NO_ERROR])
    }
  })

  it('stays open while a request runs, if the client answers pings', async () => {
    await using server = await startServer({ keepAliveMs: 1000 })
    using client = new Http2Client(`http://localhost:${server.port}`, {})
    const running = client.open('GET /later', {}, false)
    for (let pings = 0; pings < 3; pings += 1) await once(client.session, 'ping')
    assert.equal(running.closed, false)
    using silent = await RawHttp.open(server.port)
    const head = headerBlock([
      [':method', 'GET'],
      [':path', '/later'],
      [':scheme', 'http'],
      [':authority', 'x'],
    ])
    const request = h2Frame(types.headers, endHeaders | endStream, 1, head)
    silent.write(Buffer.concat([preface, h2Frame(types.settings, 0, 0), request]))
    await silent.closed()
    assert.equal(running.closed, false)
  })
})
