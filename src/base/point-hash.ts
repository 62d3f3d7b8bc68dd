import type { Hash } from 'node:crypto'
import { contentTypes, type NewPoint } from './point.ts'

/** Adds the values of a point to a hash, so that no two different lists of points add the same bytes. */
export function hashPoint(hash: Hash, { vector, payload }: NewPoint): void {
  head[0] = contentTypes.indexOf(payload.contentType)
  head[1] = vector.length
  head[2] = Buffer.byteLength(payload.content)
  hash
    .update(head)
    .update(new Uint8Array(vector.buffer, vector.byteOffset, vector.byteLength))
    .update(payload.content)
}

/** What comes before the vector and the content of each point. */
const head = new Uint32Array(3)
