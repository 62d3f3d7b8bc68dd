import assert from 'node:assert/strict'
import { lookup } from 'node:dns/promises'
import { once } from 'node:events'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { create, fromBinary, toBinary, toJson } from '@bufbuild/protobuf'
import { type FileDescriptorProto, FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt'
import {
  Client,
  type ClientDuplexStream,
  type ClientReadableStream,
  credentials,
  Metadata,
  type MethodDefinition,
  type ServiceDefinition,
  type ServiceError,
} from '@grpc/grpc-js'
import { loadSync } from '@grpc/proto-loader'
import { service as healthService } from 'grpc-health-check'
import {
  file_vectordb,
  InsertVectorRequestSchema,
  SearchPointsBatchRequestSchema,
  VectorDB,
} from './support/generated-messages.ts'
import { RawGrpc } from './support/raw-grpc.ts'
import { frame, RawHttp2, statusOf } from './support/raw-http2.ts'
import { apiKey, startTestService, type TestService } from './support/service.ts'

/** gRPC apart from the operations: reflection, health, keys, bounds, hostile calls, and shutdown. */

const status = {
  ok: 0,
  cancelled: 1,
  invalidArgument: 3,
  deadlineExceeded: 4,
  notFound: 5,
  resourceExhausted: 8,
  unimplemented: 12,
  unavailable: 14,
  unauthenticated: 16,
} as const

const maxRequestBytes = 20_000
const insertPath = '/vectordb.VectorDB/InsertVector'
const key = { authorization: apiKey }

const reflectionServices = ['v1', 'v1alpha'].map((version) => {
  const root = fileURLToPath(new URL('../../proto/', import.meta.resolve('@grpc/reflection')))
  const name = `grpc.reflection.${version}.ServerReflection`
  const file = `grpc/reflection/${version}/reflection.proto`
  return loadSync(file, { includeDirs: [root, `${root}/../build/proto`] })[name] as ServiceDefinition
})

interface ReflectionAnswer {
  readonly listServicesResponse?: { readonly service: readonly { readonly name: string }[] }
  readonly fileDescriptorResponse?: { readonly fileDescriptorProto: readonly Buffer[] }
  readonly errorResponse?: { readonly errorCode: number }
}

function methodOf(service: ServiceDefinition, name: string): MethodDefinition<object, unknown> {
  return service[name] as MethodDefinition<object, unknown>
}

/** Sends one request to a reflection service. */
function reflect(client: Client, service: ServiceDefinition, question: object, metadata: Metadata) {
  const { path, requestSerialize, responseDeserialize } = methodOf(service, 'ServerReflectionInfo')
  const stream = client.makeBidiStreamRequest(path, requestSerialize, responseDeserialize, metadata)
  return new Promise<ReflectionAnswer>((resolve, reject) => {
    stream.on('data', (answer: ReflectionAnswer) => {
      resolve(answer)
      stream.end()
    })
    stream.on('error', reject)
    stream.write(question)
  })
}

function checkHealth(client: Client, service: string): Promise<{ readonly status: string }> {
  const { path, requestSerialize, responseDeserialize } = methodOf(healthService, 'Check')
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(path, requestSerialize, responseDeserialize, { service }, (error, answer) =>
      error ? reject(error) : resolve(answer as { status: string }),
    )
  })
}

function watchHealth(client: Client, service: string): ClientReadableStream<unknown> {
  const { path, requestSerialize, responseDeserialize } = methodOf(healthService, 'Watch')
  return client.makeServerStreamRequest(path, requestSerialize, responseDeserialize, { service })
}

function keyed(...values: readonly string[]): Metadata {
  const metadata = new Metadata()
  for (const value of values) metadata.add('authorization', value)
  return metadata
}

function pointBytes(contentBytes: number): Uint8Array {
  const payload = { contentType: 1, content: 'x'.repeat(contentBytes) }
  return toBinary(
    InsertVectorRequestSchema,
    create(InsertVectorRequestSchema, { vector: { values: [1, 2] }, payload }),
  )
}

describe('the gRPC server', { timeout: 300_000 }, () => {
  let service: TestService
  let port: number
  let client: Client
  let grpc: RawGrpc
  let raw: RawHttp2

  before(async () => {
    service = await startTestService({ DIMENSION: '2', MAX_REQUEST_BYTES: String(maxRequestBytes) })
    port = service.service.grpcAddress.port
    client = new Client(service.grpcAddress, credentials.createInsecure())
    grpc = new RawGrpc(service.grpcAddress, apiKey)
    raw = new RawHttp2(port)
  })
  after(async () => {
    client.close()
    grpc[Symbol.dispose]()
    raw[Symbol.dispose]()
    await service[Symbol.asyncDispose]()
  })

  /** Asserts that the server still works, on the connection that all earlier tests used. */
  async function assertAlive(): Promise<void> {
    assert.equal((await checkHealth(client, '')).status, 'SERVING')
    assert.equal((await grpc.call('InsertVector', insertion)).code, status.ok)
    const { code } = await raw.call(insertPath, frame(pointBytes(1)), key)
    assert.equal(code, status.ok)
  }

  const insertion = { vector: { values: [1, 2] }, payload: { contentType: 1, content: 'x' } }

  describe('reflection', () => {
    for (const [index, reflection] of reflectionServices.entries()) {
      it(`lists the service and returns its file as in proto/, version ${index === 0 ? '1' : '1 alpha'}`, async () => {
        const { listServicesResponse } = await reflect(
          client,
          reflection,
          { listServices: '' },
          keyed(apiKey),
        )
        assert.ok(listServicesResponse!.service.some(({ name }) => name === 'vectordb.VectorDB'))
        for (const symbol of ['vectordb.VectorDB', 'vectordb.SearchRequest']) {
          const question = { fileContainingSymbol: symbol }
          const { fileDescriptorResponse } = await reflect(client, reflection, question, keyed(apiKey))
          const files = fileDescriptorResponse!.fileDescriptorProto.map((bytes) =>
            fromBinary(FileDescriptorProtoSchema, bytes),
          )
          assert.deepEqual(
            files.map(({ name }) => name),
            ['vectordb.proto', 'google/protobuf/empty.proto'],
          )
          assert.deepEqual(plain(files[0]!), plain(file_vectordb.proto))
        }
      })

      it(`is closed to callers without the key, version ${index === 0 ? '1' : '1 alpha'}`, async () => {
        for (const values of [[], ['wrong'], ['']]) {
          await assert.rejects(reflect(client, reflection, { listServices: '' }, keyed(...values)), {
            code: status.unauthenticated,
          })
        }
      })
    }

    /** A descriptor without the meaningless differences between compilers. */
    function plain(file: FileDescriptorProto): unknown {
      const json = JSON.stringify(toJson(FileDescriptorProtoSchema, file), (key, value) =>
        key === 'jsonName' || key === 'options' || value === false ? undefined : value,
      )
      return JSON.parse(json)
    }
  })

  describe('health', () => {
    it('is open without a key, for the server and for the service', async () => {
      for (const name of ['', 'vectordb.VectorDB']) {
        assert.equal((await checkHealth(client, name)).status, 'SERVING')
        const watch = watchHealth(client, name)
        const [answer] = await once(watch, 'data')
        assert.equal(answer.status, 'SERVING')
        watch.on('error', () => {})
        watch.cancel()
      }
    })

    it('does not know other services', async () => {
      await assert.rejects(checkHealth(client, 'vectordb.Other'), { code: status.notFound })
    })
  })

  describe('the key', () => {
    const wrong: Readonly<Record<string, string>>[] = [
      {},
      { authorization: '' },
      { authorization: 'wrong' },
      { authorization: apiKey.toUpperCase() },
      { authorization: `${apiKey} ${apiKey}` },
      { authorization: `Bearer${apiKey}` },
      { authorization: `Basic ${apiKey}` },
      { authorization: 'Bearer ' },
      { authorization: 'x'.repeat(10_000) },
      { authorization: 'k\u00e9y' },
      { authorization: `${apiKey}, ${apiKey}` },
      { 'authorization-bin': apiKey },
      { 'x-api-key': apiKey },
    ]
    const paths = VectorDB.methods.map(({ name }) => `/vectordb.VectorDB/${name}`)

    it('is required for every method, whatever else is in the headers', async () => {
      for (const path of paths) {
        for (const headers of wrong) {
          const { code, message } = await raw.call(path, frame(Buffer.alloc(0)), headers)
          assert.equal(code, status.unauthenticated, `${path} ${JSON.stringify(headers).slice(0, 100)}`)
          assert.match(message, /API key/)
          assert.doesNotMatch(message, new RegExp(apiKey))
        }
      }
    })

    it('is checked first: without it, no size or fault of the message is disclosed', async () => {
      for (const body of [frame(Buffer.from([0xff])), frame(Buffer.alloc(30_000)), Buffer.from([9])]) {
        assert.equal((await raw.call(insertPath, body)).code, status.unauthenticated)
      }
      const stream = raw.open(insertPath)
      assert.equal((await statusOf(stream)).code, status.unauthenticated)
    })

    it('is accepted bare and as a bearer token', async () => {
      for (const authorization of [apiKey, `Bearer ${apiKey}`, `bearer ${apiKey}`]) {
        const { code } = await raw.call(insertPath, frame(pointBytes(1)), { authorization })
        assert.equal(code, status.ok)
      }
    })
  })

  describe('bounds', () => {
    it('accept a message of exactly the bound, and refuse one byte more', async () => {
      const overhead = pointBytes(17_000).length - 17_000
      const largest = pointBytes(maxRequestBytes - overhead)
      assert.equal(largest.length, maxRequestBytes)
      assert.equal((await grpc.send('InsertVector', largest)).code, status.ok)
      const outcome = await grpc.send('InsertVector', pointBytes(maxRequestBytes - overhead + 1))
      assert.equal(outcome.code, status.resourceExhausted)
      assert.equal(outcome.text, 'the request is larger than 20000 bytes (MAX_REQUEST_BYTES)')
    })

    it('refuse a message by its declared length, before it arrives', async () => {
      for (const length of [maxRequestBytes + 1, 2 ** 31, 2 ** 32 - 1]) {
        const head = Buffer.alloc(5)
        head.writeUInt32BE(length, 1)
        const stream = raw.open(insertPath, key)
        stream.write(head)
        const outcome = await statusOf(stream)
        assert.equal(outcome.code, status.resourceExhausted)
        assert.match(outcome.message, /MAX_REQUEST_BYTES/)
      }
      await assertAlive()
    })

    it('count compressed requests by their decompressed size', async () => {
      const bomb = gzipSync(Buffer.alloc(30_000_000))
      assert.ok(bomb.length > maxRequestBytes)
      const small = gzipSync(Buffer.alloc(1_000_000))
      assert.ok(small.length < maxRequestBytes)
      for (const bytes of [bomb, small]) {
        const outcome = await raw.call(insertPath, frame(bytes, 1), { ...key, 'grpc-encoding': 'gzip' })
        assert.equal(outcome.code, status.resourceExhausted)
        assert.match(outcome.message, /larger than 20000 bytes \(MAX_REQUEST_BYTES\)/)
      }
      await assertAlive()
    })
  })

  describe('compression', () => {
    it('accepts requests in gzip and deflate', async () => {
      for (const algorithm of [1, 2]) {
        const options = { 'grpc.default_compression_algorithm': algorithm }
        const compressing = new Client(service.grpcAddress, credentials.createInsecure(), options)
        const code = await new Promise((resolve) => {
          compressing.makeUnaryRequest(
            insertPath,
            (bytes: Uint8Array) => Buffer.from(bytes),
            (bytes: Buffer) => bytes,
            pointBytes(10_000),
            keyed(apiKey),
            (error: ServiceError | null) => resolve(error?.code ?? status.ok),
          )
        })
        assert.equal(code, status.ok)
        compressing.close()
      }
    })

    it('refuses corrupt data as a client error, and unknown encodings', async () => {
      const bytes = gzipSync(pointBytes(1000))
      const damaged = [Buffer.from('no gzip at all'), bytes.subarray(0, 20), Buffer.alloc(0)]
      for (const each of damaged) {
        const outcome = await raw.call(insertPath, frame(each, 1), { ...key, 'grpc-encoding': 'gzip' })
        assert.equal(outcome.code, status.invalidArgument)
        assert.match(outcome.message, /malformed|missing/)
      }
      const outcome = await raw.call(insertPath, frame(bytes, 1), { ...key, 'grpc-encoding': 'br' })
      assert.equal(outcome.code, status.unimplemented)
      await assertAlive()
    })
  })

  describe('hostile calls', () => {
    it('are UNIMPLEMENTED for unknown methods', async () => {
      for (const path of [
        '/vectordb.VectorDB/Nothing',
        '/vectordb.VectorDB/insertvector',
        '/vectordb.Other/InsertVector',
        '/',
        '/vectordb.VectorDB/InsertVector/',
        '/%25',
        '/\u00ff',
      ]) {
        assert.equal((await raw.call(path, frame(Buffer.alloc(0)), key)).code, status.unimplemented, path)
      }
    })

    it('are INVALID_ARGUMENT when the message is not protobuf', async () => {
      for (const bytes of [[0xff], [0x0a, 0x05], [0x00], [0x0b], [0x0a, 0xff, 0xff, 0xff, 0xff, 0xff]]) {
        for (const { name } of VectorDB.methods) {
          const { code, text } = await grpc.send(name, Buffer.from(bytes))
          assert.equal(code, status.invalidArgument, `${name} ${bytes}`)
          assert.match(text, /^malformed protobuf: /)
        }
      }
    })

    it('end with a status when a message is missing, truncated or one too many', async () => {
      const message = frame(pointBytes(1))
      for (const body of [
        Buffer.alloc(0),
        message.subarray(0, 3),
        message.subarray(0, message.length - 1),
        Buffer.concat([message, message]),
      ]) {
        const { code } = await raw.call(insertPath, body, key)
        assert.ok(code !== undefined && code !== status.ok, `${code}`)
      }
      await assertAlive()
    })

    it('of another content type are refused', async () => {
      const { http } = await raw.call(insertPath, frame(pointBytes(1)), {
        ...key,
        'content-type': 'application/json',
      })
      assert.equal(http, 415)
    })

    it('get error messages with any Unicode text', async () => {
      const { code, text } = await grpc.call('GetPoint', { id: { value: 'é🦊%\n"' } })
      assert.equal(code, status.invalidArgument)
      assert.equal(text, 'id "é🦊%\\n\\"" is not a UUID')
    })

    it('get long texts truncated in error messages', async () => {
      const { code, text } = await grpc.call('GetPoint', { id: { value: '🦊'.repeat(4000) } })
      assert.equal(code, status.invalidArgument)
      assert.ok(text.length < 200)
    })
  })

  describe('deadlines and cancellation', () => {
    it('end a call whose message does not arrive', async () => {
      const stream = raw.open(insertPath, { ...key, 'grpc-timeout': '50m' })
      stream.write(frame(pointBytes(1)).subarray(0, 7))
      assert.equal((await statusOf(stream)).code, status.deadlineExceeded)
      await assertAlive()
    })

    it('end a stream while its requests are still being answered', async () => {
      const path = '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo'
      const requests = Buffer.concat(new Array(4000).fill(frame(Buffer.alloc(0))))
      const { code } = await raw.call(path, requests, { ...key, 'grpc-timeout': '1m' })
      assert.equal(code, status.deadlineExceeded)
      await assertAlive()
    })

    it('that are malformed end only the call', async () => {
      const { code } = await raw.call(insertPath, frame(pointBytes(1)), { ...key, 'grpc-timeout': 'soon' })
      assert.equal(code, status.invalidArgument)
      await assertAlive()
    })

    it('remove searches from the queue, and leave the server working', async () => {
      const query = { queryVector: { values: [1, 2] }, similarity: 0, limit: 100n }
      const request = toBinary(
        SearchPointsBatchRequestSchema,
        create(SearchPointsBatchRequestSchema, { queries: new Array(500).fill(query) }),
      )
      const path = '/vectordb.VectorDB/SearchPointsBatch'
      const codes = await Promise.all(
        Array.from({ length: 40 }, (_, index) => {
          const stream = raw.open(path, index % 2 === 0 ? key : { ...key, 'grpc-timeout': '1m' })
          stream.end(frame(request))
          if (index % 2 === 0) setImmediate(() => stream.close(8))
          return statusOf(stream)
        }),
      )
      for (const { code } of codes) {
        assert.ok([undefined, status.ok, status.deadlineExceeded].includes(code as undefined), `${code}`)
      }
      await queueIsEmpty()
      await assertAlive()
    })

    it('end the calls of a closed connection', async () => {
      const gone = new RawHttp2(port)
      const streams = Array.from({ length: 20 }, () => gone.open(insertPath, key))
      for (const stream of streams) stream.write(frame(pointBytes(1)).subarray(0, 7))
      const first = gone.open(insertPath, key)
      first.end(frame(pointBytes(1)))
      assert.equal((await statusOf(first)).code, status.ok)
      gone[Symbol.dispose]()
      await assertAlive()
    })

    /** Waits until no query is queued or running. */
    async function queueIsEmpty(): Promise<void> {
      for (;;) {
        const text = await (await fetch(`${service.httpUrl}/metrics`)).text()
        if (/^vicinal_queued_queries 0$/m.test(text)) return
      }
    }
  })

  it('answers thousands of concurrent calls on one connection, each correctly', async () => {
    const calls = Array.from({ length: 2500 }, async (_, index) => {
      const values = [index, -index]
      const inserted = await grpc.call('InsertVector', { ...insertion, vector: { values } })
      assert.equal(inserted.code, status.ok, inserted.text)
      const { code, answer } = await grpc.call('GetPoint', inserted.answer as object)
      assert.equal(code, status.ok)
      assert.deepEqual((answer as { vector: { values: number[] } }).vector.values, [index, -index])
    })
    await Promise.all(calls)
  })

  it('counts calls by operation and outcome, including unreadable ones', async () => {
    const count = async (outcome: string): Promise<number> => {
      const text = await (await fetch(`${service.httpUrl}/metrics`)).text()
      const labels = `operation="DeletePoint",transport="grpc",outcome="${outcome}"`
      return Number(
        text
          .split('\n')
          .find((line) => line.includes(labels))
          ?.split(' ')
          .at(-1) ?? 0,
      )
    }
    const before = [await count('invalid_argument'), await count('not_found')]
    await grpc.send('DeletePoint', Buffer.from([0xff]))
    await grpc.call('DeletePoint', { id: { value: '11111111-2222-4333-8444-555555555555' } })
    assert.deepEqual(
      [await count('invalid_argument'), await count('not_found')],
      [before[0]! + 1, before[1]! + 1],
    )
  })
})

describe('a gRPC server that starts', () => {
  it('listens on every address of its host', async () => {
    await using service = await startTestService()
    for (const { address, family } of await lookup('localhost', { all: true })) {
      const host = family === 6 ? `[${address}]` : address
      using grpc = new RawGrpc(`${host}:${service.service.grpcAddress.port}`, apiKey)
      assert.equal((await grpc.call('SearchPointsBatch', {})).code, status.ok, host)
    }
  })

  it('names the address that it cannot listen on', async () => {
    await using service = await startTestService()
    const { port } = service.service.grpcAddress
    await assert.rejects(
      startTestService({ GRPC_PORT: String(port) }),
      new RegExp(`^Error: gRPC cannot listen on localhost port ${port} \\(GRPC_PORT\\): .*EADDRINUSE`),
    )
    await assert.rejects(startTestService({ GRPC_HOST: 'no-such-host.invalid' }), /no-such-host\.invalid/)
  })
})

describe('a gRPC server that closes', { timeout: 300_000 }, () => {
  it('ends health watches and open reflection calls, so that nothing delays it', async () => {
    await using service = await startTestService({ SHUTDOWN_TIMEOUT_MS: '600000' })
    const client = new Client(service.grpcAddress, credentials.createInsecure())
    const watch = watchHealth(client, '')
    const seen: string[] = []
    watch.on('data', ({ status }) => seen.push(status))
    const ended = once(watch, 'error')
    const { path, requestSerialize, responseDeserialize } = methodOf(
      reflectionServices[0]!,
      'ServerReflectionInfo',
    )
    const reflection: ClientDuplexStream<object, unknown> = client.makeBidiStreamRequest(
      path,
      requestSerialize,
      responseDeserialize,
      keyed(apiKey),
    )
    const reflectionEnded = once(reflection, 'error')
    reflection.write({ listServices: '' })
    await once(reflection, 'data')
    await service.service.close()
    const [error] = await ended
    assert.equal(error.code, status.unavailable)
    assert.equal((await reflectionEnded)[0].code, status.unavailable)
    assert.equal(seen[0], 'SERVING')
    client.close()
  })

  it('answers calls that have begun, and accepts no more', async () => {
    await using service = await startTestService({ SHUTDOWN_TIMEOUT_MS: '600000' })
    using raw = new RawHttp2(service.service.grpcAddress.port)
    const message = frame(pointBytes(1))
    const begun = raw.open(insertPath, key)
    begun.write(message.subarray(0, 5))
    assert.equal((await raw.call(insertPath, message, key)).code, status.ok)
    const closing = service.service.close()
    begun.end(message.subarray(5))
    assert.equal((await statusOf(begun)).code, status.ok)
    await closing
    using grpc = new RawGrpc(service.grpcAddress, apiKey)
    assert.equal((await grpc.send('InsertVector', pointBytes(1))).code, status.unavailable)
  })

  it('cancels calls that do not end in time', async () => {
    await using service = await startTestService({ SHUTDOWN_TIMEOUT_MS: '50' })
    using raw = new RawHttp2(service.service.grpcAddress.port)
    const stream = raw.open(insertPath, key)
    stream.write(frame(pointBytes(1)).subarray(0, 5))
    assert.equal((await raw.call(insertPath, frame(pointBytes(1)), key)).code, status.ok)
    const outcome = statusOf(stream)
    await service.service.close()
    assert.notEqual((await outcome).code, status.ok)
  })
})
