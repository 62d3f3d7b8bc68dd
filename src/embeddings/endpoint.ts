import { DatabaseError, type Reason } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import type { ServiceMetrics } from '../base/metrics.ts'
import { backoffMs, retried } from '../base/retry.ts'
import { inTurns } from '../base/turns.ts'

/** An endpoint of a model, and how it is called. Most values are settings of the same names. */
export interface EndpointOptions {
  /** The base URL without the path, as OpenAI clients are configured. */
  readonly url: string
  readonly model: string
  readonly apiKey: string | undefined
  /** Timeout of one call, including retries. */
  readonly timeoutMs: number
  /** Called when a request has ended. */
  readonly onRequest: (outcome: RequestOutcome, seconds: number) => void
}

type RequestOutcome = 'ok' | 'cancelled' | FaultKind

/** What an endpoint does, and how messages name it. */
interface EndpointKind {
  /** Added to the URL, with a slash. */
  readonly path: string
  /** Like `the embedding endpoint`; its host follows. */
  readonly name: string
  /** Like `embeddings of`; the name of the model follows. */
  readonly product: string
  /** Prefix of its settings. */
  readonly settings: string
  readonly unavailable: Reason
}

/**
 * An HTTP endpoint of a model: takes JSON and returns JSON. Requests with transient failures are retried, after the delay
 * that the endpoint names or with exponential back-off.
 */
export class ModelEndpoint {
  readonly #options: EndpointOptions
  readonly #kind: EndpointKind
  readonly #url: URL
  readonly #name: string

  constructor(kind: EndpointKind, options: EndpointOptions) {
    this.#options = options
    this.#kind = kind
    this.#url = new URL(`${options.url.replace(/\/+$/, '')}/${kind.path}`)
    this.#name = `${kind.name} ${this.#url.host}`
  }

  /**
   * @param fields of the body, besides the model
   * @param read reads the text of the answer in steps; throws an Error that names its fault
   * @throws EndpointFault; the reason of `signal`
   */
  async post<Answer>(
    fields: object,
    read: (text: string) => Generator<void, Answer>,
    signal: AbortSignal,
  ): Promise<Answer> {
    const { model, timeoutMs } = this.#options
    const body = JSON.stringify({ model, ...fields })
    const endMs = performance.now() + timeoutMs
    const pauseOf = (error: unknown, retries: number): number | undefined => {
      if (!(error instanceof EndpointFault) || !error.isTransient || retries === retriesMax) return undefined
      const pauseMs = error.retryAfterMs ?? backoffMs(retries, firstPauseMs, Number.POSITIVE_INFINITY)
      return performance.now() + pauseMs >= endMs ? undefined : pauseMs
    }
    return await retried(() => this.#timed(body, read, endMs, signal), pauseOf, signal)
  }

  async #timed<Answer>(
    body: string,
    read: (text: string) => Generator<void, Answer>,
    endMs: number,
    signal: AbortSignal,
  ): Promise<Answer> {
    const started = performance.now()
    let outcome: RequestOutcome = 'ok'
    try {
      const text = await this.#request(body, endMs, signal)
      try {
        return await inTurns(read(text))
      } catch (error) {
        throw this.#badAnswer((error as Error).message)
      }
    } catch (error) {
      outcome = error instanceof EndpointFault ? error.kind : 'cancelled'
      throw error
    } finally {
      this.#options.onRequest(outcome, (performance.now() - started) / 1000)
    }
  }

  async #request(body: string, endMs: number, signal: AbortSignal): Promise<string> {
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
    if (response.ok) return text
    const { model } = this.#options
    throw faultOfStatus(response, { ...this.#kind, name: this.#name, model }, this.#wordsOf(text))
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
    return new EndpointFault(this.#kind, 'timeout', `${this.#name} has not answered within ${timeoutMs} ms`)
  }

  /** Takes the error code from the cause, where `fetch` puts it. */
  #unreachable(error: unknown): EndpointFault {
    const cause = (error as Error).cause as { code?: unknown } | undefined
    const code = typeof cause?.code === 'string' ? ` (${cause.code})` : ''
    const check = `check that it runs, and ${this.#kind.settings}_URL`
    return new EndpointFault(this.#kind, 'unreachable', `${this.#name} cannot be reached${code}: ${check}`, {
      cause: error,
    })
  }

  #badAnswer(fault: string): EndpointFault {
    const check = `check ${this.#kind.settings}_URL`
    return new EndpointFault(
      this.#kind,
      'bad_answer',
      `the answer of ${this.#name} cannot be used, ${fault}: ${check}`,
    )
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

/** @throws Error for what is not JSON */
export function parse(text: string): unknown {
  try {
    return JSON.parse(text) ?? {}
  } catch {
    // The parser's message quotes the answer, which may contain anything.
    throw new Error('it is not JSON')
  }
}

/** Whether a value is the index of one of `count` items. */
export function isIndex(index: unknown, count: number): index is number {
  return typeof index === 'number' && Number.isInteger(index) && index >= 0 && index < count
}

/** The kinds of failure of a request to the endpoint. They are labels of its metric. */
type FaultKind =
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
  readonly #unavailable: Reason
  /** Delay from the `Retry-After` header; undefined if the endpoint sent none. */
  readonly retryAfterMs: number | undefined

  /** @param message shown to callers, so it must not contain the key */
  constructor(
    { unavailable }: Pick<EndpointKind, 'unavailable'>,
    kind: FaultKind,
    message: string,
    options: { cause?: unknown; retryAfterMs?: number | undefined } = {},
  ) {
    super(message, { cause: options.cause })
    this.#unavailable = unavailable
    this.kind = kind
    this.retryAfterMs = options.retryAfterMs
  }

  /** Whether the same request may succeed later. */
  get isTransient(): boolean {
    return this.kind === 'unreachable' || this.kind === 'rate_limited' || this.kind === 'server_error'
  }

  /** @param refused the reason for a text that the endpoint refuses */
  toDatabaseError(refused: Reason = this.#unavailable): DatabaseError {
    const reason = this.kind === 'refused_text' ? refused : this.#unavailable
    return new DatabaseError(reason, this.message, { cause: this })
  }
}

/**
 * Returns the fault of an unsuccessful response.
 *
 * @param kind with the endpoint's whole name
 * @param words the endpoint's own message; '' if it sent none
 */
function faultOfStatus(
  { status, headers }: Response,
  kind: EndpointKind & { readonly model: string },
  words: string,
): EndpointFault {
  const { name, model, product, settings } = kind
  const said = words === '' ? '' : `: ${words}`
  const retryAfterMs = retryAfterOf(headers.get('retry-after'))
  if (status === 429) {
    return new EndpointFault(
      kind,
      'rate_limited',
      `${name} has too many requests (429): try again later${said}`,
      {
        retryAfterMs,
      },
    )
  }
  if (status === 408 || status >= 500) {
    return new EndpointFault(kind, 'server_error', `${name} failed (${status}): look at its log${said}`, {
      retryAfterMs,
    })
  }
  if (status === 401 || status === 403) {
    // The endpoint's message is left out, because some endpoints quote the key.
    return new EndpointFault(
      kind,
      'unauthorized',
      `${name} refuses the key (${status}): check ${settings}_API_KEY`,
    )
  }
  if (status === 400 || status === 413 || status === 422) {
    return new EndpointFault(kind, 'refused_text', `${name} refuses the text (${status})${said}`)
  }
  const check = `check ${settings}_URL and ${settings}_MODEL`
  return new EndpointFault(
    kind,
    'not_found',
    `${name} has no ${product} ${model} (${status}): ${check}${said}`,
  )
}

/** Parses a `Retry-After` header, which is a number of seconds or an HTTP date. Returns milliseconds from now. */
function retryAfterOf(value: string | null): number | undefined {
  if (value === null) return undefined
  const ms = /^\d+$/.test(value.trim()) ? Number(value) * 1000 : Date.parse(value) - Date.now()
  return Number.isNaN(ms) ? undefined : Math.max(0, ms)
}

/** Registers the counters of an endpoint. Returns the callback that fills them, and logs when it begins to fail. */
export function requestCounters(
  metrics: ServiceMetrics,
  logger: Logger,
  {
    kind,
    name,
    host,
  }: { readonly kind: 'embedding' | 'rerank'; readonly name: string; readonly host: string },
): EndpointOptions['onRequest'] {
  const requests = metrics.counter(
    `vicinal_${kind}_requests_total`,
    `Requests to the ${name} endpoint by outcome: ok, or the kind of failure.`,
    ['outcome'],
  )
  const seconds = metrics.histogram(
    `vicinal_${kind}_request_duration_seconds`,
    `Duration of a request to the ${name} endpoint.`,
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
  )
  const noteOutcome = outageLog(logger, name, host)
  return (outcome, duration) => {
    requests({ outcome }, 1)
    seconds(duration)
    noteOutcome(outcome)
  }
}

/**
 * Returns a function that logs when the endpoint starts to fail and when it recovers. Failures in between are not
 * logged, because each is reported to its caller.
 *
 * @param host of the endpoint
 */
function outageLog(logger: Logger, name: string, host: string): (outcome: RequestOutcome) => void {
  let isFailing = false
  return (outcome) => {
    // These outcomes show nothing about the state of the endpoint.
    if (outcome === 'cancelled' || outcome === 'refused_text') return
    const wasFailing = isFailing
    isFailing = outcome !== 'ok'
    if (isFailing === wasFailing) return
    if (isFailing) logger.warn({ host, outcome }, `the ${name} endpoint fails`)
    else logger.info({ host }, `the ${name} endpoint answers again`)
  }
}
