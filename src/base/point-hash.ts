import type { Hash } from 'node:crypto'
import { attributesToJson } from './attributes.ts'
import { contentTypes, type NewPoint } from './point.ts'

/**
 * Adds the values of a point to a hash, so that different lists of points always add different bytes. A point with only
 * vector, content and content type adds the same bytes as in earlier versions, so stored hashes stay valid. Only a
 * point whose text is embedded has an empty vector.
 *
 * @param ttlSeconds the lifetime, if the caller sent one in place of an expiry: it is hashed in place of the expiry
 * @param text the text to embed, if the caller sent one in place of a vector
 */
export function hashPoint(hash: Hash, point: NewPoint, ttlSeconds?: number, text?: string): void {
  const { vector, payload } = point
  const extension = extensionOf(point, ttlSeconds, text)
  head[0] = contentTypes.indexOf(payload.contentType) + (extension === undefined ? 0 : hasExtension)
  head[1] = vector.length
  head[2] = Buffer.byteLength(payload.content)
  hash
    .update(head)
    .update(new Uint8Array(vector.buffer, vector.byteOffset, vector.byteLength))
    .update(payload.content)
  if (extension === undefined) return
  head[0] = Buffer.byteLength(extension)
  hash.update(head.subarray(0, 1)).update(extension)
}

/** All other values of a point as text, the same for equal values; undefined if there are none. */
function extensionOf(
  { id, onConflict, payload }: NewPoint,
  ttlSeconds: number | undefined,
  text: string | undefined,
): string | undefined {
  const { attributes, expiresAtUs } = payload
  const hasMore = id !== undefined || attributes !== undefined || expiresAtUs !== undefined
  if (!hasMore && text === undefined) return undefined
  return JSON.stringify([
    id ?? null,
    id === undefined || onConflict === undefined ? 'error' : onConflict,
    attributes === undefined ? null : attributesToJson(attributes),
    ttlSeconds === undefined ? (expiresAtUs ?? null) : { ttlSeconds },
    ...(text === undefined ? [] : [{ text }]),
  ])
}

/** Added to the number of the content type when more values follow. */
const hasExtension = 0x100

/** Precedes the vector and the content of each point. */
const head = new Uint32Array(3)
