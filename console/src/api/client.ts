import { type Signal, signal } from '@preact/signals'
import { key, keyRefused } from '../state/session.ts'

/** The API is one level above the page, also behind a proxy that adds a path. */
export const apiRoot: URL = new URL('../', document.baseURI)

/** Whether the last request got no answer at all. */
export const isUnreachable: Signal<boolean> = signal(false)

/** An answer that is not a success. Its message is the server's own sentence. */
export class ApiError extends Error {
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.name = 'ApiError'
    this.status = status
  }
}

export interface CallOptions {
  readonly body?: unknown
  readonly signal?: AbortSignal | undefined
  readonly headers?: Readonly<Record<string, string>>
}

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

export interface Answer<T> {
  readonly value: T
  /** Time until the whole answer was here. */
  readonly tookMs: number
}

/**
 * Calls the API.
 *
 * @throws ApiError with the server's message
 */
export async function call<T>(method: Method, path: string, options: CallOptions = {}): Promise<T> {
  return (await timedCall<T>(method, path, options)).value
}

/** As `call`, and says how long it took. */
export async function timedCall<T>(
  method: Method,
  path: string,
  options: CallOptions = {},
): Promise<Answer<T>> {
  const started = performance.now()
  const response = await send(method, path, options)
  const text = await response.text()
  const tookMs = performance.now() - started
  const isJson = response.headers.get('content-type')?.startsWith('application/json') === true
  return { value: (isJson ? JSON.parse(text) : text) as T, tookMs }
}

/**
 * Sends a request and returns the response once its head is here.
 *
 * @throws ApiError with the server's message
 */
export async function send(method: Method, path: string, options: CallOptions = {}): Promise<Response> {
  const headers = new Headers(options.headers)
  const sent = key.value
  if (sent !== undefined) headers.set('authorization', sent)
  if (options.body !== undefined) headers.set('content-type', 'application/json')
  const response = await fetch(new URL(path, apiRoot), {
    method,
    headers,
    cache: 'no-store',
    credentials: 'same-origin',
    ...(options.body === undefined ? {} : { body: encode(options.body) }),
    ...(options.signal === undefined ? {} : { signal: options.signal }),
  }).catch((error: unknown) => {
    if (options.signal?.aborted === true) throw error
    isUnreachable.value = true
    throw new ApiError(0, 'The server does not answer. Is it running?')
  })
  isUnreachable.value = false
  if (response.ok) return response
  if (response.status === 401) keyRefused(sent)
  const message = (await response.text()).trim()
  throw new ApiError(response.status, message === '' ? `The server answered ${response.status}.` : message)
}

function encode(body: unknown): string {
  return typeof body === 'string' ? body : JSON.stringify(body)
}

/** What to tell the user about something that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError'
}

/** The path of a collection, for paths below it. */
export function collectionPath(name: string): string {
  return `collections/${encodeURIComponent(name)}`
}
