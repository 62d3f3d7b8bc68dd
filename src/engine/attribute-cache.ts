import { mkdir, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { AttributeIndex } from '../attributes/attribute-index.ts'
import {
  type FileMoment,
  type LoadedFile,
  loadIndex,
  OutdatedFile,
  saveIndex,
} from '../attributes/index-file.ts'
import type { Logger } from '../base/log.ts'

export interface AttributeCacheOptions {
  readonly attributes: AttributeIndex
  /** The slots whose order is not the sequence number of the row, with it: they are kept too. */
  readonly orders: () => Iterable<readonly [slot: number, order: number]>
  /** Where the graphs are kept, too; undefined to keep nothing. */
  readonly directory: string | undefined
  /** Nothing is kept of fewer points. */
  readonly pointsMin?: number | undefined
  readonly logger: Logger
}

/**
 * The attribute index of a collection on disk, so that a start need not read and parse the attributes of every point. It is
 * written when a collection closes, and after a start that had to do without; what has changed since is told by the
 * versions of the points. Not kept for small collections: their points are read as fast.
 */
export class AttributeCache {
  readonly #attributes: AttributeIndex
  readonly #orders: AttributeCacheOptions['orders']
  readonly #path: string | undefined
  readonly #pointsMin: number
  readonly #logger: Logger
  /** The position of the journal at which memory and file agreed, and of which moment the file says it is. */
  #saved: { readonly position: number; readonly moment: FileMoment } | undefined
  #saving: Promise<void> = Promise.resolve()

  constructor({ attributes, orders, directory, pointsMin = usualPointsMin, logger }: AttributeCacheOptions) {
    this.#attributes = attributes
    this.#orders = orders
    this.#path = directory && join(directory, 'attributes.bin')
    this.#pointsMin = pointsMin
    this.#logger = logger
  }

  /**
   * Reads the file into the empty index. One that is damaged, or of other points, is removed: the index stays empty then.
   *
   * @param now the present moment of the collection
   * @returns what else the file has; undefined without a file that can be used, or when `signal` has aborted
   */
  async load(now: FileMoment, signal: AbortSignal | undefined): Promise<LoadedFile | undefined> {
    if (this.#path === undefined) return undefined
    try {
      const file = await loadIndex(this.#attributes, this.#path, now, signal)
      if (file !== undefined) this.#saved = { position: this.#attributes.journal.position, moment: file }
      return file
    } catch (error) {
      if (signal?.aborted === true) return undefined
      const fault = (error as Error).message
      const level = error instanceof OutdatedFile ? 'info' : 'warn'
      this.#logger[level]({ path: this.#path, fault }, 'a file of attributes is unusable; rebuilding it')
      await rm(this.#path, { force: true })
      return undefined
    }
  }

  /** Resolves when nothing is being written. */
  get ended(): Promise<void> {
    return this.#saving
  }

  /** Whether a start had to build the index. */
  get isMissing(): boolean {
    return this.#saved === undefined
  }

  /** Writes the file if it is worth it, one time after the other. Failing is no harm: the next start takes longer. */
  save(moment: FileMoment): Promise<void> {
    this.#saving = this.#saving.then(() => this.#save(moment))
    return this.#saving
  }

  async #save(moment: FileMoment): Promise<void> {
    const { count, journal } = this.#attributes
    const { position } = journal
    const isSaved =
      this.#saved?.position === position &&
      this.#saved.moment.sequence === moment.sequence &&
      this.#saved.moment.databaseId === moment.databaseId
    if (this.#path === undefined || count < this.#pointsMin || isSaved) return
    try {
      await mkdir(dirname(this.#path), { recursive: true, mode: 0o700 })
      const isWritten = await saveIndex(this.#attributes, this.#path, moment, this.#orders())
      if (isWritten) this.#saved = { position, moment }
    } catch (err) {
      this.#logger.warn({ err }, 'the attributes could not be kept for the next start')
    }
  }
}

/** Reading the records of so many points takes some 50 ms. */
const usualPointsMin = 10_000
