import type { Logger } from '../base/log.ts'
import type { ServiceMetrics } from '../base/metrics.ts'
import type { Embedder, EmbedderOptions } from './embedder.ts'
import type { RequestOutcome } from './endpoint.ts'

/** Registers the counters of an embedder. Returns the callbacks that fill them. */
export function embeddingCounters(metrics: ServiceMetrics): Pick<EmbedderOptions, 'onRequest' | 'onTexts'> {
  const requests = metrics.counter(
    'vicinal_embedding_requests_total',
    'Requests to the embedding endpoint by outcome: ok, or the kind of failure.',
    ['outcome'],
  )
  const seconds = metrics.histogram(
    'vicinal_embedding_request_duration_seconds',
    'Duration of a request to the embedding endpoint.',
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
  )
  const texts = metrics.counter(
    'vicinal_embedding_texts_total',
    'Texts of calls by the source of their embedding: the endpoint or the cache.',
    ['source'],
  )
  return {
    onRequest(outcome, duration) {
      requests({ outcome }, 1)
      seconds(duration)
    },
    onTexts(count, cached) {
      texts({ source: 'endpoint' }, count - cached)
      texts({ source: 'cache' }, cached)
    },
  }
}

/** Registers the gauges of an embedder. Their presence shows that texts can be embedded. */
export function registerEmbeddings(metrics: ServiceMetrics, embedder: Embedder, host: string): void {
  const labels = { model: embedder.model, host }
  metrics.info(
    'vicinal_embeddings_info',
    'Always 1. The labels name the embedding model and the host.',
    labels,
  )
  metrics.gauge(
    'vicinal_embedding_waiting_texts',
    'Texts that wait for the embedding endpoint or are being embedded.',
    () => embedder.stats.waitingTexts,
  )
  metrics.gauge(
    'vicinal_embedding_cache_bytes',
    'Memory of cached embeddings.',
    () => embedder.stats.cacheBytes,
  )
}

/**
 * Returns a function that logs when the endpoint starts to fail and when it recovers. Failures in between are not
 * logged, because each is reported to its caller.
 *
 * @param host of the endpoint
 */
export function outageLog(logger: Logger, host: string): (outcome: RequestOutcome) => void {
  let isFailing = false
  return (outcome) => {
    // These outcomes show nothing about the state of the endpoint.
    if (outcome === 'cancelled' || outcome === 'refused_text') return
    const wasFailing = isFailing
    isFailing = outcome !== 'ok'
    if (isFailing === wasFailing) return
    if (isFailing) logger.warn({ host, outcome }, 'the embedding endpoint fails: texts cannot be embedded')
    else logger.info({ host }, 'the embedding endpoint answers again')
  }
}
