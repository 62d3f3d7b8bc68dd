import { randomBytes } from 'node:crypto'
import { DatabaseError } from '../base/errors.ts'
import { idBytes, idFromBytes, idSeedBytes, idsFromSeed } from '../base/ids.ts'
import type { NewPoint } from '../base/point.ts'
import { idempotencyKeyLifeMs } from '../base/request-headers.ts'
import type { Turn } from '../base/turns.ts'
import type { Inserted, ItemError, RequestIdentity } from '../points/database.ts'
import { checkOutcome } from '../storage/keyed-requests.ts'
import type { ItemOutcome, KeyedRequest, Store } from '../storage/store.ts'

/** Inserts with an idempotency key: what is stored of them, and how a repetition is answered. */

/**
 * Returns the answer of a request that was stored before; undefined when the request is new.
 *
 * @throws DatabaseError `key_reused`
 */
export async function insertedBefore(
  store: Store,
  identity: RequestIdentity,
  nowMs: number,
  turn: Turn,
): Promise<Inserted | undefined> {
  const stored = store.keyedRequest(identity.keyHash)
  if (stored === undefined || nowMs - stored.acceptedMs >= idempotencyKeyLifeMs) return undefined
  if (Buffer.compare(stored.bodyHash, identity.bodyHash) !== 0) throw keyReused()
  const seeded = idsFromSeed(stored.idSeed, stored.points, stored.isPartitioned)
  const ids: (string | null)[] = []
  const errors: ItemError[] = []
  for (let index = 0; index < stored.points; index += 1) {
    const outcome = stored.outcome?.[index] ?? idFromBytes(seeded, index * idBytes)
    const isRefused = typeof outcome === 'object'
    ids.push(isRefused ? null : outcome)
    if (isRefused) errors.push({ index, error: new DatabaseError(outcome.reason, outcome.message) })
    if (turn.isOver) await turn.next()
  }
  return { ids, errors }
}

/**
 * Returns a seed for the ids of a request; undefined for a single point, because deriving its id would take longer than
 * the rest.
 */
export function seedFor(points: number): Uint8Array | undefined {
  return points === 1 ? undefined : randomBytes(idSeedBytes)
}

/** Returns what is stored of a request, so that a repetition gets the same answer. */
export function keyedRequestOf(
  request: {
    readonly identity: RequestIdentity
    readonly points: readonly NewPoint[]
    readonly idSeed: Uint8Array | undefined
    readonly nowMs: number
    /** Whether all ids from the seed are in the partition of its first byte. */
    readonly isPartitioned: boolean
  },
  { ids, errors }: Inserted,
): KeyedRequest {
  const { identity, points, idSeed, nowMs, isPartitioned } = request
  const { keyHash, bodyHash } = identity
  const keyedRequest: KeyedRequest = {
    keyHash,
    bodyHash,
    idSeed: idSeed ?? noSeed,
    points: points.length,
    acceptedMs: nowMs,
    ...(isPartitioned ? { isPartitioned } : {}),
  }
  const isSeeded = idSeed !== undefined
  if (isSeeded && errors.length === 0 && points.every(({ id }) => id === undefined)) return keyedRequest
  const outcome: ItemOutcome[] = ids.map((id, index) =>
    isSeeded && points[index]!.id === undefined ? null : id,
  )
  for (const { index, error } of errors) outcome[index] = { reason: error.reason, message: error.message }
  checkOutcome(outcome)
  return { ...keyedRequest, outcome }
}

const noSeed: Uint8Array = new Uint8Array(idSeedBytes)

function keyReused(): DatabaseError {
  return new DatabaseError(
    'key_reused',
    'another request was stored under this idempotency key: repeat a request unchanged, or give this one a different key',
  )
}
