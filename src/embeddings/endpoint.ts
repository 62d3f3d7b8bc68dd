import { backoffMs, retried } from '../base/retry.ts'
import { inTurns } from '../base/turns.ts'
import { readAnswer } from './answer.ts'
import { EndpointFault, type FaultKind, faultOfStatus } from './endpoint-fault.ts'

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
