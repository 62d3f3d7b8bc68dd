import type { Filter } from '../base/filter.ts'
import { newFilterId, type SlotFilter } from '../index/slot-filter.ts'

/** What searches need from the attribute index. */
export interface SlotAttributes {
  /** The slots whose points were inserted, removed or changed, in order. */
  readonly journal: {
    readonly position: number
    /** Returns the slots touched since a position; undefined if the journal does not reach back that far. */
    since(position: number): readonly number[] | undefined
  }
  /** Whether the point in a slot matches; false for an empty slot. */
  matches(filter: Filter, slot: number): boolean
  /**
   * Returns the slots that match at the moment of the return. Later calls may change the set, but only for slots
   * touched after this one.
   */
  matching(
    filter: Filter,
  ): Generator<void, { readonly words: Uint32Array<SharedArrayBuffer>; readonly count: number }>
}

/** The slots that match a filter, and the journal position at which they do. */
export interface MatchingSlots {
  readonly slots: SlotFilter
  readonly position: number
}

/** Numbers the bitmaps of filters for search threads. The shared memory of a bitmap identifies it. */
export class SlotFilters {
  readonly #attributes: SlotAttributes
  readonly #ids = new WeakMap<SharedArrayBuffer, number>()

  constructor(attributes: SlotAttributes) {
    this.#attributes = attributes
  }

  *matching(filter: Filter): Generator<void, MatchingSlots> {
    const { words, count } = yield* this.#attributes.matching(filter)
    // Read in the same turn: later changes are in the journal after this position.
    const { position } = this.#attributes.journal
    // Only touched slots change in a bitmap. The low bits of the position tell the versions apart that a thread has
    // copied.
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
