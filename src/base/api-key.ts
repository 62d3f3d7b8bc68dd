import { hash, randomBytes, timingSafeEqual } from 'node:crypto'
import { join } from 'node:path'
import type { Filter } from './filter.ts'
import type { Logger } from './log.ts'
import type { Transport } from './metrics.ts'
import { Meter, type MeterSetup, type Quotas } from './quotas.ts'

/** What a key allows: only reads, changes of data too, or also changes of the cluster. Each includes those before it. */
export const roles = ['read', 'write', 'admin'] as const
export type Role = (typeof roles)[number]

/** A key as the service knows it: by its hash. */
export interface ApiKey {
  /** For logs and metrics, which never show the key. */
  readonly name: string
  /** See `hashOfKey`. */
  readonly hash: string
  readonly role: Role
  /** The collections that it may use: names, or beginnings of names followed by `*`; absent: all. */
  readonly collections?: readonly string[] | undefined
  /** The points that it may see and change; absent: all. Tests only attributes. */
  readonly filter?: Filter | undefined
  /** From this time on, it is not valid. */
  readonly expiresAtMs?: number | undefined
  readonly quotas?: KeyQuotas | undefined
  /** Where all threads count what it uses. */
  readonly meter?: MeterSetup | undefined
}

/** What may be said about a key. */
export type KeyInfo = Omit<ApiKey, 'hash' | 'meter'>

/** Points are those that match its filter, in each collection. What they take is for the quotas of collections. */
export type KeyQuotas = Omit<Quotas, 'bytes'>

/** The SHA-256 of a key, in hexadecimal. Keys are random, so a fast hash is as good as a slow one. */
export function hashOfKey(key: string): string {
  return hash('sha256', key, 'hex')
}

/** Whether a key may only use a part of the data. */
export function isRestricted({ collections, filter }: ApiKey): boolean {
  return collections !== undefined || filter !== undefined
}

/** @param name the collection's own name, no alias */
export function mayUse({ collections }: ApiKey, name: string): boolean {
  return collections?.some((each) => covers(each, name)) ?? true
}

function covers(pattern: string, name: string): boolean {
  return pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : pattern === name
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

/** A new random API key: 256 bits in URL-safe base64. */
export function newApiKey(): string {
  return randomBytes(32).toString('base64url')
}

/**
 * The keys that one transport accepts, and how many calls each has authorized: the count shows whether a key that is
 * being replaced is still in use.
 */
export class Keyring {
  #entries!: readonly Entry[]
  /** By hash; the first of equal keys. */
  #byHash!: ReadonlyMap<string, Entry>

  readonly #thread: number

  /** @param thread the number of this one */
  constructor(keys: readonly ApiKey[], thread = 0) {
    this.#thread = thread
    this.#set(keys.map((key) => this.#entry(key, 0)))
  }

  #entry(key: ApiKey, calls: number): Entry {
    return { key, calls, meter: key.meter && new Meter(key.meter, this.#thread) }
  }

  /** Replaces the keys. A key that stays keeps its count. */
  replace(keys: readonly ApiKey[]): void {
    const calls = new Map(this.calls)
    this.#set(keys.map((key) => this.#entry(key, calls.get(key.name) ?? 0)))
  }

  #set(entries: readonly Entry[]): void {
    this.#entries = entries
    this.#byHash = new Map(entries.toReversed().map((entry) => [entry.key.hash, entry]))
  }

  /** Calls that each key has authorized, by its name. */
  get calls(): readonly (readonly [string, number])[] {
    return this.#entries.map(({ key, calls }) => [key.name, calls])
  }

  /**
   * Finds the key in the value of an `authorization` header, bare or as `Bearer <key>`; keys have no spaces. They are
   * looked up by their hashes, and the hash found is compared in constant time: what a caller sends decides neither which bytes are
   * compared nor how many, so the time reveals nothing about a key.
   */
  find(authorization: string | undefined): ApiKey | undefined {
    if (authorization === undefined) return undefined
    const found = this.#entryOf(authorization.replace(/^bearer +/i, ''))
    if (found === undefined || (found.key.expiresAtMs ?? Number.POSITIVE_INFINITY) <= Date.now())
      return undefined
    found.calls += 1
    return found.key
  }

  /** What counts the calls of a key that `find` has returned; undefined if it has no quotas. */
  meterOf({ hash }: ApiKey): Meter | undefined {
    return this.#byHash.get(hash)?.meter
  }

  #entryOf(text: string): Entry | undefined {
    const presented = hashOfKey(text)
    const entry = this.#byHash.get(presented)
    const isSame = timingSafeEqual(Buffer.from(presented), Buffer.from(entry?.key.hash ?? noHash))
    return isSame ? entry : undefined
  }
}

/** No text that anybody knows has it. */
const noHash = '0'.repeat(64)

interface Entry {
  readonly key: ApiKey
  readonly meter: Meter | undefined
  calls: number
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
