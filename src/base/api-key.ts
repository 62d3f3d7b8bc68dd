import { hash, randomBytes, timingSafeEqual } from 'node:crypto'
import { join } from 'node:path'

/** Says whether the value of an `authorization` header is the key, bare or as `Bearer <key>`. */
export type KeyCheck = (authorization: string | undefined) => boolean

/** Where a data directory keeps the generated key; whoever has the directory finds it there, the command line too. */
export function apiKeyPath(dataDir: string): string {
  return join(dataDir, 'api-key')
}

/** A new random API key: 256 bits in URL-safe base64. */
export function newApiKey(): string {
  return randomBytes(32).toString('base64url')
}

/**
 * Makes a check against `key` whose time tells nothing of it: both sides are hashed behind a prefix that is
 * random per process, so the comparison is of two 32-byte digests whatever was presented. No HMAC: digests never
 * leave the process, and making the object of its key twice for each call took a quarter of a small search.
 */
export function createKeyCheck(key: string): KeyCheck {
  const prefix = randomBytes(32).toString('hex')
  const digest = (text: string): Buffer => hash('sha256', prefix + text, 'buffer')
  const expected = digest(key)
  return (authorization) => {
    const bare = timingSafeEqual(digest(authorization ?? ''), expected)
    const bearer = timingSafeEqual(digest((authorization ?? '').replace(/^bearer +/i, '')), expected)
    return authorization !== undefined && (bare || bearer)
  }
}
