import { randomBytes } from 'node:crypto'
import { DatabaseError } from '../base/errors.ts'
import { idempotencyKeyLifeMs } from '../base/idempotency-key.ts'
import { idBytes, idFromBytes, idSeedBytes, idsFromSeed, newId } from '../base/ids.ts'
import type { Turn } from '../base/turns.ts'
import { wrongDimension } from '../base/wrong-dimension.ts'
import type { Change, Insertion, KeyedRequest, Store } from '../storage/store.ts'
import { dimensionOf, type InsertRequest, type Keyed, type WriteRequest } from './write-request.ts'

/** What decisions depend on: the points after the changes that have taken effect. */
export interface CurrentPoints {
  /** The slot of a live point, or -1. */
  find(id: string): number
  /** Fixed by the first insertion that took effect; undefined before. */
  readonly dimension: number | undefined
}

/** What a request changes. It stays the same however often its changes are tried. */
export interface Decision {
  readonly request: WriteRequest
  /** In the order of their sequence numbers. */
  readonly changes: readonly Change[]
  readonly keyedRequest?: KeyedRequest
}

/**
 * Turns requests into changes: whether there is something to change, the ids of new points, and the sequence numbers.
 * A number is given out once. When its change is refused later, because memory or the disk is full, it remains unused.
 * Main thread only.
 */
export class ChangeDecider {
  readonly #store: Store
  readonly #points: CurrentPoints
  /** The last number that was given out. */
  #sequence: number

  constructor(store: Store, points: CurrentPoints) {
    this.#store = store
    this.#points = points
    this.#sequence = store.sequence
  }

  /**
   * What a request changes; undefined when it changes nothing and has been answered.
   *
   * @throws DatabaseError when the request is refused
   */
  async decide(request: WriteRequest, turn: Turn): Promise<Decision | undefined> {
    if (request.kind === 'insert') return await this.#decideInsert(request, turn)
    const { id } = request
    if (this.#points.find(id) === -1) {
      request.resolve(false)
      return undefined
    }
    return { request, changes: [{ kind: 'delete', id, sequence: this.#nextSequence() }] }
  }

  async #decideInsert(request: InsertRequest, turn: Turn): Promise<Decision | undefined> {
    const { points, keyed } = request
    if (keyed !== undefined) {
      const ids = await this.#idsGivenBefore(keyed, turn)
      if (ids !== undefined) {
        request.resolve(ids)
        return undefined
      }
    }
    const length = dimensionOf(request)
    const { dimension = length } = this.#points
    if (length !== dimension) {
      throw wrongDimension(points.length === 1 ? 'vector' : 'vectors[0].vector', length, dimension)
    }
    const idSeed = keyed && randomBytes(idSeedBytes)
    const ids = idSeed && idsFromSeed(idSeed, points.length)
    const changes: Insertion[] = []
    for (const [index, point] of points.entries()) {
      const id = ids === undefined ? newId() : idFromBytes(ids, index * idBytes)
      changes.push({ kind: 'insert', id, sequence: this.#nextSequence(), point })
      if (turn.isOver) await turn.next()
    }
    if (keyed === undefined) return { request, changes }
    const { keyHash, bodyHash } = keyed.identity
    const keyedRequest = { keyHash, bodyHash, idSeed: idSeed!, points: points.length, acceptedMs: Date.now() }
    return { request, changes, keyedRequest }
  }

  /**
   * The ids of a request that is stored already; undefined when it is new.
   *
   * @throws DatabaseError `key_reused`
   */
  async #idsGivenBefore({ identity }: Keyed, turn: Turn): Promise<readonly string[] | undefined> {
    const stored = this.#store.keyedRequest(identity.keyHash)
    if (stored === undefined || Date.now() - stored.acceptedMs >= idempotencyKeyLifeMs) return undefined
    if (Buffer.compare(stored.bodyHash, identity.bodyHash) !== 0) throw keyReused()
    const bytes = idsFromSeed(stored.idSeed, stored.points)
    const ids: string[] = []
    for (let index = 0; index < stored.points; index += 1) {
      ids.push(idFromBytes(bytes, index * idBytes))
      if (turn.isOver) await turn.next()
    }
    return ids
  }

  #nextSequence(): number {
    this.#sequence += 1
    return this.#sequence
  }
}

function keyReused(): DatabaseError {
  return new DatabaseError(
    'key_reused',
    'another request was stored under this idempotency key: repeat a request unchanged, or give this one a key of its own',
  )
}
