import { randomBytes, timingSafeEqual } from 'node:crypto'
import { join } from 'node:path'
import type { Logger } from './log.ts'
import type { Transport } from './metrics.ts'

/** What a key allows: only reads, changes of data too, or also changes of the cluster. Each includes those before it. */
export const roles = ['read', 'write', 'admin'] as const
export type Role = (typeof roles)[number]

export interface ApiKey {
  /** For logs and metrics, which never show the key. */
  readonly name: string
  readonly key: string
  readonly role: Role
}

/** The valid keys. */
export interface ServiceKeys {
  readonly grpc: readonly ApiKey[]
  /** Undefined when HTTP needs no key; with an empty list, no key is valid. */
  readonly http: readonly ApiKey[] | undefined
}

/** Where a data directory keeps the generated key; the command line reads it there too. */
export function apiKeyPath(dataDir: string): string {
  return join(dataDir, 'api-key')
}

/** Where the generated key is kept while a setting overrides it, so that nobody mistakes it for the valid one. */
export function unusedApiKeyPath(dataDir: string): string {
  return join(dataDir, 'api-key.unused')
}

/** A new random API key: 256 bits in URL-safe base64. */
export function newApiKey(): string {
  return randomBytes(32).toString('base64url')
}

/**
 * The keys that one transport accepts, and how many calls each has authorized: the count shows whether a key that is
 * being replaced is still in use.
 */
export class Keyring {
  #matchers: readonly KeyMatcher[]

  constructor(keys: readonly ApiKey[]) {
    this.#matchers = keys.map(createMatcher)
  }

  /** Replaces the keys. A key that stays keeps its count. */
  replace(keys: readonly ApiKey[]): void {
    const calls = new Map(this.calls)
    this.#matchers = keys.map(createMatcher)
    for (const matcher of this.#matchers) matcher.calls = calls.get(matcher.key.name) ?? 0
  }

  /** Calls that each key has authorized, by its name. */
  get calls(): readonly (readonly [string, number])[] {
    return this.#matchers.map(({ key, calls }) => [key.name, calls])
  }

  /**
   * Finds the key in the value of an `authorization` header, bare or as `Bearer <key>`; the first one if two are equal.
   * It always compares all keys, so that the time it takes reveals nothing.
   */
  find(authorization: string | undefined): ApiKey | undefined {
    if (authorization === undefined) return undefined
    const bearer = authorization.replace(/^bearer +/i, '')
    let found: KeyMatcher | undefined
    for (const matcher of this.#matchers) {
      const isBare = matcher.matches(authorization)
      const isBearer = matcher.matches(bearer)
      if (isBare || isBearer) found ??= matcher
    }
    if (found === undefined) return undefined
    found.calls += 1
    return found.key
  }
}

interface KeyMatcher {
  readonly key: ApiKey
  readonly matches: (text: string) => boolean
  calls: number
}

/**
 * Compares with one key in constant time: the presented text is written to a buffer of the key's length, and all of its
 * bytes are always compared.
 */
function createMatcher(key: ApiKey): KeyMatcher {
  const expected = Buffer.from(key.key)
  const presented = Buffer.alloc(expected.length)
  const matches = (text: string): boolean => {
    presented.fill(0)
    presented.write(text)
    // The buffer holds only the beginning of a longer text.
    return timingSafeEqual(presented, expected) && text.length === key.key.length
  }
  return { key, matches, calls: 0 }
}

/**
 * Counts and logs calls without a valid key: the first one immediately, then at most one line a second with their
 * number. Never logs the invalid key.
 */
export class RefusedKeys {
  readonly #logger: Logger
  readonly #counts: Record<Transport, number> = { grpc: 0, http: 0 }
  /** Calls since the last log line. */
  #unreported = 0
  #timer: NodeJS.Timeout | undefined

  constructor(logger: Logger) {
    this.#logger = logger
  }

  /** Calls refused since the start. */
  get counts(): Readonly<Record<Transport, number>> {
    return this.#counts
  }

  /** @param from the caller's address, if it is known */
  add(transport: Transport, from: string | undefined): void {
    this.#counts[transport] += 1
    this.#unreported += 1
    if (this.#timer === undefined) this.#report(transport, from)
  }

  #report(transport: Transport, from: string | undefined): void {
    this.#logger.warn({ transport, from, calls: this.#unreported }, 'refused a missing or invalid API key')
    this.#unreported = 0
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      if (this.#unreported > 0) this.#report(transport, from)
    }, 1000)
    this.#timer.unref()
  }
}
