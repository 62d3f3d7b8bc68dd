import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { noCollections } from '../../test/support/no-collections.ts'
import { createLogger } from '../base/log.ts'
import { ServiceMetrics } from '../base/metrics.ts'
import { type ApiContext, grpcFields } from './call.ts'
import { runOperation } from './run-operation.ts'

describe('an operation', () => {
  it('is not decoded once its caller has left while its collection was opened', async () => {
    const leaving = new AbortController()
    const context: ApiContext = {
      get database(): never {
        throw new Error('the call has ended')
      },
      collections: {
        ...noCollections,
        async lease() {
          leaving.abort()
          return {
            get database(): never {
              throw new Error('the call has ended')
            },
            [Symbol.dispose]() {},
          }
        },
      },
      limits: { maxLimit: 10, hnswEf: 10 },
    }
    const metrics = new ServiceMetrics()
    const logger = createLogger({ level: 'silent', pretty: false })
    const codec = { decode: () => assert.fail('decoded'), encode: () => '' }
    const call = { fields: grpcFields, collection: 'docs', signal: leaving.signal }
    await assert.rejects(
      runOperation({ context, transport: 'grpc', metrics, logger }, 'CountPoints', codec, call),
      { reason: 'cancelled' },
    )
  })
})
