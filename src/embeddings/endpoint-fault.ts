import { DatabaseError } from '../base/errors.ts'

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
