import { createHash, type Hash, hash } from 'node:crypto'
import { faultOfIdempotencyKey } from '../base/idempotency-key.ts'
import type { NewPoint } from '../base/point.ts'
import { hashPoint } from '../base/point-hash.ts'
import type { RequestIdentity } from '../engine/database.ts'
import { type Call, invalid } from './call.ts'

/**
 * Builds the identity of a request that has an idempotency key, point by point as these are checked. It hashes the
 * values: equal values are the same request, over either transport and however JSON spells them.
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
   * @param ttlSeconds as it was sent: the expiry that follows from it is another one at each repetition
   * @param text as it was sent in place of a vector
   */
  add(point: NewPoint, ttlSeconds?: number, text?: string): void {
    hashPoint(this.#body, point, ttlSeconds, text)
  }

  /** For a request that goes on after bad items. @param bad the items that are not among the points */
  addContinue(bad: readonly number[]): void {
    // No point begins with these bytes: see `hashPoint`.
    this.#body.update(`\xffcontinue:${bad.join(',')}`, 'latin1')
  }

  /** The identity; call when all points have been added. */
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
): RequestIdentityBuilder | undefined {
  if (idempotencyKey === undefined) return undefined
  const fault = faultOfIdempotencyKey(idempotencyKey)
  if (fault !== undefined) throw invalid(`idempotency-key ${fault}`)
  return new RequestIdentityBuilder(idempotencyKey, operation)
}

type KeyedOperation = 'InsertVector' | 'InsertVectorsBatch'

/** The first bytes of SHA-256: enough that no two keys and no two bodies share a hash. */
const hashBytes = 16
