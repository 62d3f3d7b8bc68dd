import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { Catalog } from './catalog.ts'
import { leftovers } from './collection-directories.ts'
import { type CollectionTables, openCheckedCollections } from './collection-tables.ts'
import { collectionsPath, databasePath, rowFilePath } from './data-directory.ts'
import { DirectoryLock } from './directory-lock.ts'
import { collectionIndexDirectory } from './named-collections.ts'
import { checkReplaced } from './replacement.ts'
import type { CollectionRecord } from './store.ts'
import { Survey } from './survey.ts'
import { openDamagedDatabase } from './tables.ts'

/** Finds the damage in all collections of a data directory. It changes nothing. */
export class DirectorySurvey implements AsyncDisposable {
  /** Survey of the default collection; undefined if nothing was ever stored there. */
  readonly main: Survey | undefined
  /** In the order of their numbers. */
  readonly collections: readonly CollectionRecord[]
  readonly #dataDir: string
  readonly #named: CollectionTables | undefined
  readonly #opened: AsyncDisposableStack

  private constructor(dataDir: string, opened: AsyncDisposableStack) {
    this.#dataDir = dataDir
    const isUsed = [databasePath, rowFilePath, collectionsPath].some((path) => existsSync(path(dataDir)))
    if (isUsed) {
      const tables = openDamagedDatabase(dataDir)
      opened.defer(() => tables.root.close())
      this.main = Survey.of(dataDir, tables)
      if (this.main !== undefined) opened.use(this.main)
    }
    this.#named = openCheckedCollections(dataDir)?.tables
    const catalog = new Catalog()
    if (this.#named !== undefined) {
      const { root } = this.#named
      opened.defer(() => root.close())
      catalog.read(this.#named, collectionsPath(dataDir))
    }
    leftovers(dataDir, this.#named && catalog)
    this.collections = [...catalog.collections.values()].sort((a, b) => a.number - b.number)
    this.#opened = opened.move()
  }

  /**
   * Locks the directory until it is closed.
   *
   * @throws Error if the directory is in use, or so damaged that nothing can be read
   */
  static async open(path: string): Promise<DirectorySurvey> {
    const dataDir = resolve(path)
    await using opened = new AsyncDisposableStack()
    const lock = DirectoryLock.acquire(dataDir)
    opened.defer(() => lock.release())
    checkReplaced(dataDir)
    return new DirectorySurvey(dataDir, opened)
  }

  /**
   * Opens the survey of a named collection. The caller closes it.
   *
   * @throws Error if the collection is so damaged that nothing of it can be read
   */
  collection({ number, name }: CollectionRecord): Survey {
    return Survey.of(this.#dataDir, this.#named!.of(number, name))!
  }

  indexDirectory({ number }: CollectionRecord): string {
    return collectionIndexDirectory(this.#dataDir, number)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#opened.disposeAsync()
  }
}
