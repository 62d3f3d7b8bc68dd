import type { SharedDocument, SharedDocuments } from './commit-log.ts'
import type { SeededFaults } from './log-faults.ts'
import { Waiters } from './waiters.ts'

export interface MemoryDocumentsOptions {
  readonly faults?: SeededFaults
  readonly nowMs?: () => number
  /** How long a node counts as live after an announcement. */
  readonly announcementMs?: number
}

/** Documents that the nodes of one process share, for tests and simulations. */
export class SharedMemoryDocuments {
  readonly #faults: SeededFaults | undefined
  readonly #nowMs: () => number
  readonly #announcementMs: number
  readonly #documents = new Map<string, SharedDocument>()
  readonly #announced = new Map<string, { readonly value: Uint8Array; readonly untilMs: number }>()
  readonly #waiters = new Waiters()
  #revision = 0

  constructor(options: MemoryDocumentsOptions = {}) {
    this.#faults = options.faults
    this.#nowMs = options.nowMs ?? Date.now
    this.#announcementMs = options.announcementMs ?? 5_000
  }

  /** The documents as one node uses them. */
  connect(): SharedDocuments {
    const closed = new AbortController()
    return {
      get: (name) => this.#get(name),
      put: (name, value, expected) => this.#put(name, value, expected),
      watch: (name, signal) => this.#watch(name, AbortSignal.any([signal, closed.signal])),
      announce: async (node, value) => {
        this.#announced.set(node, {
          value: Uint8Array.from(value),
          untilMs: this.#nowMs() + this.#announcementMs,
        })
      },
      announced: async () => this.#nodes(),
      close: async () => closed.abort(),
    }
  }

  async #get(name: string): Promise<SharedDocument | undefined> {
    await this.#faults?.delay()
    return this.#documents.get(name)
  }

  async #put(name: string, value: Uint8Array, expected: number): Promise<number | undefined> {
    await this.#faults?.delay()
    if ((this.#documents.get(name)?.revision ?? 0) !== expected) return undefined
    this.#revision++
    this.#documents.set(name, { value: Uint8Array.from(value), revision: this.#revision })
    this.#waiters.wakeAll()
    return this.#revision
  }

  async *#watch(name: string, signal: AbortSignal): AsyncGenerator<SharedDocument> {
    let seen = 0
    while (!signal.aborted) {
      await this.#faults?.delay()
      const document = this.#documents.get(name)
      if (document === undefined || document.revision === seen) {
        await this.#waiters.wait(signal)
        continue
      }
      seen = document.revision
      yield document
    }
  }

  #nodes(): ReadonlyMap<string, Uint8Array> {
    const nowMs = this.#nowMs()
    const there = [...this.#announced].filter(([, { untilMs }]) => untilMs > nowMs)
    return new Map(there.map(([node, { value }]) => [node, value]))
  }
}
