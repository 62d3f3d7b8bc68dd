import { jsonNumbers, plainToJson } from '../base/attributes.ts'
import { cancellation, DatabaseError, reasonHeader, reasonIn, reasonOfStatus } from '../base/errors.ts'
import { positionHeader } from '../base/request-headers.ts'
import { snakeCase } from '../base/spelling.ts'
import { type HttpOperation, type HttpParts, httpRequest } from '../messages/http-paths.ts'
import {
  addressesIn,
  apiKeyIn,
  boundsIn,
  type CallBounds,
  type CallDetails,
  makeCall,
  Nodes,
  noAnswerInTime,
  ServiceError,
  Session,
  tlsFault,
} from './calls.ts'
import type { Hit, StoredPayload } from './client.ts'
import { attributeJson, attributesFromJson, dateIn, dateText } from './values.ts'

export { httpRequest }

/** The address of an HTTP service, and the credentials for it. */
export interface HttpService extends CallBounds {
  /** Like `http://127.0.0.1:3000`. */
  readonly baseUrl: string
  /** For a server with HTTP_API_KEY. */
  readonly apiKey?: string | undefined
  /** For a proxy that asks for user and password. Replaces the key, which is sent in the same header. */
  readonly basicAuth?: { readonly user: string; readonly password: string } | undefined
  /** In place of the built-in `fetch`: with one that presents a certificate, for example. */
  readonly fetch?: typeof fetch | undefined
}

export interface HttpCaller {
  /** Calls an operation; resolves with the JSON of its answer, undefined if the body is empty. */
  ask<Answer>(operation: HttpOperation, request: HttpCall): Promise<Answer>
  /** Also resolves with the status of the success. */
  call<Answer>(
    operation: HttpOperation,
    request: HttpCall,
  ): Promise<{ readonly status: number; readonly answer: Answer }>
  readonly maxRequestBytes: number
}

interface HttpCall {
  readonly details: CallDetails
  /** Of the path and the query. */
  readonly parts?: HttpParts
  /** Whose path is called; absent: that of the default collection, or of none. */
  readonly collection?: string | undefined
  readonly body?: string
}

/** A service, or the nodes of a cluster. */
export interface HttpServices extends Omit<HttpService, 'baseUrl'> {
  /** Like `http://127.0.0.1:3000`. Of several nodes of a cluster, one is called until it fails. */
  readonly baseUrl: string | readonly string[]
}

export function httpCaller(options: HttpServices): HttpCaller {
  const nodes = new Nodes(addressesIn(options.baseUrl, 'baseUrl').map((url) => url.replace(/\/+$/, '')))
  const bounds = boundsIn(options)
  const { timeoutMs, maxRequestBytes } = bounds
  const fetchOf: typeof fetch = (...request) => (options.fetch ?? fetch)(...request)
  const authorization = authorizationOf(options)
  const session = new Session()
  const call: HttpCaller['call'] = <Answer>(
    operation: HttpOperation,
    { details, parts, collection, body }: HttpCall,
  ) => {
    const { method, path } = httpRequest(operation, parts, collection)
    return makeCall(bounds, session, nodes, details, body?.length ?? 0, (base, headers) =>
      attempt<Answer>(base, method, path, body, headers, details.signal),
    )
  }
  const ask: HttpCaller['ask'] = async <Answer>(operation: HttpOperation, request: HttpCall) =>
    (await call<Answer>(operation, request)).answer
  return { ask, call, maxRequestBytes }

  async function attempt<Answer>(
    base: string,
    method: string,
    path: string,
    body: string | undefined,
    headers: Readonly<Record<string, string>>,
    signal: AbortSignal | undefined,
  ): Promise<{ readonly status: number; readonly answer: Answer }> {
    const stop = new AbortController()
    const cancel = (): void => stop.abort()
    signal?.addEventListener('abort', cancel, { once: true })
    const timer = setTimeout(cancel, timeoutMs)
    try {
      const response = await fetchOf(base + path, {
        method,
        headers: { ...authorization, ...headers, ...(body === undefined ? {} : typeOfBody) },
        ...(body === undefined ? {} : { body }),
        signal: stop.signal,
      })
      session.note(response.headers.get(positionHeader))
      const text = await response.text()
      if (!response.ok) throw errorOf(response, refusalOf(response, text))
      const answer = (text === '' ? undefined : JSON.parse(text)) as Answer
      return { status: response.status, answer }
    } catch (error) {
      if (error instanceof DatabaseError) throw error
      if (signal?.aborted) throw cancellation(signal)
      if (stop.signal.aborted) throw noAnswerInTime(base, timeoutMs, error)
      throw noAnswer(base, error)
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', cancel)
    }
  }
}

/** The service refuses fields that it does not know, which a newer client could send. */
const typeOfBody = { 'content-type': 'application/json', 'vicinal-strict': 'true' }

/** The `authorization` header, if there are credentials. */
export function authorizationOf({
  apiKey,
  basicAuth,
}: Omit<HttpService, 'baseUrl'>): Readonly<Record<string, string>> {
  if (basicAuth !== undefined) {
    const { user, password } = basicAuth
    const bytes = new TextEncoder().encode(`${user}:${password}`)
    return { authorization: `Basic ${btoa(String.fromCharCode(...bytes))}` }
  }
  return apiKey === undefined ? {} : { authorization: apiKeyIn(apiKey) }
}

/** The message of a refusal. The service sends errors as plain text; an HTML page comes from a proxy. */
export function refusalOf({ status, headers }: Response, text: string): string {
  if (!headers.get('content-type')?.startsWith('text/html')) return text
  const title = /<title>(.*?)<\/title>/is.exec(text)?.[1] ?? `status ${status}`
  return `the proxy in front of the service answered: ${title}${status === 401 ? ' (it asks for user and password: --user, --password-file)' : ''}`
}

/** The system's message for an error of fetch, which itself only says "fetch failed". */
export function causeOf(error: unknown): string {
  const { cause, message } = error as Error
  return cause instanceof Error ? cause.message || (cause as NodeJS.ErrnoException).code! : message
}

function noAnswer(base: string, error: unknown): DatabaseError {
  if (error instanceof SyntaxError) {
    return new DatabaseError('internal', `${base} does not answer in JSON: is it the HTTP port?`, {
      cause: error,
    })
  }
  const why = causeOf(error)
  const message = tlsFault(base, why) ?? `no HTTP service answers at ${base}: ${why}`
  return new ServiceError('not_ready', message, { cause: error, isUncertain: true })
}

/** Converts an error. An answer without a reason is not from the service; then the status has to do. */
function errorOf({ status, headers }: Response, text: string): ServiceError {
  const seconds = Number(headers.get('retry-after') ?? Number.NaN)
  // Only a proxy sends these, when it does not reach the service, loses it, or gets no answer in time.
  const isOfProxy = status === 502 || status === 504
  const reason = isOfProxy ? 'not_ready' : reasonOfStatus('http', status)
  return new ServiceError(reasonIn(headers.get(reasonHeader)) ?? reason, text, {
    ...(Number.isFinite(seconds) ? { retryAfterMs: seconds * 1000 } : {}),
    // Of the service: a cluster did not learn in time whether its log has the change.
    isUncertain: isOfProxy || (status === 503 && text.includes('may have been stored')),
  })
}

/** Conversions between the client's types, as `input.ts` has checked them, and the JSON of HTTP. */

/**
 * The JSON of an object that begins with a vector, whose numbers parse to the same float32 values. The vector is written
 * without quotes, so it is written from an array that can hold nothing but numbers.
 */
export function bodyOf(input: object): string {
  const { vector, ...fields } = input as { readonly vector?: ArrayLike<number> | undefined }
  const rest = plainToJson(fieldsJson(fields))
  if (vector === undefined) return rest
  return `{"vector":${jsonNumbers(new Float64Array(vector))}${rest === '{}' ? '}' : `,${rest.slice(1)}`}`
}

/** The fields of an object in the names and forms of JSON. `plainToJson` leaves out undefined ones. */
export function fieldsJson(fields: object): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]: [string, unknown]) => [
      jsonNames[name] ?? snakeCase(name),
      value && (jsonOf[name]?.(value as never) ?? value),
    ]),
  )
}

const jsonNames: Readonly<Record<string, string>> = { metric: 'similarity' }

/** The fields that are not the same in JSON. In all others, callers choose no names. */
const jsonOf: Readonly<Record<string, (value: never) => unknown>> = {
  filter: attributeJson,
  attributes: attributeJson,
  set: attributeJson,
  expiresAt: dateText,
  since: dateText,
  until: dateText,
  payload: fieldsJson,
  when: fieldsJson,
  hnsw: fieldsJson,
  quotas: fieldsJson,
  groupBy: fieldsJson,
  recent: fieldsJson,
  statistics: fieldsJson,
  boost: (boosts: readonly object[]) => boosts.map(fieldsJson),
}

export interface PayloadAnswer {
  readonly content_type: StoredPayload['contentType']
  readonly content: string
  readonly attributes?: unknown
  readonly expires_at?: string
}

export interface HitAnswer extends Omit<Hit, 'payload' | 'vector'> {
  readonly payload?: PayloadAnswer
  readonly vector?: readonly number[]
}

export function payloadOf({ content_type, content, attributes, expires_at }: PayloadAnswer): StoredPayload {
  return {
    ...(content_type === undefined ? {} : { contentType: content_type }),
    ...(content === undefined ? {} : { content }),
    ...(attributes === undefined ? {} : { attributes: attributesFromJson(attributes) }),
    ...(expires_at === undefined ? {} : { expiresAt: dateIn(expires_at) }),
  } as StoredPayload
}

export function hitOf({ payload, vector, highlight = [], ...rest }: HitAnswer): Hit {
  return {
    ...rest,
    ...(highlight.length === 0 ? {} : { highlight }),
    ...(payload === undefined ? {} : { payload: payloadOf(payload) }),
    ...(vector === undefined ? {} : { vector: Float32Array.from(vector) }),
  }
}

/**
 * An answer without data of users in the names of the client: camel case, and undefined for null.
 */
export function renamed(answer: unknown): unknown {
  if (Array.isArray(answer)) return answer.map(renamed)
  if (typeof answer !== 'object') return answer
  if (answer === null) return undefined
  return Object.fromEntries(
    Object.entries(answer).map(([name, value]) => [
      otherNames[name] ?? name.replaceAll(/_(.)/g, (_, letter) => letter.toUpperCase()),
      renamed(value),
    ]),
  )
}

const otherNames: Readonly<Record<string, string>> = {
  similarity: 'metric',
  settling: 'isSettling',
  secret: 'isSecret',
}
