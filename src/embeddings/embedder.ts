import { hash } from 'node:crypto'
import { cancellation, DatabaseError, toDatabaseError } from '../base/errors.ts'
import { Turn } from '../base/turns.ts'
import type { Embedding, Embeddings } from './embeddings.ts'
import { EmbeddingEndpoint, type EndpointOptions } from './endpoint.ts'
import { EndpointFault } from './endpoint-fault.ts'
import { VectorCache } from './vector-cache.ts'
import { type TextBatch, type WaitingText, WaitingTexts } from './waiting-texts.ts'

export interface EmbedderOptions extends EndpointOptions {
  /** Texts of one request to the endpoint. */
  readonly batchSize: number
  /** Requests to the endpoint at the same time. */
  readonly maxRequests: number
  /** Texts that wait or are being embedded, of all calls together. */
  readonly maxTexts: number
  readonly maxTextBytes: number
  readonly cacheBytes: number
  /** Called for each call: how many texts it needs, and how many of them were in the cache. */
  readonly onTexts: (texts: number, cached: number) => void
}

/**
 * Embeds the texts of all calls:
 *
 *   embed ─> cache ─> waiting texts ─> batches, `maxRequests` at a time ─> endpoint
 *
 * A batch takes what waits, whichever calls it is from: the slower the endpoint, the larger the batches, up to `batchSize`.
 * A text that several calls need is sent once.
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
        `the request has ${texts.length} texts to embed, the most is ${maxTexts} (EMBEDDINGS_MAX_TEXTS)`,
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

  /** Stops the requests to the endpoint; the calls that wait for them fail. */
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
        `${this.#waiting.count} texts wait to be embedded, ${added.size} more would be over ${maxTexts} (EMBEDDINGS_MAX_TEXTS)`,
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

  /** Once all calls of this round of the event loop are there, to send their texts together. */
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

  /** Never rejects: the texts do. */
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

  /** The endpoint does not say which text it refuses. It may be that of another call, or too many for one request. */
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
    keys.push(hash('sha256', text, 'base64'))
    if (turn.isOver) await turn.next()
  }
  return keys
}

/** A refused text is an embedding that is not there; without an endpoint there is no answer at all. */
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

/** The characters of one request to the endpoint, if it has more than one text: encoding them takes about a millisecond. */
const batchLengthMax = 256 * 1024
