import { type Signal, signal } from '@preact/signals'
import { plainToJson } from '../../../src/base/attributes.ts'
import { key, keyRefused } from '../state/session.ts'

/** The root of the API: one level above the page, even behind a proxy that adds a path. */
export const apiRoot: URL = new URL('../', document.baseURI)

/** Whether the last request got no response at all. */
export const isUnreachable: Signal<boolean> = signal(false)

/** A response with an error status. Its message is the server's own text. */
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
  /** Time until the whole response had arrived. */
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

/** Like `call`, but also returns how long the call took. */
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
 * Sends a request and returns the response as soon as its headers have arrived.
 *
 * @throws ApiError with the server's message
 */
export async function send(method: Method, path: string, options: CallOptions = {}): Promise<Response> {
  const response = await ask(method, path, options)
  if (response.ok) return response
  const message = (await response.text()).trim()
  throw new ApiError(
    response.status,
    message === '' ? `The server responded with status ${response.status}.` : message,
  )
}

/**
 * Like `send`, but also returns responses with an error status.
 *
 * @param path below the root of the API: an address cannot lead to another server, which would learn the key
 * @throws ApiError if there is no response
 */
export async function ask(method: Method, path: string, options: CallOptions = {}): Promise<Response> {
  const headers = new Headers(options.headers)
  const sent = key.value
  if (sent !== undefined) headers.set('authorization', sent)
  if (options.body !== undefined) headers.set('content-type', 'application/json')
  const response = await fetch(`${apiRoot.href}${path}`, {
    method,
    headers,
    cache: 'no-store',
    credentials: 'same-origin',
    ...(options.body === undefined ? {} : { body: encode(options.body) }),
    ...(options.signal === undefined ? {} : { signal: options.signal }),
  }).catch((error: unknown) => {
    if (options.signal?.aborted === true) throw error
    isUnreachable.value = true
    throw new ApiError(0, 'The server does not respond. Is it running?')
  })
  isUnreachable.value = false
  if (response.status === 401) keyRefused(sent)
  return response
}

function encode(body: unknown): string {
  return typeof body === 'string' ? body : plainToJson(body)
}

/** The message to show to the user for a thrown value. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError'
}

/** The API path of a collection. */
export function collectionPath(name: string): string {
  return `collections/${encodeURIComponent(name)}`
}
