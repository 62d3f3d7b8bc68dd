import { randomBytes, timingSafeEqual } from 'node:crypto'
import { join } from 'node:path'

/** What a key allows: reading alone, or everything. */
export const roles = ['read', 'write'] as const
export type Role = (typeof roles)[number]

export interface ApiKey {
  /** For logs and metrics, which never show the key. */
  readonly name: string
  readonly key: string
  readonly role: Role
}

/** The keys that are in force. */
export interface ServiceKeys {
  readonly grpc: readonly ApiKey[]
  /** Undefined when HTTP asks for no key; of an empty list nobody has one. */
  readonly http: readonly ApiKey[] | undefined
}

/** Where a data directory keeps the generated key; whoever has the directory finds it there, the command line too. */
export function apiKeyPath(dataDir: string): string {
  return join(dataDir, 'api-key')
}

/** Where the generated key is kept while a setting gives another one, so that nobody takes it for the one in force. */
export function unusedApiKeyPath(dataDir: string): string {
  return join(dataDir, 'api-key.unused')
}

/** A new random API key: 256 bits in URL-safe base64. */
export function newApiKey(): string {
  return randomBytes(32).toString('base64url')
}

/**
 * The keys that one transport takes, and how many calls each has let in: whoever replaces a key sees there whether
 * the old one is still in use.
 */
export class Keyring {
  #locks: readonly Lock[]

  constructor(keys: readonly ApiKey[]) {
    this.#locks = keys.map(createLock)
  }

  /** Puts other keys into force; those that stay keep their counts. */
  replace(keys: readonly ApiKey[]): void {
    const calls = new Map(this.calls)
    this.#locks = keys.map(createLock)
    for (const lock of this.#locks) lock.calls = calls.get(lock.key.name) ?? 0
  }

  /** Calls that each key has let in, by its name. */
  get calls(): readonly (readonly [string, number])[] {
    return this.#locks.map(({ key, calls }) => [key.name, calls])
  }

  /**
   * The key that the value of an `authorization` header is, bare or as `Bearer <key>`; the first one where two are
   * the same. All keys are compared, whichever it is, so that the time tells nothing.
   */
  find(authorization: string | undefined): ApiKey | undefined {
    if (authorization === undefined) return undefined
    const bearer = authorization.replace(/^bearer +/i, '')
    let found: Lock | undefined
    for (const lock of this.#locks) {
      const isBare = lock.isKey(authorization)
      const isBearer = lock.isKey(bearer)
      if (isBare || isBearer) found ??= lock
    }
    if (found === undefined) return undefined
    found.calls += 1
    return found.key
  }
}

interface Lock {
  readonly key: ApiKey
  readonly isKey: (text: string) => boolean
  calls: number
}

/**
 * Compares with one key in a time that tells nothing of it: what is presented is laid over as many bytes as the key
 * has, and all of them are compared, whatever was presented.
 */
function createLock(key: ApiKey): Lock {
  const expected = Buffer.from(key.key)
  const presented = Buffer.alloc(expected.length)
  const isKey = (text: string): boolean => {
    presented.fill(0)
    presented.write(text)
    // Of a longer text only the beginning stands in the buffer.
    return timingSafeEqual(presented, expected) && text.length === key.key.length
  }
  return { key, isKey, calls: 0 }
}
