import { randomUUID } from 'node:crypto'
import type { ApiContext } from '../../../src/api/call.ts'
import { hashOfKey, RefusedKeys } from '../../../src/base/api-key.ts'
import { createBodyBudgets } from '../../../src/base/budgets.ts'
import { IdLists } from '../../../src/base/id-lists.ts'
import { idBytes } from '../../../src/base/ids.ts'
import { createLogger } from '../../../src/base/log.ts'
import { ServiceMetrics } from '../../../src/base/metrics.ts'
import { keepTicksFast } from '../../../src/base/runtime.ts'
import { readConfig } from '../../../src/config.ts'
import { startService } from '../../../src/main.ts'
import { startTransports } from '../../../src/transports.ts'
import { noCollections } from '../../../test/support/no-collections.ts'
import { apiKey } from '../load/load-plan.ts'
import type { Ports } from './target.ts'

/**
 * A server under load, in its own process: the service or an echo. The echo is the same transports and codecs with
 * nothing behind them. No database behind the same transports can be faster than the echo.
 */
const [kind, dataDir] = process.argv.slice(2)
const config = readConfig({
  ...process.env,
  DATA_DIR: dataDir,
  GRPC_PORT: '0',
  HTTP_PORT: '0',
  GRPC_ROOT_PASSWORD: apiKey,
  LOG_LEVEL: 'warn',
})
process.on('disconnect', () => process.exit())
process.send!(kind === 'echo' ? await startEcho() : await startVicinal())

async function startVicinal(): Promise<Ports> {
  const { grpcAddress, httpAddress, ready, close } = await startService(config)
  await ready
  // Whoever starts it again on the same folder needs a clean stop.
  process.removeAllListeners('disconnect').on('disconnect', () => void close().then(() => process.exit()))
  return { grpc: grpcAddress.port, http: httpAddress!.port }
}

async function startEcho(): Promise<Ports> {
  keepTicksFast()
  const ids = Array.from({ length: 1000 }, () => randomUUID())
  // Every search returns a prefix of the same ids, prepared up to the service's maximum, so that a search costs
  // nothing.
  const found = Buffer.alloc(config.maxQueuedResults * idBytes, IdLists.of([ids]).bytes)
  const context: ApiContext = {
    limits: { maxLimit: config.maxLimit, hnswEf: config.hnswEf },
    collections: noCollections,
    database: {
      dimension: undefined,
      nowUs: 0,
      insert: async (points) => ({ ids: points.map((_, index) => ids[index % ids.length]!), errors: [] }),
      remove: async () => true,
      put: neverAsked,
      patch: neverAsked,
      changeByFilter: neverAsked,
      list: neverAsked,
      count: neverAsked,
      facets: neverAsked,
      get: async () => undefined,
      search: async (queries) => {
        let end = 0
        const lists = new IdLists(
          found,
          queries.map(({ limit }) => (end += Math.min(limit, ids.length))),
        )
        return {
          ids: lists,
          distances: new Float64Array(end),
          sequences: new Float64Array(end),
          details: queries.map(() => undefined),
          profiles: queries.map(() => undefined),
          plans: queries.map(() => undefined),
        }
      },
      get stats(): never {
        throw new Error('an echo has no index')
      },
      snapshot: () => {
        throw new Error('an echo stores nothing')
      },
    },
  }
  const logger = createLogger({ level: config.logLevel })
  const { ports } = await startTransports({
    config,
    context,
    budgets: createBodyBudgets(config),
    metrics: new ServiceMetrics(),
    logger,
    keys: { grpc: [{ name: 'bench', hash: hashOfKey(apiKey), role: 'write' }], http: undefined },
    refusedKeys: new RefusedKeys(logger),
    readiness: () => [],
    ports: { grpc: 0, http: 0 },
  })
  return { grpc: ports.grpc, http: ports.http! }
}

/** Stands in for operations that no workload uses. */
async function neverAsked(): Promise<never> {
  throw new Error('an echo answers only inserts and searches')
}
