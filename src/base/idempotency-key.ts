/**
 * The caller's key by which a repeated insert is recognized: what clients and the service share. Imports no modules of
 * Node, because browsers use it too.
 */

export const idempotencyKeyCharsMax = 255

/** How long a key is kept: a day, in which an interrupted import can be continued. */
export const idempotencyKeyLifeMs = 86_400_000

/** What is wrong with a key, as the end of a sentence about it; undefined for a valid one. */
export function faultOfIdempotencyKey(key: string): string | undefined {
  if (key === '') return 'is empty'
  if (key.length > idempotencyKeyCharsMax) {
    return `has ${key.length} characters, the most is ${idempotencyKeyCharsMax}`
  }
  if (!/^[\x20-\x7e]*$/.test(key)) return 'has characters other than printable ASCII'
  // HTTP strips such spaces, so the same key would be a different one over gRPC.
  return key.trim() === key ? undefined : 'begins or ends with a space'
}
