import { randomBytes } from 'node:crypto'
import { DatabaseError } from '../base/errors.ts'
import { idBytes, idFromBytes, idToBytes } from '../base/ids.ts'
import { idSeedBytes, idsFromSeed, newId } from '../base/new-ids.ts'
import type { NewPoint } from '../base/point.ts'
import { idempotencyKeyLifeMs } from '../base/request-headers.ts'
import type { Turn } from '../base/turns.ts'
import type { Inserted, ItemError, RequestIdentity } from '../points/database.ts'
import { encodeRefusals } from '../storage/keyed-requests.ts'
import type { KeyedRequest, Store } from '../storage/store.ts'

/** Inserts with an idempotency key: what is stored of them, and how a repetition is answered. */

/**
 * Returns the answer of a request that was stored before; undefined when the request is new.
 *
 * @throws DatabaseError `key_reused`
 */
export async function insertedBefore(
  store: Store,
  identity: RequestIdentity,
  points: readonly NewPoint[],
  nowMs: number,
  turn: Turn,
): Promise<Inserted | undefined> {
  const stored = store.keyedRequest(identity.keyHash)
  if (stored === undefined || nowMs - stored.acceptedMs >= idempotencyKeyLifeMs) return undefined
  if (Buffer.compare(stored.bodyHash, identity.bodyHash) !== 0) throw keyReused()
  const drawn = drawIds(stored.idSeed, stored.points, stored.isPartitioned)
  const errors = stored.refused.map(
    ({ index, reason, message }): ItemError => ({ index, error: new DatabaseError(reason, message) }),
  )
  const refused = new Set(errors.map(({ index }) => index))
  const ids: (string | null)[] = []
  for (const [index, { id }] of points.entries()) {
    ids.push(refused.has(index) ? null : (id ?? idFromBytes(drawn, index * idBytes)))
    if (turn.isOver) await turn.next()
  }
  return { ids, errors }
}

/** Returns a seed for `drawIds`. */
export function seedFor(points: number): Uint8Array {
  return points === 1 ? idToBytes(newId()) : randomBytes(idSeedBytes)
}

/**
 * Returns the ids of points without their own, 16 bytes each: those of `idsFromSeed`. Outside of clusters, the seed of a
 * single point is its id, because deriving it would take longer than the rest.
 */
export function drawIds(seed: Uint8Array, points: number, isPartitioned: boolean): Uint8Array {
  return points === 1 && !isPartitioned ? seed : idsFromSeed(seed, points, isPartitioned)
}

/** Returns what is stored of a request, so that a repetition gets the same answer. */
export function keyedRequestOf(
  request: Pick<KeyedRequest, 'idSeed' | 'isPartitioned' | 'acceptedMs'>,
  { keyHash, bodyHash }: RequestIdentity,
  { ids, errors }: Inserted,
): KeyedRequest {
  const refused = errors.map(({ index, error: { reason, message } }) => ({ index, reason, message }))
  // Refuses a request whose answer is too large before anything is stored.
  encodeRefusals(refused)
  return { ...request, keyHash, bodyHash, points: ids.length, refused }
}

function keyReused(): DatabaseError {
  return new DatabaseError(
    'key_reused',
    'another request was stored under this idempotency key: repeat a request unchanged, or give this one a different key',
  )
}
