import { randomBytes } from 'node:crypto'
import { DatabaseError } from '../base/errors.ts'
import { idempotencyKeyLifeMs } from '../base/idempotency-key.ts'
import { idBytes, idFromBytes, idSeedBytes, idsFromSeed, newId } from '../base/ids.ts'
import { partitionOf } from '../base/partitions.ts'
import type { NewPoint } from '../base/point.ts'
import type { Turn } from '../base/turns.ts'
import type { Inserted, ItemError } from '../points/database.ts'
import { checkOutcome } from '../storage/keyed-requests.ts'
import type { Change, ItemOutcome, KeyedRequest, Store } from '../storage/store.ts'
import { type CurrentPoints, type Decision, newDimension } from './decision.ts'
import { StaleRequest } from './stale-request.ts'
import type { InsertRequest, Keyed } from './write-request.ts'

export interface InsertDeciderParts {
  readonly store: Store
  readonly points: CurrentPoints
  /**
   * Returns the change that stores a point under an id, in place of any point that has it.
   *
   * @param index the position of the point in its request
   * @param isNew whether the id was just drawn, so that no point can have it
   */
  readonly changeTo: (id: string, point: NewPoint, index: number, isNew: boolean) => Change
}

/** Decides each point of an insert: its id, whether it replaces a point, and whether it is refused. */
export class InsertDecider {
  readonly #parts: InsertDeciderParts

  constructor(parts: InsertDeciderParts) {
    this.#parts = parts
  }

  /** See `ChangeDecider.decide`. */
  async decide(request: InsertRequest, turn: Turn): Promise<Decision | undefined> {
    const { keyed } = request
    if (keyed !== undefined) {
      const before = await this.#insertedBefore(keyed, nowMsOf(request), turn)
      if (before !== undefined) {
        request.resolve(before)
        return undefined
      }
    }
    if (request.stamp?.isStale) throw new StaleRequest(request.stamp.position)
    const idSeed = request.idSeed ?? (keyed && seedFor(request))
    const { changes, inserted } = await this.#decideItems(request, idSeed, turn)
    const dimension = newDimension(this.#parts.points, request)
    if (changes.length === 0 && keyed === undefined && dimension === undefined) {
      request.resolve(inserted)
      return undefined
    }
    const keyedRequest = keyed && keyedRequestOf(request, keyed, idSeed, inserted)
    return { request, changes, keyedRequest, dimension, acknowledge: () => request.resolve(inserted) }
  }

  async #decideItems(
    request: InsertRequest,
    idSeed: Uint8Array | undefined,
    turn: Turn,
  ): Promise<{ changes: Change[]; inserted: Inserted }> {
    const { points, onError, drawnIds, found, held } = request
    const isDrawnHere = drawnIds === undefined && request.idSeed === undefined
    const seeded = drawnIds === undefined ? idSeed && idsFromSeed(idSeed, points.length) : undefined
    const given = new Map<string, number>()
    const changes: Change[] = []
    const ids: (string | null)[] = []
    const errors: ItemError[] = []
    for (const [index, point] of points.entries()) {
      try {
        checkOnce(points, index, given)
        const id =
          point.id ??
          drawnIds?.[index] ??
          (seeded === undefined ? newId() : idFromBytes(seeded, index * idBytes))
        const isHeld = held === undefined || held.has(partitionOf(id))
        // Other nodes decide about points that are not held here, and the caller gets the answer from them. If all
        // nodes know which points were found, every node decides.
        const isDecidedHere = isHeld || found !== undefined
        if (isDecidedHere && !this.#isSkipped(request, index) && isHeld) {
          const isNew = isDrawnHere && point.id === undefined
          changes.push(this.#parts.changeTo(id, point, index, isNew))
        }
        ids.push(id)
      } catch (error) {
        if (onError === 'abort' || !(error instanceof DatabaseError)) throw error
        ids.push(null)
        errors.push({ index, error })
      }
      if (turn.isOver) await turn.next()
    }
    return { changes, inserted: { ids, errors } }
  }

  /**
   * Whether the point is skipped because its id exists.
   *
   * @throws DatabaseError `already_exists`
   */
  #isSkipped(request: InsertRequest, index: number): boolean {
    const { points } = request
    const { id, onConflict = 'error' } = points[index]!
    if (id === undefined || onConflict === 'replace' || !this.#isThere(id, request, index)) return false
    if (onConflict === 'skip') return true
    throw new DatabaseError(
      'already_exists',
      `${idPath(points, index)}: there is a point with the id ${id} already`,
    )
  }

  /** Whether a point has the id. Uses what was found, if given, so that every node decides the same. */
  #isThere(id: string, { found, stamp }: InsertRequest, index: number): boolean {
    if (found === undefined) return this.#parts.points.find(id) !== -1
    const expiresAtUs = found.expiries.get(index)
    return expiresAtUs !== undefined && expiresAtUs > stamp!.nowUs
  }

  /**
   * Returns the answer of a request that was stored before; undefined when the request is new.
   *
   * @throws DatabaseError `key_reused`
   */
  async #insertedBefore({ identity }: Keyed, nowMs: number, turn: Turn): Promise<Inserted | undefined> {
    const stored = this.#parts.store.keyedRequest(identity.keyHash)
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
}

/** Refuses an id that an earlier point of the request has. */
function checkOnce(points: readonly NewPoint[], index: number, given: Map<string, number>): void {
  const { id } = points[index]!
  if (id === undefined) return
  const first = given.get(id)
  if (first === undefined) {
    given.set(id, index)
    return
  }
  throw new DatabaseError(
    'invalid_argument',
    `${idPath(points, index)} equals ${idPath(points, first)}: the ids of a request must differ`,
  )
}

function idPath(points: readonly NewPoint[], index: number): string {
  return points.length === 1 ? 'id' : `vectors[${index}].id`
}

/**
 * Returns a seed for the ids of a request; undefined for a single point, because deriving its id would take longer than
 * the rest.
 */
function seedFor({ points }: InsertRequest): Uint8Array | undefined {
  return points.length === 1 ? undefined : randomBytes(idSeedBytes)
}

const noSeed: Uint8Array = new Uint8Array(idSeedBytes)

/** Uses the log's time for a request from a log, so that all replicas expire a key at the same record. */
function nowMsOf({ stamp }: InsertRequest): number {
  return stamp === undefined ? Date.now() : stamp.nowUs / 1000
}

function keyedRequestOf(
  request: InsertRequest,
  { identity: { keyHash, bodyHash } }: Keyed,
  idSeed: Uint8Array | undefined,
  { ids, errors }: Inserted,
): KeyedRequest {
  const { points } = request
  const keyedRequest: KeyedRequest = {
    ...{ keyHash, bodyHash, idSeed: idSeed ?? noSeed, points: points.length, acceptedMs: nowMsOf(request) },
    ...(request.stamp === undefined ? {} : { isPartitioned: true }),
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

function keyReused(): DatabaseError {
  return new DatabaseError(
    'key_reused',
    'another request was stored under this idempotency key: repeat a request unchanged, or give this one a different key',
  )
}
