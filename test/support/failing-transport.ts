import { RefusedKeys } from '../../src/base/api-key.ts'
import { createBodyBudgets } from '../../src/base/budgets.ts'
import { createLogger } from '../../src/base/log.ts'
import { ServiceMetrics } from '../../src/base/metrics.ts'
import { readConfig } from '../../src/config.ts'
import type { ServerOptions } from '../../src/server/listener.ts'
import { ReadScheduler } from '../../src/server/read-scheduler.ts'
import { noCollections } from './no-collections.ts'

/** Options of a real server over a database that fails every request, as during loading or after a fault. */
export function failingTransport(error: Error): Omit<ServerOptions, 'host'> {
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
