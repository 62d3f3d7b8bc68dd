import { positionHeader } from '../base/consistency.ts'
import { cancellation, DatabaseError, type Reason, reasons } from '../base/errors.ts'
import { partialHeader } from '../base/partial-reads.ts'
import { type CallDetails, idempotencyKeyOf, notePartial, partialHeaders } from './call-options.ts'
import { reasonOfMissing } from './collections.ts'
import { type RetryOptions, withRetries } from './retries.ts'
import { ServiceError } from './service-error.ts'
import { Session } from './session.ts'
import { tlsFault } from './tls-fault.ts'

/** The address of an HTTP service, and the credentials for it. */
export interface HttpService extends RetryOptions {
  /** Like `http://127.0.0.1:3000`. */
  readonly baseUrl: string
  /** For a server with HTTP_API_KEY. */
  readonly apiKey?: string | undefined
  /** For a proxy that asks for user and password. Replaces the key, which is sent in the same header. */
  readonly basicAuth?: { readonly user: string; readonly password: string } | undefined
}

/** Calls the service; resolves with the status of a success and its JSON, undefined if the body is empty. */
export type HttpCaller = <Answer>(
  method: string,
  path: string,
  body: string | undefined,
  options?: CallDetails,
) => Promise<{ readonly status: number; readonly answer: Answer }>

export function httpCaller(options: HttpService): HttpCaller {
  const base = options.baseUrl.replace(/\/+$/, '')
  const authorization = authorizationOf(options)
  const session = new Session()
  return async <Answer>(method: string, path: string, body: string | undefined, details?: CallDetails) => {
    const { signal, isRepeatable = false, consistency } = details ?? {}
    const key = idempotencyKeyOf(details)
    const own = {
      ...partialHeaders(details),
      ...(key === undefined ? {} : { 'idempotency-key': key }),
    }
    const { partial, ...answered } = await withRetries(options, { signal, isRepeatable }, () =>
      attempt<Answer>(method, path, body, { ...session.headers(consistency), ...own }, signal),
    )
    notePartial(details, partial)
    return answered
  }

  async function attempt<Answer>(
    method: string,
    path: string,
    body: string | undefined,
    headers: Readonly<Record<string, string>>,
    signal: AbortSignal | undefined,
  ): Promise<{ readonly status: number; readonly answer: Answer; readonly partial: string | null }> {
    try {
      const response = await fetch(base + path, {
        method,
        headers: {
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...authorization,
          ...headers,
        },
        ...(body === undefined ? {} : { body }),
        ...(signal === undefined ? {} : { signal }),
      })
      session.note(response.headers.get(positionHeader))
      const text = await response.text()
      if (!response.ok) throw errorOf(response, path, refusalOf(response, text))
      const answer = (text === '' ? undefined : JSON.parse(text)) as Answer
      return { status: response.status, answer, partial: response.headers.get(partialHeader) }
    } catch (error) {
      if (error instanceof DatabaseError) throw error
      if (signal?.aborted) throw cancellation(signal)
      throw noAnswer(base, error)
    }
  }
}

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
  return apiKey === undefined ? {} : { authorization: apiKey }
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

/**
 * Converts an error. Several reasons share a status; the first one in the table stands for all of them. The text
 * distinguishes a missing point from a missing collection.
 */
function errorOf({ status, headers }: Response, path: string, text: string): ServiceError {
  const isAboutCollection = /^\/(collections|aliases)\b/.test(path) && !text.startsWith('no such path')
  const reason = status === 404 && isAboutCollection ? reasonOfMissing(text) : reasonOfStatus(status)
  const seconds = Number(headers.get('retry-after') ?? Number.NaN)
  return new ServiceError(reason, text, {
    ...(Number.isFinite(seconds) ? { retryAfterMs: seconds * 1000 } : {}),
    // A cluster did not learn in time whether its log has the change.
    isUncertain: status === 503 && text.includes('may have been stored'),
  })
}

/** The first reason with an HTTP status. */
export function reasonOfStatus(status: number): Reason {
  const found = Object.entries(reasons).find(([, { http }]) => http === status)
  return (found?.[0] ?? 'internal') as Reason
}
