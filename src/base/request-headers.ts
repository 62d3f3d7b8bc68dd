/**
 * How new the answer of a cluster's node must be. `session`: at least as new as the position that the caller sends.
 * `latest`: as new as every write acknowledged anywhere before. `available`: as new as the node is.
 */
export const consistencies = ['session', 'latest', 'available'] as const
export type Consistency = (typeof consistencies)[number]

/** The header that chooses the consistency: an HTTP header, or gRPC metadata. */
export const consistencyHeader = 'vicinal-consistency'
/** The header for a position: in a request, the last one the caller has seen; in an answer, the node's own. */
export const positionHeader = 'vicinal-position'

/** Reads a position of a cluster's log from a header; undefined if the text is not a position. */
export function positionOf(text: string): number | undefined {
  const position = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN
  return Number.isSafeInteger(position) ? position : undefined
}

/**
 * Idempotency keys, by which a repeated insert is recognized: the rules that clients and the service share. Imports no
 * modules of Node, because browsers use this file too.
 */

const idempotencyKeyCharsMax = 255

/** How long a key is kept: a day, so that an interrupted import can be continued within that time. */
export const idempotencyKeyLifeMs = 86_400_000

/** Returns the fault of a key, as the end of a sentence about the key; undefined for a valid key. */
export function faultOfIdempotencyKey(key: string): string | undefined {
  if (key === '') return 'is empty'
  if (key.length > idempotencyKeyCharsMax) {
    return `has ${key.length} characters, the maximum is ${idempotencyKeyCharsMax}`
  }
  if (!/^[\x20-\x7e]*$/.test(key)) return 'has characters other than printable ASCII'
  // HTTP strips these spaces and gRPC does not, so one key would become two.
  return key.trim() === key ? undefined : 'begins or ends with a space'
}
