import type { ApiContext } from '../../src/api/call.ts'
import { RefusedKeys } from '../../src/base/api-key.ts'
import { type BodyBudgets, createBodyBudgets } from '../../src/base/budgets.ts'
import { createLogger, type Logger } from '../../src/base/log.ts'
import { ServiceMetrics } from '../../src/base/metrics.ts'
import { readConfig } from '../../src/config.ts'
import { ReadScheduler } from '../../src/server/read-scheduler.ts'
import { noCollections } from './no-collections.ts'

/** The options that the servers of both transports need. */
interface TransportOptions {
  readonly context: ApiContext
  readonly port: number
  readonly maxRequestBytes: number
  readonly requestTimeoutMs: number
  readonly budgets: BodyBudgets
  readonly readScheduler: ReadScheduler
  readonly refusedKeys: RefusedKeys
  readonly metrics: ServiceMetrics
  readonly logger: Logger
}

/** Options of a real server over a database that fails every request, as during loading or after a fault. */
export function failingTransport(error: Error): TransportOptions {
  const logger = createLogger({ level: 'silent', pretty: false })
  return {
    context: {
      get database(): never {
        throw error
      },
      collections: noCollections,
      limits: { maxLimit: 10, hnswEf: 10 },
    },
    port: 0,
    maxRequestBytes: 20_000,
    requestTimeoutMs: 10_000,
    budgets: createBodyBudgets(readConfig({})),
    readScheduler: new ReadScheduler(),
    refusedKeys: new RefusedKeys(logger),
    metrics: new ServiceMetrics(),
    logger,
  }
}
