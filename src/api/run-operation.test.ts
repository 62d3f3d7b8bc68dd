import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { describe, it } from 'node:test'
import { noCollections } from '../../test/support/no-collections.ts'
import { DatabaseError } from '../base/errors.ts'
import { createLogger } from '../base/log.ts'
import { ServiceMetrics } from '../base/metrics.ts'
import { Audit } from './audit.ts'
import { type ApiContext, grpcFields, httpFields } from './call.ts'
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

  it('has a line in the audit also while the stored points are loading', async () => {
    const lines: string[] = []
    const notReady = (): never => {
      throw new DatabaseError('not_ready', 'the stored points are still loading')
    }
    const context: ApiContext = {
      get database(): never {
        return notReady()
      },
      get collections(): never {
        return notReady()
      },
      limits: { maxLimit: 10, hnswEf: 10 },
      audit: new Audit({
        level: 'writes',
        waitMs: 0,
        write: async (text) => {
          lines.push(text)
        },
      }),
    }
    const metrics = new ServiceMetrics()
    const logger = createLogger({ level: 'silent', pretty: false })
    const codec = { decode: () => ({ id: randomUUID() }), encode: () => '' }
    await assert.rejects(
      runOperation({ context, transport: 'http', metrics, logger }, 'DeletePoint', codec, {
        fields: httpFields,
      }),
      { reason: 'not_ready' },
    )
    await context.audit!.close()
    assert.match(lines.join(''), /"operation":"DeletePoint".*"collection":"default".*"error":"not_ready"/)
  })
})
