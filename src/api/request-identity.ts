import { createHash, type Hash, hash } from 'node:crypto'
import { faultOfIdempotencyKey } from '../base/idempotency-key.ts'
import type { NewPoint } from '../base/point.ts'
import { hashPoint } from '../base/point-hash.ts'
import type { RequestIdentity } from '../engine/database.ts'
import { type Call, invalid } from './call.ts'

/**
 * Makes the identity of a request that came with an idempotency key, point by point as these are checked. What is
 * hashed are the values: the same ones are the same request, over either transport and however JSON spells them.
 */
export class IdentityOfRequest {
  readonly #keyHash: Uint8Array
  readonly #body: Hash

  constructor(key: string, operation: KeyedOperation) {
    this.#keyHash = hash('sha256', key, 'buffer').subarray(0, hashBytes)
    // The two inserts are answered differently: one key cannot be for both.
    this.#body = createHash('sha256').update(operation)
  }

  add(point: NewPoint): void {
    hashPoint(this.#body, point)
  }

  /** When all points have been added. */
  whole(): RequestIdentity {
    return { keyHash: this.#keyHash, bodyHash: this.#body.digest().subarray(0, hashBytes) }
  }
}

/**
 * Undefined for a request without a key.
 *
 * @throws DatabaseError `invalid_argument` for a key that cannot be one
 */
export function identityOf(
  { idempotencyKey }: Call,
  operation: KeyedOperation,
): IdentityOfRequest | undefined {
  if (idempotencyKey === undefined) return undefined
  const fault = faultOfIdempotencyKey(idempotencyKey)
  if (fault !== undefined) throw invalid(`idempotency-key ${fault}`)
  return new IdentityOfRequest(idempotencyKey, operation)
}

type KeyedOperation = 'InsertVector' | 'InsertVectorsBatch'

/** Of SHA-256: enough that no two keys and no two bodies share a hash. */
const hashBytes = 16
