import { DatabaseError } from '../base/errors.ts'
import { dimensionMax } from '../base/point.ts'
import { backoffMs, retried } from '../base/retry.ts'
import { inTurns } from '../base/turns.ts'

/** The endpoint that embeds texts, and how it is called. Most values are settings of the same names. */
export interface EndpointOptions {
  /** The base URL without `/embeddings`, as OpenAI clients are configured. */
  readonly url: string
  readonly model: string
  readonly apiKey: string | undefined
  /** Timeout of one batch of texts, including retries. */
  readonly timeoutMs: number
  /** Called when a request has ended. */
  readonly onRequest: (outcome: RequestOutcome, seconds: number) => void
}

export type RequestOutcome = 'ok' | 'cancelled' | FaultKind

/**
 * An HTTP endpoint that embeds texts: `POST /embeddings` as OpenAI defined it. Requests with transient failures are
 * retried, after the delay that the endpoint names or with exponential back-off.
 */
export class EmbeddingEndpoint {
  readonly #options: EndpointOptions
  readonly #url: URL
  readonly #name: string

  constructor(options: EndpointOptions) {
    this.#options = options
    this.#url = new URL(`${options.url.replace(/\/+$/, '')}/embeddings`)
    this.#name = `the embedding endpoint ${this.#url.host}`
  }

  /** @throws EndpointFault; the reason of `signal` */
  async embed(texts: readonly string[], signal: AbortSignal): Promise<Float32Array[]> {
    const { model, timeoutMs } = this.#options
    const body = JSON.stringify({ model, input: texts, encoding_format: 'float' })
    const endMs = performance.now() + timeoutMs
    const pauseOf = (error: unknown, retries: number): number | undefined => {
      if (!(error instanceof EndpointFault) || !error.isTransient || retries === retriesMax) return undefined
      const pauseMs = error.retryAfterMs ?? backoffMs(retries, firstPauseMs, Number.POSITIVE_INFINITY)
      return performance.now() + pauseMs >= endMs ? undefined : pauseMs
    }
    return await retried(() => this.#timed(body, texts.length, endMs, signal), pauseOf, signal)
  }

  async #timed(body: string, count: number, endMs: number, signal: AbortSignal): Promise<Float32Array[]> {
    const started = performance.now()
    let outcome: RequestOutcome = 'ok'
    try {
      return await this.#request(body, count, endMs, signal)
    } catch (error) {
      outcome = error instanceof EndpointFault ? error.kind : 'cancelled'
      throw error
    } finally {
      this.#options.onRequest(outcome, (performance.now() - started) / 1000)
    }
  }

  async #request(body: string, count: number, endMs: number, signal: AbortSignal): Promise<Float32Array[]> {
    const timeout = AbortSignal.timeout(Math.max(1, Math.ceil(endMs - performance.now())))
    let response: Response
    let text: string
    try {
      response = await fetch(this.#url, {
        method: 'POST',
        headers: this.#headers(),
        body,
        redirect: 'manual',
        signal: AbortSignal.any([signal, timeout]),
      })
      text = await this.#read(response)
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof EndpointFault) throw error
      throw timeout.aborted ? this.#timeout() : this.#unreachable(error)
    }
    if (!response.ok)
      throw faultOfStatus(response, { name: this.#name, model: this.#options.model }, this.#wordsOf(text))
    try {
      return await inTurns(readAnswer(text, count))
    } catch (error) {
      throw this.#badAnswer((error as Error).message)
    }
  }

  #headers(): Record<string, string> {
    const { apiKey } = this.#options
    const key = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }
    return { 'content-type': 'application/json', accept: 'application/json', ...key }
  }

  async #read({ body }: Response): Promise<string> {
    const chunks: Uint8Array[] = []
    let bytes = 0
    for await (const chunk of body ?? []) {
      bytes += chunk.length
      if (bytes > answerBytesMax) throw this.#badAnswer(`it is larger than ${answerBytesMax} bytes`)
      chunks.push(chunk)
    }
    return Buffer.concat(chunks).toString('utf8')
  }

  #timeout(): EndpointFault {
    const { timeoutMs } = this.#options
    return new EndpointFault('timeout', `${this.#name} has not answered within ${timeoutMs} ms`)
  }

  /** Takes the error code from the cause, where `fetch` puts it. */
  #unreachable(error: unknown): EndpointFault {
    const cause = (error as Error).cause as { code?: unknown } | undefined
    const code = typeof cause?.code === 'string' ? ` (${cause.code})` : ''
    const check = 'check that it runs, and EMBEDDINGS_URL'
    return new EndpointFault('unreachable', `${this.#name} cannot be reached${code}: ${check}`, {
      cause: error,
    })
  }

  #badAnswer(fault: string): EndpointFault {
    const check = 'check EMBEDDINGS_URL'
    return new EndpointFault('bad_answer', `the answer of ${this.#name} cannot be used, ${fault}: ${check}`)
  }

  /**
   * Returns the message of an error response of OpenAI or compatible services, with the key removed; '' if there is
   * none.
   */
  #wordsOf(text: string): string {
    let message: unknown
    try {
      const { error, message: plain, detail } = JSON.parse(text) as Record<string, unknown>
      message = (error as { message?: unknown } | undefined)?.message ?? error ?? plain ?? detail
    } catch {
      return ''
    }
    if (typeof message !== 'string') return ''
    const { apiKey } = this.#options
    const safe = apiKey === undefined ? message : message.replaceAll(apiKey, '…')
    const line = safe
      .replace(/\p{Cc}+/gu, ' ')
      .trim()
      .toWellFormed()
    return line.length > wordsMax ? `${cut(line)}…` : line
  }
}

/** Shortens well-formed text, and not between the halves of a surrogate pair. */
function cut(text: string): string {
  return text.slice(0, wordsMax).replace(/[\ud800-\udbff]$/, '')
}

const retriesMax = 3
const firstPauseMs = 250

/** Ample: 32 embeddings of 65,535 numbers at 20 bytes each take 42 MB. */
const answerBytesMax = 64 * 1024 * 1024

const wordsMax = 200

/**
 * Reads the answer of an endpoint: `{"data":[{"index":0,"embedding":[0.1,…]},…]}`. An answer can have megabytes of
 * numbers, and parsing it in one step would block the event loop. So the arrays are cut out and parsed one by one.
 * Yields after each array.
 *
 * @param count number of texts that were sent
 * @returns the embeddings in the order of the texts
 * @throws Error that names the fault of the answer
 */
export function* readAnswer(text: string, count: number): Generator<void, Float32Array[]> {
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

function parse(text: string): unknown {
  try {
    return JSON.parse(text) ?? {}
  } catch {
    // The parser's message quotes the answer, which may contain anything.
    throw new Error('it is not JSON')
  }
}

function isIndex(index: unknown, count: number): index is number {
  return typeof index === 'number' && Number.isInteger(index) && index >= 0 && index < count
}

/** The kinds of failure of a request to the endpoint. They are labels of its metric. */
export type FaultKind =
  | 'unreachable'
  | 'timeout'
  | 'rate_limited'
  | 'server_error'
  | 'unauthorized'
  | 'not_found'
  | 'refused_text'
  | 'bad_answer'

/** The failure of a request to the endpoint. */
export class EndpointFault extends Error {
  override readonly name = 'EndpointFault'
  readonly kind: FaultKind
  /** Delay from the `Retry-After` header; undefined if the endpoint sent none. */
  readonly retryAfterMs: number | undefined

  /** @param message shown to callers, so it must not contain the key */
  constructor(
    kind: FaultKind,
    message: string,
    options: { cause?: unknown; retryAfterMs?: number | undefined } = {},
  ) {
    super(message, { cause: options.cause })
    this.kind = kind
    this.retryAfterMs = options.retryAfterMs
  }

  /** Whether the same request may succeed later. */
  get isTransient(): boolean {
    return this.kind === 'unreachable' || this.kind === 'rate_limited' || this.kind === 'server_error'
  }

  toDatabaseError(): DatabaseError {
    const reason = this.kind === 'refused_text' ? 'invalid_argument' : 'embeddings_unavailable'
    return new DatabaseError(reason, this.message, { cause: this })
  }
}

/**
 * Returns the fault of an unsuccessful response.
 *
 * @param name the endpoint's name in messages
 * @param words the endpoint's own message; '' if it sent none
 */
export function faultOfStatus(
  { status, headers }: Response,
  { name, model }: { readonly name: string; readonly model: string },
  words: string,
): EndpointFault {
  const said = words === '' ? '' : `: ${words}`
  const retryAfterMs = retryAfterOf(headers.get('retry-after'))
  if (status === 429) {
    return new EndpointFault('rate_limited', `${name} has too many requests (429): try again later${said}`, {
      retryAfterMs,
    })
  }
  if (status === 408 || status >= 500) {
    return new EndpointFault('server_error', `${name} failed (${status}): look at its log${said}`, {
      retryAfterMs,
    })
  }
  if (status === 401 || status === 403) {
    // The endpoint's message is left out, because some endpoints quote the key.
    return new EndpointFault('unauthorized', `${name} refuses the key (${status}): check EMBEDDINGS_API_KEY`)
  }
  if (status === 400 || status === 413 || status === 422) {
    return new EndpointFault('refused_text', `${name} refuses the text (${status})${said}`)
  }
  const check = 'check EMBEDDINGS_URL and EMBEDDINGS_MODEL'
  return new EndpointFault('not_found', `${name} has no embeddings of ${model} (${status}): ${check}${said}`)
}

/** Parses a `Retry-After` header, which is a number of seconds or an HTTP date. Returns milliseconds from now. */
function retryAfterOf(value: string | null): number | undefined {
  if (value === null) return undefined
  const ms = /^\d+$/.test(value.trim()) ? Number(value) * 1000 : Date.parse(value) - Date.now()
  return Number.isNaN(ms) ? undefined : Math.max(0, ms)
}
