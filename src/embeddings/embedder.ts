import { hash } from 'node:crypto'
import { LruCache } from '../base/budgets.ts'
import { cancellation, DatabaseError, toDatabaseError } from '../base/errors.ts'
import type { ServiceMetrics } from '../base/metrics.ts'
import { dimensionMax } from '../base/point.ts'
import { Turn } from '../base/turns.ts'
import { EndpointFault, type EndpointOptions, isIndex, ModelEndpoint, parse } from './endpoint.ts'

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
  /** By the hash of the text. */
  readonly #cache: LruCache<Float32Array>
  readonly #waiting = new WaitingTexts()
  #running = 0
  #isScheduled = false
  #closed: DatabaseError | undefined

  constructor(options: EmbedderOptions) {
    this.#options = options
    this.model = options.model
    this.maxTextBytes = options.maxTextBytes
    this.#endpoint = new EmbeddingEndpoint(options)
    this.#cache = new LruCache(options.cacheBytes, bytesOf)
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
      const shown =
        error instanceof EndpointFault ? error.toDatabaseError('invalid_argument') : toDatabaseError(error)
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

/** Registers the counter of texts. Returns the callback that fills it. */
export function textCounter(metrics: ServiceMetrics): EmbedderOptions['onTexts'] {
  const texts = metrics.counter(
    'vicinal_embedding_texts_total',
    'Texts of calls by the source of their embedding: the endpoint or the cache.',
    ['source'],
  )
  return (count, cached) => {
    texts({ source: 'endpoint' }, count - cached)
    texts({ source: 'cache' }, cached)
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

/** An endpoint that embeds texts: `POST /embeddings` as OpenAI defined it. */
class EmbeddingEndpoint {
  readonly #endpoint: ModelEndpoint

  constructor(options: EndpointOptions) {
    this.#endpoint = new ModelEndpoint(
      {
        path: 'embeddings',
        name: 'the embedding endpoint',
        product: 'embeddings of',
        settings: 'EMBEDDINGS',
        unavailable: 'embeddings_unavailable',
      },
      options,
    )
  }

  /** @throws EndpointFault; the reason of `signal` */
  async embed(texts: readonly string[], signal: AbortSignal): Promise<Float32Array[]> {
    const read = (text: string): Generator<void, Float32Array[]> => readAnswer(text, texts.length)
    return await this.#endpoint.post({ input: texts, encoding_format: 'float' }, read, signal)
  }
}

/**
 * Reads the answer of an endpoint: `{"data":[{"index":0,"embedding":[0.1,…]},…]}`. An answer can have megabytes of
 * numbers, and parsing it in one step would block the event loop. So the arrays are cut out and parsed one by one.
 * Yields after each array.
 *
 * @param count number of texts that were sent
 * @returns the embeddings in the order of the texts
 * @throws Error that names the fault of the answer
 */
function* readAnswer(text: string, count: number): Generator<void, Float32Array[]> {
  const arrays: (string | undefined)[] = []
  // In JSON, a quote within a string is escaped with a backslash, so the pattern matches field names only.
  const rest = text.replace(/"embedding"\s*:\s*(\[[^\][{}"]*\])/g, (_, array: string) => {
    arrays.push(array)
    return `"embedding":${arrays.length - 1}`
  })
  const { data } = parse(rest) as { data?: unknown }
  if (!Array.isArray(data)) throw new Error('it has no list `data`')
  if (data.length !== count) throw new Error(`it has ${data.length} embeddings for ${count} texts`)
  const vectors = new Array<Float32Array | undefined>(count)
  let length: number | undefined
  for (const [position, item] of data.entries()) {
    const { index = position, embedding } = (item ?? {}) as { index?: unknown; embedding?: unknown }
    if (!isIndex(index, count) || vectors[index] !== undefined) {
      throw new Error(`data[${position}] has the index ${JSON.stringify(index)}`)
    }
    const array = typeof embedding === 'number' ? arrays[embedding] : undefined
    if (array === undefined) throw new Error(`data[${position}].embedding is not an array of numbers`)
    // Each array is used only once. So an answer with a number in place of an embedding fails: the number and a real
    // embedding would use the same array.
    arrays[embedding as number] = undefined
    const vector = vectorOf(array, `data[${position}].embedding`)
    length ??= vector.length
    if (vector.length !== length)
      throw new Error(`its embeddings have ${length} and ${vector.length} dimensions`)
    vectors[index] = vector
    yield
  }
  return vectors as Float32Array[]
}

function vectorOf(array: string, path: string): Float32Array {
  const numbers = parse(array) as unknown[]
  if (numbers.length === 0 || numbers.length > dimensionMax) {
    throw new Error(`${path} has ${numbers.length} dimensions, it must have 1 to ${dimensionMax}`)
  }
  const vector = new Float32Array(numbers.length)
  for (let index = 0; index < numbers.length; index += 1) {
    const number = numbers[index]
    vector[index] = typeof number === 'number' ? number : Number.NaN
    if (!Number.isFinite(vector[index])) {
      throw new Error(`${path}[${index}] is ${JSON.stringify(number)}, not a number that float32 can hold`)
    }
  }
  return vector
}

/** A text that waits or is being embedded. Calls that need the same text share it. */
interface WaitingText {
  readonly text: string
  /** Key of the text in the cache. */
  readonly key: string
  readonly embedded: Promise<Float32Array>
  readonly resolve: (vector: Float32Array) => void
  readonly reject: (error: DatabaseError) => void
  /** Number of calls that wait for the text. */
  calls: number
  /** Undefined while the text is in a queue. */
  batch: TextBatch | undefined
}

/** Texts that are sent to the endpoint together. */
interface TextBatch {
  readonly texts: readonly WaitingText[]
  readonly stop: AbortController
}

/** All texts that wait or are being embedded, by key. */
class WaitingTexts {
  readonly #all = new Map<string, WaitingText>()
  /** Queues of texts that have not been sent yet: those of small calls, such as searches, and those of large calls. */
  readonly #small = new Set<WaitingText>()
  readonly #large = new Set<WaitingText>()

  get count(): number {
    return this.#all.size
  }

  get queued(): number {
    return this.#small.size + this.#large.size
  }

  has(key: string): boolean {
    return this.#all.has(key)
  }

  /**
   * Adds a call to those that wait for a text. The first call puts the text into a queue.
   *
   * @param isLarge whether the call has more texts than fit into a batch
   */
  join(key: string, text: string, isLarge: boolean): WaitingText {
    const waiting = this.#all.get(key) ?? this.#add(key, text)
    waiting.calls += 1
    if (waiting.batch === undefined) {
      if (isLarge && !this.#small.has(waiting)) this.#large.add(waiting)
      else if (!isLarge) {
        this.#large.delete(waiting)
        this.#small.add(waiting)
      }
    }
    return waiting
  }

  /**
   * Removes a call that no longer needs a text. A text that no call needs is not sent. A request whose texts no call
   * needs is aborted.
   */
  leave(waiting: WaitingText): void {
    waiting.calls -= 1
    if (waiting.calls > 0 || this.#all.get(waiting.key) !== waiting) return
    const { batch } = waiting
    if (batch === undefined) this.#remove(waiting)
    else if (batch.texts.every(({ calls }) => calls === 0)) {
      for (const each of batch.texts) this.#remove(each)
      batch.stop.abort(noCalls)
    }
  }

  /**
   * Takes the next texts off the queues. Small calls go first, so that a search does not wait for an import. Large
   * calls keep half of each batch.
   */
  nextBatch(maxTexts: number, maxLength: number): TextBatch {
    const share = this.#large.size === 0 ? maxTexts : Math.ceil(maxTexts / 2)
    const texts: WaitingText[] = []
    let length = 0
    for (const [queue, most] of [
      [this.#small, share],
      [this.#large, maxTexts],
    ] as const) {
      for (const waiting of queue) {
        if (texts.length === most || (texts.length > 0 && length + waiting.text.length > maxLength)) break
        queue.delete(waiting)
        texts.push(waiting)
        length += waiting.text.length
      }
    }
    return this.batchOf(texts)
  }

  batchOf(texts: readonly WaitingText[]): TextBatch {
    const batch = { texts, stop: new AbortController() }
    for (const waiting of texts) waiting.batch = batch
    return batch
  }

  /** Returns the texts that calls still wait for, and removes the others. */
  needed(texts: readonly WaitingText[]): readonly WaitingText[] {
    for (const waiting of texts) if (waiting.calls === 0) this.#remove(waiting)
    return texts.filter(({ calls }) => calls > 0)
  }

  resolve(waiting: WaitingText, vector: Float32Array): void {
    this.#remove(waiting)
    waiting.resolve(vector)
  }

  reject(waiting: WaitingText, error: DatabaseError): void {
    this.#remove(waiting)
    waiting.reject(error)
  }

  rejectAll(error: DatabaseError): void {
    for (const waiting of [...this.#all.values()]) {
      this.reject(waiting, error)
      waiting.batch?.stop.abort(error)
    }
  }

  #add(key: string, text: string): WaitingText {
    const { promise, resolve, reject } = Promise.withResolvers<Float32Array>()
    // All calls may have left before the text fails, and the rejection must not count as unhandled.
    promise.catch(() => {})
    const waiting: WaitingText = { text, key, embedded: promise, resolve, reject, calls: 0, batch: undefined }
    this.#all.set(key, waiting)
    return waiting
  }

  /**
   * Removes a text. A later call may have added the same text again, so the map entry is removed only if it is this
   * one.
   */
  #remove(waiting: WaitingText): void {
    this.#small.delete(waiting)
    this.#large.delete(waiting)
    if (this.#all.get(waiting.key) === waiting) this.#all.delete(waiting.key)
  }
}

const noCalls = new DatabaseError('cancelled', 'nobody waits for these texts')
