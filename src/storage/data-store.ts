import { resolve } from 'node:path'
import type { WritesBlocked } from '../base/errors.ts'
import { Turn } from '../base/turns.ts'
import { openMain, type StoreOptions } from './lmdb-store.ts'
import { collectionIndexDirectory, NamedCollections } from './named-collections.ts'
import type {
  CollectionFiles,
  CollectionRecord,
  CollectionSummary,
  DataStore,
  NewCollection,
  Store,
} from './store.ts'

/**
 * Opens everything in `dataDir`, creates it if missing, and locks it against other processes. Removes the leftovers of
 * interrupted creations of collections, and continues the removal of dropped ones.
 *
 * @throws Error if the directory is in use or damaged, or has another format version or dimension
 */
export async function openDataStore(given: StoreOptions): Promise<DataStore> {
  const options = { ...given, dataDir: resolve(given.dataDir) }
  const blocked = new BlockedWriters(options.onWritesBlocked ?? (() => {}))
  const main = await openMain({ ...options, onWritesBlocked: (reason) => blocked.set('main', reason) })
  try {
    const named = await NamedCollections.open(
      options,
      () => main.announceCollections(),
      (reason) => blocked.set('named', reason),
    )
    return new DirectoryStore(options.dataDir, main.store, named)
  } catch (error) {
    await main.store.close()
    throw error
  }
}

class DirectoryStore implements DataStore {
  readonly main: Store
  readonly dataDir: string
  readonly #named: NamedCollections

  constructor(dataDir: string, main: Store, named: NamedCollections) {
    this.dataDir = dataDir
    this.main = main
    this.#named = named
  }

  get collections(): ReadonlyMap<string, CollectionRecord> {
    return this.#named.catalog.collections
  }

  get aliases(): ReadonlyMap<string, string> {
    return this.#named.catalog.aliases
  }

  get diskBytes(): number {
    return this.main.diskBytes + this.#named.diskBytes
  }

  async create(settings: NewCollection): Promise<CollectionRecord> {
    return await this.#named.create(settings)
  }

  async drop(name: string): Promise<void> {
    await this.#named.drop(name)
  }

  async setAliases(set: ReadonlyMap<string, string>, remove: readonly string[]): Promise<void> {
    await this.#named.setAliases(set, remove)
  }

  async open(number: number): Promise<Store> {
    return await this.#named.open(number)
  }

  summary(number: number): CollectionSummary {
    return this.#named.summary(number)
  }

  look(number: number): CollectionFiles {
    return this.#named.look(number)
  }

  indexDirectory(number: number): string {
    return collectionIndexDirectory(this.dataDir, number)
  }

  async close(): Promise<void> {
    await this.#named.close()
    await this.main.close()
  }
}

/** Combines the reasons why two writers refuse changes, and reports the worse one. */
class BlockedWriters {
  readonly #reasons = new Map<string, WritesBlocked>()
  readonly #report: (reason: WritesBlocked | undefined) => void
  #reported: WritesBlocked | undefined

  constructor(report: (reason: WritesBlocked | undefined) => void) {
    this.#report = report
  }

  set(writer: string, reason: WritesBlocked | undefined): void {
    if (reason === undefined) this.#reasons.delete(writer)
    else this.#reasons.set(writer, reason)
    const reasons = [...this.#reasons.values()]
    const worst = reasons.find((each) => each === 'disk_failed') ?? reasons[0]
    if (worst === this.#reported) return
    this.#reported = worst
    this.#report(worst)
  }
}

/**
 * Returns the last record of a cluster's log that any collection of a data directory has stored; 0 if none. Nothing may
 * change the collections meanwhile.
 */
export async function storedPosition(
  store: Pick<DataStore, 'main' | 'collections' | 'summary'>,
): Promise<number> {
  const { position = 0, floor = 0 } = store.main.applied ?? {}
  let last = Math.max(position, floor)
  const turn = new Turn()
  for (const { number } of store.collections.values()) {
    last = Math.max(last, store.summary(number).applied?.position ?? 0)
    if (turn.isOver) await turn.next()
  }
  return last
}
