import type { Hash } from 'node:crypto'
import { attributesToJson } from './attribute-json.ts'
import { contentTypes, type NewPoint } from './point.ts'

/**
 * Adds the values of a point to a hash, so that no two different lists of points add the same bytes. A point with nothing
 * but vector, content and content type adds what it always added: hashes that are stored stay valid. The vector of a point
 * whose text is embedded is empty, which no other is.
 *
 * @param ttlSeconds what the expiry follows from, if the caller sent that instead: it takes the place of the expiry
 * @param text what the vector follows from, if the caller sent that beside the payload
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

/** Everything else of a point as text, the same for equal values; undefined if there is nothing else. */
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

/** Added to the number of the content type. */
const hasExtension = 0x100

/** What comes before the vector and the content of each point. */
const head = new Uint32Array(3)
