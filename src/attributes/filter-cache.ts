import type { PreparedFilter } from './prepare-filter.ts'
import type { SlotSet } from './slot-words.ts'

/** The slots that match a filter, as of a position of the journal. */
export interface CachedFilter {
  readonly prepared: PreparedFilter
  set: SlotSet
  position: number
}

/** An LRU cache of filter results by key, with a limit in bytes. */
export class FilterCache {
  readonly #maxBytes: number
  readonly #entries = new Map<string, { readonly filter: CachedFilter; readonly bytes: number }>()
  #bytes = 0

  /** @param maxBytes 0 disables the cache */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  get bytes(): number {
    return this.#bytes
  }

  get count(): number {
    return this.#entries.size
  }

  /** Returns a cached filter, and marks it as the most recently used. */
  get(key: string): CachedFilter | undefined {
    const entry = this.#entries.get(key)
    if (entry === undefined) return undefined
    this.#entries.delete(key)
    this.#entries.set(key, entry)
    return entry.filter
  }

  /** Sets the entry of a key, and evicts the least recently used entries. */
  set(key: string, filter: CachedFilter): void {
    this.#delete(key)
    const bytes = bytesOf(filter)
    if (bytes > this.#maxBytes) return
    this.#entries.set(key, { filter, bytes })
    this.#bytes += bytes
    for (const oldest of this.#entries.keys()) {
      if (this.#bytes <= this.#maxBytes) break
      this.#delete(oldest)
    }
  }

  #delete(key: string): void {
    const entry = this.#entries.get(key)
    if (entry === undefined) return
    this.#entries.delete(key)
    this.#bytes -= entry.bytes
  }
}

function bytesOf({ prepared, set }: CachedFilter): number {
  return entryBytes + prepared.memoryBytes + set.words.byteLength
}

/** Size of the objects and the key as V8 allocates them. */
const entryBytes = 800

/**
 * Records the touched slots in order, in a ring buffer that keeps the most recent ones. Readers note its position and
 * later ask which slots were touched since.
 */
export class ChangeJournal {
  readonly #length: number
  /** Grows with the number of changes, because there can be thousands of small collections. */
  #slots: Uint32Array
  #position = 0

  /** @param length maximum number of changes to keep */
  constructor(length: number) {
    this.#length = length
    this.#slots = new Uint32Array(Math.min(length, lengthMin))
  }

  get memoryBytes(): number {
    return this.#slots.byteLength
  }

  /** Number of changes so far. */
  get position(): number {
    return this.#position
  }

  add(slot: number): void {
    if (this.#position === this.#slots.length && this.#position < this.#length) this.#grow()
    this.#slots[this.#position % this.#slots.length] = slot
    this.#position += 1
  }

  /** Must only be called before any change has been overwritten. */
  #grow(): void {
    const grown = new Uint32Array(Math.min(this.#length, this.#slots.length * 2))
    grown.set(this.#slots)
    this.#slots = grown
  }

  /** Whether all changes since a position are still kept. */
  reaches(position: number): boolean {
    return this.#position - position <= this.#slots.length
  }

  /** Returns the slot of a change that is still kept. */
  slotAt(position: number): number {
    return this.#slots[position % this.#slots.length]!
  }

  /** Returns the slots touched since a position, with repetitions; undefined if the journal has overflowed. */
  since(position: number): number[] | undefined {
    if (!this.reaches(position)) return undefined
    return Array.from({ length: this.#position - position }, (_, index) => this.slotAt(position + index))
  }
}

const lengthMin = 64
