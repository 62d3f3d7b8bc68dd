import { createHash } from 'node:crypto'
import { mkdir, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { AttributeIndex } from '../attributes/attribute-index.ts'
import {
  type FileMoment,
  isSameMoment,
  type LoadedFile,
  loadIndex,
  saveIndex,
} from '../attributes/index-file.ts'
import type { NumberField } from '../attributes/number-field.ts'
import type { Logger } from '../base/log.ts'
import type { Store } from '../storage/store.ts'

interface AttributeCacheOptions {
  readonly attributes: AttributeIndex
  /** The orders that differ from the sequence number of the row. They are saved too. */
  readonly orders: NumberField
  /** The directory of the graphs; undefined to save nothing. */
  readonly directory: string | undefined
  /** A collection with fewer points is not saved. */
  readonly pointsMin?: number | undefined
  readonly logger: Logger
}

/**
 * Keeps the attribute index of a collection on disk, so that a start need not read and parse the attributes of every
 * point. The file is written when a collection closes, and after a start that found no usable file. The versions of the
 * points show what has changed since. Small collections have no file: reading their points is as fast.
 */
export class AttributeCache {
  readonly #attributes: AttributeIndex
  readonly #orders: NumberField
  readonly #path: string | undefined
  readonly #pointsMin: number
  readonly #logger: Logger
  /** The journal position at which memory and file agreed, and the moment that the file records. */
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
   * Reads the file into the empty index. A damaged file, or one of other points, is removed and the index stays empty.
   *
   * @param now the present moment of the collection
   * @returns the rest of the file's content; undefined if there is no usable file, or when `signal` has aborted
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
      this.#logger.warn({ path: this.#path, fault }, 'the file of attributes is unusable; rebuilding it')
      await rm(this.#path, { force: true })
      return undefined
    }
  }

  /** Resolves when nothing is being written. */
  get ended(): Promise<void> {
    return this.#saving
  }

  /** Whether no file has been loaded or saved yet. */
  get isMissing(): boolean {
    return this.#saved === undefined
  }

  /** Writes the file if needed; concurrent calls run one after another. A failure only makes the next start slower. */
  save(moment: FileMoment): Promise<void> {
    this.#saving = this.#saving.then(() => this.#save(moment))
    return this.#saving
  }

  async #save(moment: FileMoment): Promise<void> {
    const { count, journal } = this.#attributes
    const { position } = journal
    const isSaved = this.#saved?.position === position && isSameMoment(this.#saved.moment, moment)
    if (this.#path === undefined || count < this.#pointsMin || isSaved) return
    try {
      await mkdir(dirname(this.#path), { recursive: true, mode: 0o700 })
      const isWritten = await saveIndex(this.#attributes, this.#path, moment, this.#orders)
      if (isWritten) this.#saved = { position, moment }
    } catch (err) {
      this.#logger.warn({ err }, 'the attributes could not be saved for the next start')
    }
  }
}

/** The present moment of a collection. */
export function momentOf({ databaseId, sequence, applied }: Store): FileMoment {
  const points = applied && createHash('sha256').update(applied.digest).digest('base64url')
  return { databaseId, sequence, points }
}

/** Reading the records of this many points takes about 50 ms. */
const usualPointsMin = 10_000
