import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { status } from '@grpc/grpc-js'
import { freePort } from './support/free-ports.ts'
import { ServerProcess, temporaryDirectory } from './support/process.ts'
import { seededRandom } from './support/random.ts'
import { RawGrpc } from './support/raw-grpc.ts'
import { RawHttp } from './support/raw-http.ts'
import { apiKey } from './support/service.ts'
import { until } from './support/until.ts'

/** What clients see when a service stops while they use it. */

const json = ['content-type: application/json']
const body = JSON.stringify({ vector: [1, 2, 3], payload: { content_type: 'Text', content: 'one' } })

/** So long that the server waits as long as it ever does, about 2 s, before it closes idle connections. */
const shutdownTimeoutMs = '20000'
const idleMsMax = 1000

async function start(directory: string): Promise<ServerProcess> {
  return ServerProcess.start(directory, {
    GRPC_ROOT_PASSWORD: apiKey,
    SHUTDOWN_TIMEOUT_MS: shutdownTimeoutMs,
    // Clients reconnect after the stop, so no other process may get the port by then.
    HTTP_PORT: String(await freePort()),
  })
}

function portOf({ httpUrl }: ServerProcess): number {
  return Number(new URL(httpUrl).port)
}

/** Inserts on one connection after the other, each while the service keeps it open, until it refuses connections. */
async function insertUntilRefused(port: number, random: () => number, answers: number[]): Promise<void> {
  for (;;) {
    let isKept = true
    using http = await RawHttp.open(port).catch((error: NodeJS.ErrnoException) => {
      assert.equal(error.code, 'ECONNREFUSED')
      return undefined
    })
    if (http === undefined) return
    while (isKept) {
      http.request('POST /points', json, body)
      // Fails if the connection ends before the answer.
      const { status, headers } = await http.answer()
      answers.push(status)
      const answeredMs = performance.now()
      await delay(random() * 5)
      // The server may already have closed the idle connection of a client that was stalled.
      isKept = headers.connection !== 'close' && performance.now() - answeredMs < idleMsMax
    }
  }
}

describe('a service that is stopped under load', () => {
  it('answers every HTTP request on an accepted connection, and resets none', async () => {
    for (let round = 0; round < 2; round += 1) {
      const random = seededRandom(round)
      await using directory = await temporaryDirectory()
      await using server = await start(directory.path)
      const answers: number[] = []
      const clients = Array.from({ length: 20 }, () => insertUntilRefused(portOf(server), random, answers))
      await until(() => answers.length >= 100)
      server.command.kill('SIGTERM')
      await Promise.all(clients)
      const { code, stderr } = await server.command.ended
      assert.deepEqual([code, stderr], [0, ''])
      assert.deepEqual(
        answers.filter((status) => status !== 201 && status !== 503),
        [],
      )
    }
  })

  it('fails gRPC calls only with UNAVAILABLE', async () => {
    await using directory = await temporaryDirectory()
    await using server = await start(directory.path)
    let answers = 0
    const call = async (raw: RawGrpc): Promise<number> => {
      const insert = { vector: { values: [1, 2, 3] }, payload: { contentType: 1, content: 'one' } }
      for (;;) {
        const { code } = await raw.call('InsertVector', insert)
        if (code !== status.OK) return code
        answers += 1
      }
    }
    const clients = Array.from({ length: 4 }, () => new RawGrpc(server.grpcAddress, apiKey))
    const ends = clients.flatMap((raw) => Array.from({ length: 20 }, () => call(raw)))
    await until(() => answers >= 200)
    server.command.kill('SIGTERM')
    assert.deepEqual(new Set(await Promise.all(ends)), new Set([status.UNAVAILABLE]))
    for (const raw of clients) raw[Symbol.dispose]()
    assert.equal((await server.command.ended).code, 0)
  })

  it('refuses requests on idle connections with 503, even during large bodies, and closes silent ones', async () => {
    for (;;) {
      await using directory = await temporaryDirectory()
      await using server = await start(directory.path)
      const open = async (): Promise<RawHttp> => {
        const http = await RawHttp.open(portOf(server))
        http.request('POST /points', json, body)
        assert.equal((await http.answer()).status, 201)
        return http
      }
      using asking = await open()
      using uploading = await open()
      using silent = await open()
      using unused = await RawHttp.open(portOf(server))
      const killedMs = performance.now()
      server.command.kill('SIGTERM')
      await server.command.says(/"msg":"stopping/)
      asking.request('POST /points', json, body)
      const length = 8 * 1024 * 1024
      uploading.write(
        `POST /points HTTP/1.1\r\nhost: localhost\r\n${json}\r\ncontent-length: ${length}\r\n\r\n`,
      )
      uploading.write(Buffer.alloc(length / 2, 0x20))
      // The server may already have closed the idle connections: try again.
      if (performance.now() - killedMs > idleMsMax) continue
      for (const http of [asking, uploading]) {
        const answer = await http.answer()
        assert.deepEqual(
          [answer.status, answer.headers.connection, answer.headers['retry-after'], answer.body],
          [503, 'close', '1', 'the server is shutting down'],
        )
      }
      await Promise.all([silent.closed(), unused.closed()])
      uploading[Symbol.dispose]()
      assert.equal((await server.command.ended).code, 0)
      return
    }
  })
})
