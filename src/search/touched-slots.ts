import type { SlotAttributes } from './slot-filters.ts'

/**
 * The slots touched since a journal position. Collects them when asked, so that the queries of a batch share one set.
 */
export class TouchedSlots {
  readonly #journal: SlotAttributes['journal']
  readonly #start: number
  /** The journal position up to which the set is complete. */
  #end: number
  /** Undefined after too many changes. */
  #slots: Set<number> | undefined = noSlots

  /** @param position where to begin; the journal's present position by default */
  constructor(journal: SlotAttributes['journal'], position: number = journal.position) {
    this.#journal = journal
    this.#start = position
    this.#end = position
  }

  /** Whether no slot was touched. */
  get isNone(): boolean {
    return this.#journal.position === this.#start
  }

  /** Returns the slots touched up to now; undefined if they are too many to look at. Later calls add to the same set. */
  now(): ReadonlySet<number> | undefined {
    const { position } = this.#journal
    if (this.#slots === undefined || position === this.#end) return this.#slots
    const added = position - this.#start <= touchedMax ? this.#journal.since(this.#end) : undefined
    // Most searches end before anything is touched, and need no set of their own.
    if (this.#slots === noSlots) this.#slots = new Set()
    if (added === undefined) this.#slots = undefined
    else for (const slot of added) this.#slots.add(slot)
    this.#end = position
    return this.#slots
  }
}

const noSlots = new Set<number>()

/** Collecting this many takes a fraction of a millisecond. */
const touchedMax = 8192
