import type { Collection } from '../../src/collections/collection.ts'
import { until } from './until.ts'

/** Makes all records of some collections wait before they are applied. */
export class WaitingRecords implements Disposable {
  readonly #isOver = Promise.withResolvers<void>()
  readonly #counts = new Map<Collection, number>()

  constructor(collections: readonly Collection[]) {
    for (const collection of collections) {
      const { replica } = collection
      const apply = replica.apply.bind(replica)
      Object.assign(replica, {
        apply: async (...record: Parameters<typeof apply>) => {
          this.#counts.set(collection, this.#countOf(collection) + 1)
          await this.#isOver.promise
          return await apply(...record)
        },
      })
    }
  }

  /** Resolves when this many records of the collection have begun to wait. */
  async has(collection: Collection, count: number = 1): Promise<void> {
    await until(() => this.#countOf(collection) >= count)
  }

  #countOf(collection: Collection): number {
    return this.#counts.get(collection) ?? 0
  }

  [Symbol.dispose](): void {
    this.#isOver.resolve()
  }
}
