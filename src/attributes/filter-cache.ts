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

  clear(): void {
    this.#entries.clear()
    this.#bytes = 0
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
