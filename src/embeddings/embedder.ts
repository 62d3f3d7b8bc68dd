import { hash } from 'node:crypto'
import { cancellation, DatabaseError, toDatabaseError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import type { ServiceMetrics } from '../base/metrics.ts'
import { Turn } from '../base/turns.ts'
import { EmbeddingEndpoint, EndpointFault, type EndpointOptions, type RequestOutcome } from './endpoint.ts'
import { type TextBatch, type WaitingText, WaitingTexts } from './waiting-texts.ts'

export interface EmbedderOptions extends EndpointOptions {
  /** Maximum number of texts of one request to the endpoint. */
  readonly batchSize: number
  /** Maximum number of concurrent requests to the endpoint. */
  readonly maxRequests: number
  /** Maximum number of texts of all calls that wait or are being embedded. */
  readonly maxTexts: number
  readonly maxTextBytes: number
  readonly cacheBytes: number
  /** Called once for each call, with the number of its texts and how many of them were cached. */
  readonly onTexts: (texts: number, cached: number) => void
}

/**
 * Embeds the texts of all calls:
 *
 *   embed ─> cache ─> waiting texts ─> batches, `maxRequests` at a time ─> endpoint
 *
 * A batch takes waiting texts of any calls. The slower the endpoint, the larger the batches, up to `batchSize`. A text
 * that several calls need is sent once.
 */
export class Embedder implements Embeddings {
  readonly model: string
  readonly maxTextBytes: number
  readonly #options: EmbedderOptions
  readonly #endpoint: EmbeddingEndpoint
  readonly #cache: VectorCache
  readonly #waiting = new WaitingTexts()
  #running = 0
  #isScheduled = false
  #closed: DatabaseError | undefined

  constructor(options: EmbedderOptions) {
    this.#options = options
    this.model = options.model
    this.maxTextBytes = options.maxTextBytes
    this.#endpoint = new EmbeddingEndpoint(options)
    this.#cache = new VectorCache(options.cacheBytes)
  }

  get stats(): { readonly waitingTexts: number; readonly cacheBytes: number } {
    return { waitingTexts: this.#waiting.count, cacheBytes: this.#cache.bytes }
  }

  async embed(texts: readonly string[], signal?: AbortSignal): Promise<readonly Embedding[]> {
    const { maxTexts, onTexts } = this.#options
    if (texts.length > maxTexts) {
      throw new DatabaseError(
        'request_too_large',
        `the request has ${texts.length} texts to embed, the maximum is ${maxTexts}`,
      )
    }
    const keys = await keysOf(texts)
    if (signal?.aborted) throw cancellation(signal)
    if (this.#closed !== undefined) throw this.#closed
    const embeddings = keys.map((key): Embedding | undefined => this.#cache.get(key)?.slice())
    const missing = [...embeddings.keys()].filter((index) => embeddings[index] === undefined)
    onTexts(texts.length, texts.length - missing.length)
    if (missing.length > 0) {
      const embedded = await this.#embedMissing(
        missing.map((index) => ({ key: keys[index]!, text: texts[index]! })),
        signal,
      )
      for (const [at, index] of missing.entries()) embeddings[index] = embedded[at]
    }
    return embeddings as Embedding[]
  }

  /** Aborts the requests to the endpoint. All waiting calls fail. */
  close(): void {
    this.#closed = new DatabaseError('shutting_down', 'the server is shutting down')
    this.#waiting.rejectAll(this.#closed)
  }

  async #embedMissing(
    texts: readonly { readonly key: string; readonly text: string }[],
    signal: AbortSignal | undefined,
  ): Promise<readonly Embedding[]> {
    const { maxTexts, batchSize } = this.#options
    const added = new Set(texts.map(({ key }) => key).filter((key) => !this.#waiting.has(key)))
    if (this.#waiting.count + added.size > maxTexts) {
      throw new DatabaseError(
        'overloaded',
        `${this.#waiting.count} texts are waiting to be embedded, ${added.size} more would exceed ${maxTexts}`,
      )
    }
    const waiting = texts.map(({ key, text }) => this.#waiting.join(key, text, texts.length > batchSize))
    this.#schedule()
    try {
      return await untilAborted(Promise.all(waiting.map(embeddingOf)), signal)
    } finally {
      for (const each of waiting) this.#waiting.leave(each)
    }
  }

  /** Starts batches after this iteration of the event loop, so that the texts of all its calls are sent together. */
  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    setImmediate(() => {
      this.#isScheduled = false
      this.#startBatches()
    })
  }

  #startBatches(): void {
    const { batchSize, maxRequests } = this.#options
    while (this.#running < maxRequests && this.#waiting.queued > 0) {
      this.#running += 1
      this.#run(this.#waiting.nextBatch(batchSize, batchLengthMax)).finally(() => {
        this.#running -= 1
        this.#startBatches()
      })
    }
  }

  /** Never rejects. A failure rejects the texts of the batch. */
  async #run(batch: TextBatch): Promise<void> {
    const { texts, stop } = batch
    try {
      const vectors = await this.#endpoint.embed(
        texts.map(({ text }) => text),
        stop.signal,
      )
      for (const [index, waiting] of texts.entries()) {
        this.#cache.set(waiting.key, vectors[index]!)
        this.#waiting.resolve(waiting, vectors[index]!)
      }
    } catch (error) {
      const isRefused = error instanceof EndpointFault && error.kind === 'refused_text'
      if (isRefused && texts.length > 1) return await this.#runHalves(texts)
      const shown = error instanceof EndpointFault ? error.toDatabaseError() : toDatabaseError(error)
      for (const waiting of texts) this.#waiting.reject(waiting, shown)
    }
  }

  /**
   * Splits a refused batch in two, because the endpoint does not say which text it refuses. The text may belong to
   * another call, or the request may just have too many texts.
   */
  async #runHalves(texts: readonly WaitingText[]): Promise<void> {
    const middle = Math.ceil(texts.length / 2)
    for (const half of [texts.slice(0, middle), texts.slice(middle)]) {
      const needed = this.#waiting.needed(half)
      if (needed.length > 0) await this.#run(this.#waiting.batchOf(needed))
    }
  }
}

async function keysOf(texts: readonly string[]): Promise<string[]> {
  const turn = new Turn()
  const keys: string[] = []
  for (const text of texts) {
    if (turn.isOver) await turn.next()
    keys.push(hash('sha256', text, 'base64'))
  }
  return keys
}

/** Waits for an embedding. Returns the error of a refused text; throws all other errors, which fail the whole call. */
async function embeddingOf({ embedded }: WaitingText): Promise<Embedding> {
  try {
    return (await embedded).slice()
  } catch (error) {
    if (error instanceof DatabaseError && error.reason === 'invalid_argument') return error
    throw error
  }
}

async function untilAborted<Result>(work: Promise<Result>, signal: AbortSignal | undefined): Promise<Result> {
  if (signal === undefined) return await work
  const { promise, reject } = Promise.withResolvers<never>()
  const abort = (): void => reject(cancellation(signal))
  signal.addEventListener('abort', abort, { once: true })
  try {
    return await Promise.race([work, promise])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

/** Maximum characters of a request with several texts. Encoding this many takes about a millisecond. */
const batchLengthMax = 256 * 1024

/** An LRU cache of embeddings by the hash of the text, with a limit in bytes. */
export class VectorCache {
  readonly #maxBytes: number
  /** In the order of their last use, because a Map keeps the order in which its keys were set. */
  readonly #vectors = new Map<string, Float32Array>()
  #bytes = 0

  /** @param maxBytes 0 disables the cache */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  get bytes(): number {
    return this.#bytes
  }

  get(key: string): Float32Array | undefined {
    const vector = this.#vectors.get(key)
    if (vector === undefined) return undefined
    this.#vectors.delete(key)
    this.#vectors.set(key, vector)
    return vector
  }

  set(key: string, vector: Float32Array): void {
    this.#delete(key)
    if (bytesOf(vector) > this.#maxBytes) return
    this.#vectors.set(key, vector)
    this.#bytes += bytesOf(vector)
    for (const oldest of this.#vectors.keys()) {
      if (this.#bytes <= this.#maxBytes) return
      this.#delete(oldest)
    }
  }

  #delete(key: string): void {
    const vector = this.#vectors.get(key)
    if (vector === undefined) return
    this.#vectors.delete(key)
    this.#bytes -= bytesOf(vector)
  }
}

/**
 * Returns the size of an entry: the components, and an estimate for the key, the array's objects and the Map's entry.
 */
function bytesOf({ byteLength }: Float32Array): number {
  return byteLength + 300
}

/** The api's view of the embedding endpoint. */
export interface Embeddings {
  /** EMBEDDINGS_MODEL. */
  readonly model: string
  /** The longest text that is embedded. */
  readonly maxTextBytes: number
  /**
   * Returns the embeddings in the order of the texts. A text that the endpoint refuses has an error instead.
   *
   * @throws DatabaseError `embeddings_unavailable` if the endpoint fails or its answer is unusable; `overloaded` or
   *   `request_too_large` for more texts than may wait; the cancellation of `signal`
   */
  embed(texts: readonly string[], signal?: AbortSignal): Promise<readonly Embedding[]>
}

/** A vector of finite float32 values, or the reason why the endpoint refused the text. */
export type Embedding = Float32Array | DatabaseError

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
