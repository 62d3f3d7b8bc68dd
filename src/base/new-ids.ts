import { createCipheriv, randomUUID } from 'node:crypto'
import { idBytes } from './ids.ts'

/** Ids that the service assigns. Clients read and write ids without this file, which needs Node. */

/** A fresh random point id, lower-case UUID v4. */
export function newId(): string {
  return randomUUID()
}

/** Bytes of a seed for `idsFromSeed`. */
export const idSeedBytes = 16

/**
 * Derives ids of 16 bytes each from a random seed, so that only the seed has to be stored. Without the seed, they look
 * as random as those of `newId`: they are the blocks of AES in counter mode, with the seed as the key.
 *
 * @param isPartitioned whether all begin with the first byte of the seed: a cluster keeps the points of a request
 *   together
 */
export function idsFromSeed(seed: Uint8Array, count: number, isPartitioned = false): Buffer {
  const ids = createCipheriv('aes-128-ctr', seed, Buffer.alloc(idBytes)).update(Buffer.alloc(count * idBytes))
  for (let at = 0; at < ids.length; at += idBytes) {
    if (isPartitioned) ids[at] = seed[0]!
    ids[at + 6] = (ids[at + 6]! & 0x0f) | 0x40
    ids[at + 8] = (ids[at + 8]! & 0x3f) | 0x80
  }
  return ids
}
