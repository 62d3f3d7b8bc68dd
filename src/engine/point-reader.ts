import { selectAttributes } from '../base/attribute-selection.ts'
import { DatabaseError, internalMessage } from '../base/errors.ts'
import type { Include, Payload, Point } from '../base/point.ts'
import type { HitDetails } from '../base/search-results.ts'
import type { PointRecord, Store } from '../storage/store.ts'
import type { LivePoints } from './live-points.ts'

/**
 * Reads points: vectors from memory, payloads from the store. From the moment when a group is committed until its changes have
 * taken effect, the store is ahead of memory. Then the change of a point that is read takes effect at once, so that nobody
 * sees a vector of one state with the payload of another.
 */
export class PointReader {
  readonly #store: Store
  readonly #points: LivePoints
  readonly #settle: (id: string) => void

  /** @param settle lets a committed change of a point take effect */
  constructor(store: Store, points: LivePoints, settle: (id: string) => void) {
    this.#store = store
    this.#points = points
    this.#settle = settle
  }

  /** The point with this id, if it is visible. */
  get(id: string): Point | undefined {
    const found = this.#find(id)
    if (found === undefined) return undefined
    const { slot, record } = found
    return {
      id,
      payload: record.payload,
      vector: this.#points.vector(slot),
      version: this.#points.versionOf(slot),
    }
  }

  /**
   * What is asked for of the point in a slot; undefined when the point is not there any more, which only happens when a
   * committed change has taken effect here.
   */
  details(slot: number, include: Include): HitDetails | undefined {
    const version = this.#points.versionOf(slot)
    const payload = needsRecord(include) ? this.#payload(slot, include) : undefined
    if (needsRecord(include) && (payload === undefined || !this.#isStill(slot, version))) return undefined
    return {
      ...(payload === undefined ? {} : { payload }),
      ...(include.vector ? { vector: this.#points.vector(slot) } : {}),
      ...(include.version ? { version } : {}),
    }
  }

  #isStill(slot: number, version: number): boolean {
    return this.#points.table.isVisible(slot) && this.#points.versionOf(slot) === version
  }

  #payload(slot: number, include: Include): Payload | undefined {
    const found = this.#find(this.#points.idOf(slot))
    if (found?.slot !== slot) return undefined
    return selectedPayload(found.record.payload, include)
  }

  #find(id: string): { readonly slot: number; readonly record: PointRecord } | undefined {
    const points = this.#points
    // A second look after a committed change of the point has taken effect.
    for (let look = 0; look < 2; look += 1) {
      const slot = points.find(id)
      if (slot === -1 || points.hasExpired(slot)) return undefined
      const record = this.#store.record(slot, id)
      if (record !== undefined) {
        const version = record.version ?? points.table.index!.sequenceOf(slot)
        if (version === points.versionOf(slot)) return { slot, record }
      }
      this.#settle(id)
    }
    throw new DatabaseError('internal', internalMessage, {
      cause: new Error(`the record of point ${id} is not that of its slot`),
    })
  }
}

function needsRecord({ payload, attributes }: Include): boolean {
  return payload || attributes !== undefined
}

/** Of a payload, what is asked for; without `payload`, the attributes alone. */
function selectedPayload(payload: Payload, { payload: isWhole, attributes = 'all' }: Include): Payload {
  const selected = selectAttributes(payload.attributes, attributes)
  const { contentType, content, expiresAtUs } = payload
  return {
    ...(isWhole ? { contentType, content } : { contentType, content: '' }),
    ...(selected === undefined ? {} : { attributes: selected }),
    ...(isWhole && expiresAtUs !== undefined ? { expiresAtUs } : {}),
  }
}
