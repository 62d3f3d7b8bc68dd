import { createHash, type Hash, hash } from 'node:crypto'
import { faultOfIdempotencyKey } from '../base/idempotency-key.ts'
import type { NewPoint } from '../base/point.ts'
import { hashPoint } from '../base/point-hash.ts'
import type { RequestIdentity } from '../points/database.ts'
import { type Call, invalid } from './call.ts'

/**
 * Builds the identity of a request that has an idempotency key, point by point as the points are checked. It hashes the
 * values: requests with equal values are the same, over either transport and however JSON spells the values.
 */
export class RequestIdentityBuilder {
  readonly #keyHash: Uint8Array
  readonly #body: Hash

  constructor(key: string, operation: KeyedOperation) {
    this.#keyHash = hash('sha256', key, 'buffer').subarray(0, hashBytes)
    // The two inserts have different answers: one key cannot be used for both.
    this.#body = createHash('sha256').update(operation)
  }

  /**
   * @param ttlSeconds as sent: the expiry computed from it differs with each repetition
   * @param text as sent in place of a vector
   */
  add(point: NewPoint, ttlSeconds?: number, text?: string): void {
    hashPoint(this.#body, point, ttlSeconds, text)
  }

  /**
   * For a request that continues after bad items.
   *
   * @param bad the indexes of the items that are not among the points, except for those in `refused`
   * @param refused the indexes of the items whose texts could not be embedded; they were added
   */
  addContinue(bad: readonly number[], refused: readonly number[]): void {
    // No point begins with these bytes: see `hashPoint`.
    this.#body.update(`\xffcontinue:${bad.join(',')}`, 'latin1')
    // Without refused texts the bytes are those of earlier versions, so stored hashes stay valid.
    if (refused.length > 0) this.#body.update(`;refused:${refused.join(',')}`, 'latin1')
  }

  /** Returns the identity; call when all points have been added. */
  whole(): RequestIdentity {
    return { keyHash: this.#keyHash, bodyHash: this.#body.digest().subarray(0, hashBytes) }
  }
}

/**
 * Returns a builder for the request's identity, or undefined for a request without a key.
 *
 * @throws DatabaseError `invalid_argument` for a malformed key
 */
export function identityOf(
  { idempotencyKey }: Call,
  operation: KeyedOperation,
): RequestIdentityBuilder | undefined {
  if (idempotencyKey === undefined) return undefined
  const fault = faultOfIdempotencyKey(idempotencyKey)
  if (fault !== undefined) throw invalid(`idempotency-key ${fault}`)
  return new RequestIdentityBuilder(idempotencyKey, operation)
}

type KeyedOperation = 'InsertVector' | 'InsertVectorsBatch'

/** The first bytes of SHA-256: enough that no two keys and no two bodies share a hash. */
const hashBytes = 16
