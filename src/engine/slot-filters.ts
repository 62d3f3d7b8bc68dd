import type { Filter } from '../base/filter.ts'
import { newFilterId, type SlotFilter } from '../index/slot-filter.ts'

/** What searches ask of an index of attributes. */
export interface SlotAttributes {
  /** Slots whose point came, went or changed, in order. */
  readonly journal: {
    readonly position: number
    /** The slots touched since a position; undefined if they are not remembered any more. */
    since(position: number): readonly number[] | undefined
  }
  /** Whether the point in a slot matches; false for a slot without one. */
  matches(filter: Filter, slot: number): boolean
  /** The slots that match when it returns. Later calls may change the set, but only for slots that are touched after this one. */
  matching(
    filter: Filter,
  ): Generator<void, { readonly words: Uint32Array<SharedArrayBuffer>; readonly count: number }>
}

/** The slots that match a filter, and the position of the journal as of which they do. */
export interface MatchingSlots {
  readonly slots: SlotFilter
  readonly position: number
}

/** Makes the bitmaps of filters known to search threads by a number: that of the memory that they are in. */
export class SlotFilters {
  readonly #attributes: SlotAttributes
  readonly #ids = new WeakMap<SharedArrayBuffer, number>()

  constructor(attributes: SlotAttributes) {
    this.#attributes = attributes
  }

  *matching(filter: Filter): Generator<void, MatchingSlots> {
    const { words, count } = yield* this.#attributes.matching(filter)
    // In the same turn: later changes are in the journal after this position.
    const { position } = this.#attributes.journal
    // A bitmap is changed for touched slots alone; which version a thread has copied is told by its low bits.
    return {
      slots: { id: this.#idOf(words.buffer), version: position & 0x7fff_ffff, words, count },
      position,
    }
  }

  #idOf(buffer: SharedArrayBuffer): number {
    const known = this.#ids.get(buffer)
    if (known !== undefined) return known
    const id = newFilterId()
    this.#ids.set(buffer, id)
    return id
  }
}
