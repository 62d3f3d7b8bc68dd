import type { RunningServer } from '../../src/api/server.ts'
import { createBodyBudgets } from '../../src/base/byte-budget.ts'
import { createLogger } from '../../src/base/log.ts'
import { ServiceMetrics } from '../../src/base/metrics.ts'
import { ReadScheduler } from '../../src/base/read-scheduler.ts'
import { RefusedKeys } from '../../src/base/refused-keys.ts'
import { readConfig } from '../../src/config.ts'
import { startHttpServer } from '../../src/http/server.ts'
import { noCollections } from './no-collections.ts'

/** The real HTTP server before a database that fails whatever is asked of it: as while loading, or on a fault. */
export function startFailingHttpServer(error: Error): Promise<RunningServer> {
  const logger = createLogger({ level: 'silent', pretty: false })
  return startHttpServer({
    context: {
      get database(): never {
        throw error
      },
      collections: noCollections,
      limits: { maxLimit: 10, hnswEf: 10 },
    },
    host: '127.0.0.1',
    port: 0,
    keys: undefined,
    allowedHosts: [],
    maxRequestBytes: 20_000,
    requestTimeoutMs: 10_000,
    budgets: createBodyBudgets(readConfig({})),
    readScheduler: new ReadScheduler(),
    refusedKeys: new RefusedKeys(logger),
    metrics: new ServiceMetrics(),
    logger,
    isReady: () => false,
    writesBlocked: () => undefined,
  })
}
