import type { Logger } from '../base/log.ts'
import type { ServiceMetrics } from '../base/metrics.ts'
import { type Config, embeddingEndpoint } from '../config.ts'
import { Embedder } from '../embeddings/embedder.ts'
import { embeddingCounters, outageLog, registerEmbeddings } from '../embeddings/embedding-metrics.ts'

/**
 * Creates the embedder; undefined unless EMBEDDINGS_URL is set. Sends nothing to the endpoint yet: it may be started
 * later.
 */
export function createEmbedder(
  config: Config,
  metrics: ServiceMetrics,
  logger: Logger,
): Embedder | undefined {
  const endpoint = embeddingEndpoint(config)
  if (endpoint === undefined) return undefined
  const { host } = new URL(endpoint.url)
  const counters = embeddingCounters(metrics)
  const noteOutcome = outageLog(logger, host)
  const embedder = new Embedder({
    ...endpoint,
    onTexts: counters.onTexts,
    onRequest(outcome, seconds) {
      counters.onRequest(outcome, seconds)
      noteOutcome(outcome)
    },
    timeoutMs: config.embeddingsTimeoutMs,
    batchSize: config.embeddingsBatchSize,
    maxRequests: config.embeddingsMaxRequests,
    maxTexts: config.embeddingsMaxTexts,
    maxTextBytes: config.embeddingsMaxTextBytes,
    cacheBytes: config.embeddingsCacheBytes,
  })
  registerEmbeddings(metrics, embedder, host)
  return embedder
}
