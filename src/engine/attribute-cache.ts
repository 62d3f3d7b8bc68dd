import { mkdir, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { AttributeIndex } from '../attributes/attribute-index.ts'
import { loadIndex, saveIndex } from '../attributes/index-file.ts'
import type { Logger } from '../base/log.ts'

export interface AttributeCacheOptions {
  readonly attributes: AttributeIndex
  /** Where the graphs are kept, too; undefined to keep nothing. */
  readonly directory: string | undefined
  readonly logger: Logger
}

/**
 * The attribute index of a collection on disk, so that a start need not read and parse the attributes of every point. It is
 * written when a collection closes, and after a start that had to do without; what has changed since is told by the
 * versions of the points. Not kept for small collections: their points are read as fast.
 */
export class AttributeCache {
  readonly #attributes: AttributeIndex
  readonly #path: string | undefined
  readonly #logger: Logger
  /** The position of the journal at which memory and file agreed. */
  #savedAt: number | undefined
  #saving: Promise<void> = Promise.resolve()

  constructor({ attributes, directory, logger }: AttributeCacheOptions) {
    this.#attributes = attributes
    this.#path = directory && join(directory, 'attributes.bin')
    this.#logger = logger
  }

  /** Reads the file into the empty index. A damaged file is removed: the index stays empty then. */
  async load(): Promise<void> {
    if (this.#path === undefined) return
    try {
      const sequence = await loadIndex(this.#attributes, this.#path)
      if (sequence !== undefined) this.#savedAt = this.#attributes.journal.position
    } catch (error) {
      const fault = (error as Error).message
      this.#logger.warn({ path: this.#path, fault }, 'a file of attributes is unusable; rebuilding it')
      await rm(this.#path, { force: true })
    }
  }

  /** Resolves when nothing is being written. */
  get ended(): Promise<void> {
    return this.#saving
  }

  /** Whether a start had to build the index. */
  get isMissing(): boolean {
    return this.#savedAt === undefined
  }

  /**
   * Writes the file if it is worth it, one time after the other. Failing is no harm: the next start takes longer.
   *
   * @param sequence of the last change
   */
  save(sequence: number): Promise<void> {
    this.#saving = this.#saving.then(() => this.#save(sequence))
    return this.#saving
  }

  async #save(sequence: number): Promise<void> {
    const { count, journal } = this.#attributes
    if (this.#path === undefined || count < pointsMin || journal.position === this.#savedAt) return
    try {
      const { position } = journal
      await mkdir(dirname(this.#path), { recursive: true, mode: 0o700 })
      if (await saveIndex(this.#attributes, this.#path, sequence)) this.#savedAt = position
    } catch (err) {
      this.#logger.warn({ err }, 'the attributes could not be kept for the next start')
    }
  }
}

/** Reading the records of so many points takes some 50 ms. */
const pointsMin = 10_000
