import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { hashOfKey, Keyring } from '../src/base/api-key.ts'
import { type GrpcServer, startGrpcServer } from '../src/server/grpc/server.ts'
import { failingTransport } from './support/failing-transport.ts'
import { frame, RawHttp2 } from './support/raw-http2.ts'
import { apiKey } from './support/service.ts'

/**
 * The real gRPC server without a database. It pings its connections more often than a service does, and waits a third
 * of the time between pings for an answer.
 */
function startPinging(keepaliveMs: number): Promise<GrpcServer> {
  return startGrpcServer({
    ...failingTransport(new Error('there is no database')),
    host: 'localhost',
    keys: new Keyring([{ name: 'test', hash: hashOfKey(apiKey), role: 'write' }]),
    keepaliveMs,
  })
}

describe('silent gRPC connections', { timeout: 300_000, concurrency: true }, () => {
  let server: GrpcServer
  let patient: GrpcServer
  before(async () => {
    server = await startPinging(2000)
    // Its limit for answers is 5 s: long enough for a client in the same busy process.
    patient = await startPinging(15_000)
  })
  after(() => Promise.all([server.close(0), patient.close(0)]))

  const silent = {
    'say nothing': '',
    'send half a preface': 'PRI * HTTP/2.0\r\n',
    'do not answer pings': 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0',
  }
  for (const [name, bytes] of Object.entries(silent)) {
    it(`are closed when they ${name}`, async () => {
      const socket = connect({ port: server.port, host: 'localhost' })
      // The server resets the connection.
      socket.on('error', () => {})
      await once(socket, 'connect')
      socket.resume()
      if (bytes !== '') socket.write(Buffer.from(bytes, 'latin1'))
      await once(socket, 'close')
    })
  }

  it('stay open if they answer pings', async () => {
    using raw = new RawHttp2(patient.port)
    const isHealthy = async (): Promise<boolean> =>
      (await raw.call('/grpc.health.v1.Health/Check', frame(Buffer.alloc(0)))).code === 0
    assert.ok(await isHealthy())
    // The second ping is sent after the answer to the first one.
    for (let ping = 0; ping < 2; ping += 1) await raw.pinged()
    assert.ok(await isHealthy())
  })
})
