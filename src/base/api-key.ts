import { randomBytes, timingSafeEqual } from 'node:crypto'
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
 * Makes a check against `key` whose time tells nothing of it: what is presented is laid over as many bytes as the
 * key has, and all of them are compared, whatever was presented.
 */
export function createKeyCheck(key: string): KeyCheck {
  const expected = Buffer.from(key)
  const presented = Buffer.alloc(expected.length)
  const isKey = (text: string): boolean => {
    presented.fill(0)
    presented.write(text)
    // Of a longer text only the beginning stands in the buffer.
    return timingSafeEqual(presented, expected) && text.length === key.length
  }
  return (authorization) => {
    if (authorization === undefined) return false
    const bare = isKey(authorization)
    const bearer = isKey(authorization.replace(/^bearer +/i, ''))
    return bare || bearer
  }
}
