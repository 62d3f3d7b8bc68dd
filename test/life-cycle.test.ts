import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { type ClientRequest, type IncomingMessage, request } from 'node:http'
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from 'node:http2'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { crc32 } from 'node:zlib'
import { Client, credentials } from '@grpc/grpc-js'
import { service as healthService } from 'grpc-health-check'
import type { ApiContext } from '../src/api/call.ts'
import { hashOfKey, RefusedKeys } from '../src/base/api-key.ts'
import { createBodyBudgets } from '../src/base/budgets.ts'
import { createLogger } from '../src/base/log.ts'
import { ServiceMetrics } from '../src/base/metrics.ts'
import { startWarnings } from '../src/cli/serve.ts'
import { createGrpcClient, createHttpClient, DatabaseError } from '../src/client/index.ts'
import { ConfigError, readConfig } from '../src/config.ts'
import { startService } from '../src/main.ts'
import { databasePath } from '../src/storage/files/data-directory.ts'
import { rowsVersion } from '../src/storage/key-layout.ts'
import { startTransports, type Transports } from '../src/transports.ts'
import { freePort } from './support/free-ports.ts'
import { noCollections } from './support/no-collections.ts'
import { Command, type Ended, run, ServerProcess, temporaryDirectory } from './support/process.ts'
import { startTestService } from './support/service.ts'

const apiKey = 'a-key-that-is-nowhere-else'
const point = { vector: [1, 2, 3], payload: { contentType: 'Text', content: 'one' } } as const
const body = JSON.stringify({ vector: [1, 2, 3], payload: { content_type: 'Text', content: 'one' } })

/** An insert over HTTP whose last byte is not sent yet. */
class UnfinishedHttpInsert {
  readonly #request: ClientRequest
  readonly #answer: Promise<IncomingMessage>

  private constructor(url: string) {
    const headers = {
      'content-type': 'application/json',
      'content-length': body.length,
      expect: '100-continue',
    }
    this.#request = request(`${url}/points`, { method: 'POST', headers })
    this.#answer = once(this.#request, 'response').then(([response]) => response as IncomingMessage)
    // A test that never finishes its request expects this failure.
    this.#answer.catch(() => {})
  }

  static async begin(url: string): Promise<UnfinishedHttpInsert> {
    const insert = new UnfinishedHttpInsert(url)
    insert.#request.flushHeaders()
    // The server now knows of the request, so a stop does not treat its connection as idle.
    await once(insert.#request, 'continue')
    await new Promise((resolve) => insert.#request.write(body.slice(0, -1), resolve))
    return insert
  }

  async finish(): Promise<number | undefined> {
    this.#request.end(body.slice(-1))
    const response = await this.#answer
    response.resume()
    return response.statusCode
  }
}

/** An insert over gRPC whose last byte is not sent yet: InsertVectorRequest in wire format. */
class UnfinishedGrpcInsert {
  readonly #session: ClientHttp2Session
  readonly #stream: ClientHttp2Stream
  readonly #message: Buffer

  private constructor(address: string) {
    this.#session = connect(`http://${address}`)
    // A test that never finishes its call expects its connection to be cut.
    this.#session.on('error', () => {})
    this.#stream = this.#session.request({
      ':method': 'POST',
      ':path': '/vectordb.VectorDB/InsertVector',
      'content-type': 'application/grpc',
      te: 'trailers',
      authorization: apiKey,
    })
    this.#stream.on('error', () => {})
    const values = Buffer.from(Float32Array.of(1, 2, 3).buffer)
    const vector = Buffer.concat([Buffer.of(0x0a, 14, 0x0a, 12), values])
    const payload = Buffer.concat([Buffer.of(0x12, 7, 0x08, 1, 0x12, 3), Buffer.from('one')])
    const head = Buffer.of(0, 0, 0, 0, vector.length + payload.length)
    this.#message = Buffer.concat([head, vector, payload])
  }

  static async begin(address: string): Promise<UnfinishedGrpcInsert> {
    const insert = new UnfinishedGrpcInsert(address)
    await new Promise((resolve) => insert.#stream.write(insert.#message.subarray(0, -1), resolve))
    // An answered ping proves that the server has read everything sent before it.
    await new Promise((resolve) => insert.#session.ping(resolve))
    return insert
  }

  async finish(): Promise<number> {
    const trailers = once(this.#stream, 'trailers')
    this.#stream.end(this.#message.subarray(-1))
    this.#stream.resume()
    const [headers] = (await trailers) as [Record<string, string>]
    this.#session.close()
    return Number(headers['grpc-status'])
  }
}

describe('a server told to stop', () => {
  it('running requests of both transports succeed, new ones get 503 or no connection, and the process exits with 0', async () => {
    await using directory = await temporaryDirectory()
    const settings = { GRPC_ROOT_PASSWORD: apiKey, SHUTDOWN_TIMEOUT_MS: '600000' }
    await using server = await ServerProcess.start(directory.path, settings)
    const overHttp = await UnfinishedHttpInsert.begin(server.httpUrl)
    const overGrpc = await UnfinishedGrpcInsert.begin(server.grpcAddress)
    server.command.kill('SIGTERM')
    await server.command.says(/"msg":"stopping/)

    const late = await fetch(`${server.httpUrl}/health`).catch(() => undefined)
    if (late !== undefined) assert.deepEqual([late.status, late.headers.get('connection')], [503, 'close'])
    assert.equal(await overHttp.finish(), 201)
    assert.equal(await overGrpc.finish(), 0)
    assert.equal((await server.command.ended).code, 0)

    await using again = await startTestService({ DATA_DIR: directory.path })
    const stats = await (await fetch(`${again.httpUrl}/stats`)).json()
    assert.deepEqual([stats.points, stats.dimension], [2, 3])
  })

  it('cuts off requests that last longer than SHUTDOWN_TIMEOUT_MS, and still exits with 0', async () => {
    await using directory = await temporaryDirectory()
    const settings = { GRPC_ROOT_PASSWORD: apiKey, SHUTDOWN_TIMEOUT_MS: '200' }
    await using server = await ServerProcess.start(directory.path, settings)
    await UnfinishedHttpInsert.begin(server.httpUrl)
    await UnfinishedGrpcInsert.begin(server.grpcAddress)
    const startMs = performance.now()
    server.command.kill('SIGINT')
    const { code, stderr } = await server.command.ended
    assert.deepEqual({ code, stderr }, { code: 0, stderr: '' })
    assert.ok(performance.now() - startMs >= 200)
  })

  it('exits immediately on a second signal', async () => {
    await using directory = await temporaryDirectory()
    await using server = await ServerProcess.start(directory.path, { SHUTDOWN_TIMEOUT_MS: '600000' })
    await UnfinishedHttpInsert.begin(server.httpUrl)
    server.command.kill('SIGINT')
    await server.command.says(/"msg":"stopping/)
    // Two signals in quick succession count as one: npm forwards a signal that the terminal has already sent.
    await delay(400)
    server.command.kill('SIGTERM')
    assert.equal((await server.command.ended).code, 143)
  })
})

describe('a start', () => {
  it('fails on bad settings, and names them all with their values', async () => {
    await using directory = await temporaryDirectory()
    const settings = { DATA_DIR: directory.path, HNSW_EF: 'much', DISABLE_HTTP: 'yes' }
    const { code, stdout, stderr } = await run(['serve', '--http-port', '70000'], settings)
    assert.deepEqual({ code, stdout }, { code: 2, stdout: '' })
    assert.match(stderr, /HNSW_EF: "much" is not a whole number from 1 to 1000000/)
    assert.match(stderr, /--http-port: "70000" is not a whole number from 0 to 65535/)
    assert.match(stderr, /DISABLE_HTTP: "yes" is not true or false/)
  })

  it('on a port in use names host, port and setting', async () => {
    await using directory = await temporaryDirectory()
    await using taken = await takePort()
    for (const [name, transport, host] of [
      ['GRPC_PORT', 'gRPC', 'localhost'],
      ['HTTP_PORT', 'HTTP', '127.0.0.1'],
    ] as const) {
      const free = { DATA_DIR: directory.path, GRPC_PORT: '0', HTTP_PORT: '0' }
      const { code, stderr } = await run(['serve'], { ...free, [name]: String(taken.port) })
      assert.equal(code, 1)
      assert.equal(
        stderr,
        `vicinal: ${transport} cannot listen on ${host} port ${taken.port} (${name}): listen EADDRINUSE: address already in use 127.0.0.1:${taken.port}\n`,
      )
    }
  })

  it('with a damaged vector names file, slot and byte', async () => {
    await using directory = await temporaryDirectory()
    await insertPoint(directory.path)
    const path = join(directory.path, 'collections/0/vectors.rows')
    const rows = await readFile(path)
    rows[rows.length - 5]! ^= 1
    await writeFile(path, rows)
    const { code, stderr } = await run(['serve'], {
      DATA_DIR: directory.path,
      GRPC_PORT: '0',
      HTTP_PORT: '0',
    })
    assert.equal(code, 1)
    assert.match(
      stderr,
      /^vicinal: \S*vectors\.rows cannot be used: the row of slot 0 at byte 4096 is damaged[^\n]*\n$/,
    )
  })

  it('on data of a newer format names both numbers and changes nothing', async () => {
    await using directory = await temporaryDirectory()
    await insertPoint(directory.path)
    const path = join(directory.path, 'collections/0/vectors.rows')
    const rows = await readFile(path)
    rows.writeUInt32LE(rowsVersion + 1, 8)
    rows.writeUInt32LE(crc32(rows.subarray(0, 16)), 16)
    await writeFile(path, rows)
    const database = await readFile(databasePath(directory.path))
    const settings = { DATA_DIR: directory.path, GRPC_PORT: '0', HTTP_PORT: '0' }
    const { code, stderr } = await run(['serve'], settings)
    assert.equal(code, 1)
    const numbers = `format version ${rowsVersion + 1}, this program reads ${rowsVersion}`
    assert.match(stderr, new RegExp(`^vicinal: \\S*vectors\\.rows .*${numbers}\\.`))
    assert.deepEqual(await readFile(path), rows)
    assert.deepEqual(await readFile(databasePath(directory.path)), database)
  })

  it('with a DIMENSION other than the stored one names both', async () => {
    await using directory = await temporaryDirectory()
    await insertPoint(directory.path)
    const { code, stderr } = await run(['serve'], { DATA_DIR: directory.path, DIMENSION: '4' })
    assert.equal(code, 1)
    assert.match(stderr, /^vicinal: .*\b4\b.*\b3\b|^vicinal: .*\b3\b.*\b4\b/)
  })
})

describe('a start with probable mistakes', () => {
  it('refuses HTTP that is open to other machines without a key, and says three ways out', async () => {
    await using directory = await temporaryDirectory()
    const { code, stderr } = await run(['serve'], { DATA_DIR: directory.path, HTTP_HOST: '0.0.0.0' })
    assert.equal(code, 2)
    assert.match(stderr, /^vicinal: HTTP would be open: it listens on 0\.0\.0\.0 \(HTTP_HOST\) without a key/)
    for (const way of ['HTTP_API_KEY or API_KEYS_FILE', 'HTTP_HOST=127.0.0.1', 'HTTP_OPEN=true']) {
      assert.ok(stderr.includes(way), way)
    }
    assert.equal(existsSync(join(directory.path, 'api-key')), false)
    await assert.rejects(startService(readConfig({ DATA_DIR: directory.path, HTTP_HOST: '::' })), ConfigError)
    const others: readonly Record<string, string>[] = [
      { HTTP_HOST: '0.0.0.0', HTTP_API_KEY: apiKey },
      { HTTP_HOST: '0.0.0.0', API_KEYS_FILE: 'keys' },
      { HTTP_HOST: '0.0.0.0', DISABLE_HTTP: 'true' },
      { HTTP_HOST: 'localhost' },
    ]
    for (const settings of others) {
      assert.deepEqual(await startWarnings(readConfig(settings), settings), [])
    }
  })

  it('warns of HTTP that HTTP_OPEN opens to other machines without a key, at any log level', async () => {
    await using directory = await temporaryDirectory()
    const open = { HTTP_OPEN: 'true', LOG_LEVEL: 'silent', GRPC_PORT: '0', HTTP_PORT: '0' }
    const command = new Command(['serve'], { DATA_DIR: directory.path, ...open, HTTP_HOST: '::' })
    await once(command.child.stderr, 'data')
    command.kill('SIGKILL')
    const { stdout, stderr } = await command.ended
    assert.equal(stdout, '')
    assert.match(stderr, /^vicinal: WARNING: HTTP IS OPEN \(HTTP_OPEN\): it listens on ::/)
  })
})

describe('a running server', () => {
  it('is healthy before it is ready, and reports over both transports when it is ready', async () => {
    let isReady = false
    await using closers = new AsyncDisposableStack()
    const transports = await listenWithoutData(() => isReady)
    closers.defer(() => transports.close(100))
    const httpUrl = `http://127.0.0.1:${transports.ports.http}`
    const grpcAddress = `localhost:${transports.ports.grpc}`
    const early = await fetch(`${httpUrl}/readyz`)
    assert.equal(early.status, 503)
    assert.equal(early.headers.get('retry-after'), '1')
    assert.equal((await fetch(`${httpUrl}/health`)).status, 200)
    await assert.rejects(createHttpClient({ baseUrl: httpUrl, retries: 0 }).insert(point), {
      reason: 'not_ready',
    })
    const grpc = createGrpcClient({ address: grpcAddress, apiKey, retries: 0 })
    closers.defer(() => grpc.close())
    await assert.rejects(grpc.insert(point), { reason: 'not_ready' })
    assert.equal(await grpcHealth(grpcAddress), 'NOT_SERVING')
    isReady = true
    transports.setServing(true)
    assert.equal((await fetch(`${httpUrl}/readyz`)).status, 200)
    assert.equal(await grpcHealth(grpcAddress), 'SERVING')
  })

  it('opens no HTTP port when DISABLE_HTTP is true', async () => {
    await using directory = await temporaryDirectory()
    const port = await freePort()
    const settings = { DISABLE_HTTP: 'true', HTTP_PORT: String(port), GRPC_ROOT_PASSWORD: apiKey }
    await using server = await startTestService({ DATA_DIR: directory.path, ...settings })
    assert.equal(server.service.httpAddress, undefined)
    await assert.rejects(fetch(`http://127.0.0.1:${port}/health`))
    const grpc = createGrpcClient({ address: server.grpcAddress, apiKey, retries: 0 })
    await grpc.insert(point)
    await grpc.close()
  })
})

describe('the process of a server', () => {
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>
  let server: ServerProcess

  before(async () => {
    directory = await temporaryDirectory()
    const settings = { HTTP_API_KEY: `${apiKey}-http`, LOG_LEVEL: 'trace' }
    server = await ServerProcess.start(directory.path, settings)
  })
  after(async () => {
    await server[Symbol.asyncDispose]()
    await directory[Symbol.asyncDispose]()
  })

  it('is named by a start on its data directory', async () => {
    const { code, stderr } = await run(['serve'], { DATA_DIR: directory.path })
    assert.equal(code, 1)
    assert.equal(
      stderr,
      `vicinal: data directory ${directory.path} is in use by process ${server.command.child.pid}\n`,
    )
  })

  it('writes JSON lines without keys, whatever it receives', async () => {
    const generated = (await readFile(`${directory.path}/api-key`, 'utf8')).trim()
    for (const [key, reason] of [
      [generated, 'invalid_argument'],
      ['a-wrong-key-that-came-in', 'unauthenticated'],
    ] as const) {
      const grpc = createGrpcClient({ address: server.grpcAddress, apiKey: key, retries: 0 })
      await assert.rejects(grpc.list({ cursor: 'nonsense' }), { reason })
      await grpc.close()
    }
    const http = createHttpClient({ baseUrl: server.httpUrl, apiKey: `${apiKey}-http` })
    await http.insert(point)
    await assert.rejects(http.list({ cursor: 'nonsense' }), DatabaseError)
    server.command.kill('SIGTERM')
    const { stdout, stderr } = await server.command.ended
    for (const line of stdout.trim().split('\n')) assert.equal(typeof JSON.parse(line), 'object')
    for (const secret of [generated, apiKey, 'a-wrong-key-that-came-in']) {
      assert.ok(!(stdout + stderr).includes(secret), `the log holds ${secret}`)
    }
  })
})

describe('a server with flags and settings', () => {
  let ended: Ended

  before(async () => {
    await using directory = await temporaryDirectory()
    const flags = ['--disable-http', '--grpc-port', '0', '--data-dir', directory.path]
    const overruled = { DISABLE_HTTP: 'false', DATA_DIR: '/nowhere' }
    const misspelled = { HTTP_APIKEY: 'a-secret', HTTP_PROXY: 'http://proxy', NODE_ENV: 'production' }
    const command = new Command(flags, { THREADS: '1', ...overruled, ...misspelled })
    await command.says(/"msg":"ready"/)
    command.kill('SIGTERM')
    ended = await command.ended
  })

  it('prefers flags to the environment, and accepts boolean flags without a value', () => {
    assert.equal(ended.code, 0)
    assert.doesNotMatch(ended.stdout, /HTTP listens/)
  })

  it('names misspelled settings, in the log and on stderr, without their values', () => {
    const { stdout, stderr } = ended
    assert.match(stdout, /"level":40,.*"msg":"HTTP_APIKEY is not a setting /)
    assert.match(stderr, /^vicinal: WARNING: HTTP_APIKEY is not a setting [^\n]*\n$/)
    assert.doesNotMatch(stdout + stderr, /a-secret|HTTP_PROXY|NODE_ENV/)
  })
})

/** Leaves a data directory with a point of three dimensions. */
async function insertPoint(dataDir: string): Promise<void> {
  await using server = await startTestService({ DATA_DIR: dataDir })
  await createHttpClient({ baseUrl: server.httpUrl, retries: 0 }).insert(point)
}

async function takePort(): Promise<AsyncDisposable & { readonly port: number }> {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  return {
    port,
    async [Symbol.asyncDispose]() {
      server.close()
      await once(server, 'close')
    },
  }
}

/** The transports of a service that is still loading its data. */
async function listenWithoutData(isReady: () => boolean): Promise<Transports> {
  const context: ApiContext = {
    get database(): never {
      throw new DatabaseError('not_ready', 'the stored points are still loading')
    },
    collections: noCollections,
    limits: { maxLimit: 10, hnswEf: 10 },
  }
  const config = readConfig({})
  const logger = createLogger({ level: 'silent', pretty: false })
  return startTransports({
    config,
    context,
    budgets: createBodyBudgets(config),
    metrics: new ServiceMetrics(),
    logger,
    keys: { grpc: [{ name: 'test', hash: hashOfKey(apiKey), role: 'write' }], http: undefined },
    refusedKeys: new RefusedKeys(logger),
    readiness() {
      if (isReady()) return []
      throw new DatabaseError('not_ready', 'the stored points are still loading')
    },
    ports: { grpc: 0, http: 0 },
  })
}

async function grpcHealth(address: string): Promise<string> {
  const client = new Client(address, credentials.createInsecure())
  const { path, requestSerialize, responseDeserialize } = healthService.Check!
  try {
    return await new Promise((resolve, reject) => {
      client.makeUnaryRequest(path, requestSerialize, responseDeserialize, {}, (error, answer) =>
        error === null ? resolve((answer as { readonly status: string }).status) : reject(error),
      )
    })
  } finally {
    client.close()
  }
}
