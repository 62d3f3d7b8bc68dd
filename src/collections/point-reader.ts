import { DatabaseError, internalMessage } from '../base/errors.ts'
import type { Include, Payload, Point } from '../base/point.ts'
import type { HitDetails } from '../base/search-results.ts'
import { detailsOf, wantsPayload } from '../search/hit-details.ts'
import type { PointRecord, Store } from '../storage/store.ts'
import type { TakenPoint } from '../write/logged-request.ts'
import type { LivePoints } from './live-points.ts'

/**
 * Reads points: vectors from memory, payloads from the store. Between the commit of a group and its changes taking
 * effect, the store is ahead of memory. Reading a point then makes its change take effect immediately, so that nobody
 * sees a vector of one state with the payload of another.
 */
export class PointReader {
  readonly #store: Store
  readonly #points: LivePoints
  readonly #settle: (id: string) => void

  /** @param settle makes a committed change of a point take effect */
  constructor(store: Store, points: LivePoints, settle: (id: string) => void) {
    this.#store = store
    this.#points = points
    this.#settle = settle
  }

  /** Returns the point with this id if it is visible. */
  get(id: string): Point | undefined {
    const found = this.#find(id)
    if (found === undefined) return undefined
    const { slot, record } = found
    const { payload } = record
    return { id, payload, vector: this.#points.vector(slot), version: this.#points.versionOf(slot) }
  }

  /** Returns the point with this id as it is stored, even if it has expired and is not deleted yet. */
  stored(id: string): TakenPoint | undefined {
    const found = this.#found(id, () => this.#points.slotOf(id))
    if (found === undefined) return undefined
    const { slot, record } = found
    const points = this.#points
    return {
      ...{ id, sequence: points.table.index!.sequenceOf(slot) },
      ...{ version: points.versionOf(slot), order: points.orderOf(slot) },
      point: { vector: points.vector(slot), payload: record.payload },
    }
  }

  /**
   * Returns the payload of a point if it is visible in this slot. A committed change of the point takes effect first.
   */
  payload(slot: number, id: string): Payload | undefined {
    const found = this.#find(id)
    return found?.slot === slot ? found.record.payload : undefined
  }

  /**
   * Returns what `include` asks for of the visible point in a slot. Returns undefined if a committed change of the
   * point takes effect meanwhile. The journal of attributes then has the slot, and the caller must check whether the
   * point still belongs to its answer.
   */
  details(slot: number, include: Include): HitDetails | undefined {
    const points = this.#points
    const version = points.versionOf(slot)
    const payload = wantsPayload(include) ? this.payload(slot, points.idOf(slot)) : undefined
    if (wantsPayload(include) && (payload === undefined || points.versionOf(slot) !== version))
      return undefined
    return detailsOf(
      { payload: () => payload, vector: () => points.vector(slot), version: () => version },
      include,
    )
  }

  #find(id: string): StoredPoint | undefined {
    const points = this.#points
    return this.#found(id, () => {
      const slot = points.find(id)
      return slot === -1 || points.hasExpired(slot) ? -1 : slot
    })
  }

  #found(id: string, slotOf: () => number): StoredPoint | undefined {
    const points = this.#points
    // The second attempt follows after a committed change of the point has taken effect.
    for (let look = 0; look < 2; look += 1) {
      const slot = slotOf()
      if (slot === -1) return undefined
      const record = this.#store.record(slot, id)
      if (record !== undefined) {
        const version = record.version ?? points.table.index!.sequenceOf(slot)
        if (version === points.versionOf(slot)) return { slot, record }
      }
      this.#settle(id)
    }
    throw new DatabaseError('internal', internalMessage, {
      cause: new Error(`the record of point ${id} is not the one of its slot`),
    })
  }
}

interface StoredPoint {
  readonly slot: number
  readonly record: PointRecord
}
