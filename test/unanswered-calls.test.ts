import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { hashOfKey, Keyring } from '../src/base/api-key.ts'
import { DatabaseError } from '../src/base/errors.ts'
import { createGrpcClient } from '../src/client/index.ts'
import { statusOf } from '../src/server/grpc/bodies.ts'
import { startGrpcServer } from '../src/server/grpc/server.ts'
import { startEmbeddingServer } from './support/embedding-server.ts'
import { failingTransport } from './support/failing-transport.ts'
import { apiKey, startTestService } from './support/service.ts'

/** A bound for calls that a fault leaves unanswered: their reason is then `deadline_exceeded`. */
const timeoutMs = 60_000

describe('a refusal over gRPC', () => {
  it('can quote half of a surrogate pair', () => {
    const { details } = statusOf(new DatabaseError('invalid_argument', 'it refuses "a\ud83d"'))
    assert.equal(details, 'it refuses "a\ufffd"')
    // grpc-js does this to the details of a status.
    assert.doesNotThrow(() => encodeURI(details))
  })

  it('quotes an embedding endpoint without cutting a surrogate pair', async (test) => {
    const words = [`${'x'.repeat(199)}😀`, 'only \ud83d half']
    await using endpoint = await startEmbeddingServer(() => ({
      status: 400,
      body: { error: { message: words.shift() } },
    }))
    await using service = await startTestService({
      EMBEDDINGS_URL: endpoint.url,
      EMBEDDINGS_MODEL: 'letters',
    })
    const client = createGrpcClient({ address: service.grpcAddress, apiKey, retries: 0, timeoutMs })
    test.after(() => client.close())
    const insert = (): Promise<string> => client.insert({ payload: { contentType: 'Text', content: 'a' } })
    await assert.rejects(insert(), { reason: 'invalid_argument', message: /: x{199}…$/ })
    await assert.rejects(insert(), { reason: 'invalid_argument', message: /: only \ufffd half$/ })
  })

  it('that cannot be sent ends the call', async (test) => {
    const options = failingTransport(new Error('there is no database'))
    let calls = 0
    const context = {
      collections: options.context.collections,
      limits: options.context.limits,
      get database(): never {
        throw new Error('there is no database')
      },
      cluster: {
        position: 0,
        acknowledged: 0,
        admit: async () => 0,
        // The server reads it for the metadata of each answer.
        get answeredPosition(): number {
          calls += 1
          throw new Error('the metadata has a fault')
        },
      },
    }
    const keys = new Keyring([{ name: 'test', hash: hashOfKey(apiKey), role: 'write' }])
    const server = await startGrpcServer({ ...options, context, host: 'localhost', keys })
    test.after(() => server.close(0))
    const address = `localhost:${server.port}`
    const client = createGrpcClient({ address, apiKey, retries: 0, timeoutMs })
    test.after(() => client.close())
    await assert.rejects(client.count(), { reason: 'internal' })
    assert.equal(calls, 1)
  })
})
