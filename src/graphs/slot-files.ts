import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type FileMoment, isSameMoment } from '../base/files.ts'
import type { Logger } from '../base/log.ts'
import type { IdPages } from '../points/id-table.ts'
import type { StoredRows } from '../storage/store.ts'
import { saveMin, saveShare } from './graph-builds.ts'
import type { GraphScheduler } from './graph-scheduler.ts'
import type { GraphSet } from './graph-set.ts'

interface SlotFilesOptions {
  readonly graphs: GraphSet
  readonly scheduler: GraphScheduler
  readonly directory: string | undefined
  readonly logger: Logger
  /** The moment of the points in memory; undefined while memory and store differ. */
  readonly moment: () => FileMoment | undefined
  /** Where the ids of slots are. */
  readonly ids: () => IdPages
}

/**
 * Saves what a start needs of rows that stay on disk (slot-file.ts): when points have come to rest after many changes, or
 * after a start without usable files, and at the end. The first change of a row removes the files. Main thread only.
 */
export class SlotFiles {
  readonly #options: SlotFilesOptions
  /** Slots filled or emptied. */
  #changes = 0
  /** `#changes` when files were last read or written. */
  #keptAt = Number.NEGATIVE_INFINITY
  /** The moment of the files, if they have the present rows. */
  #moment: FileMoment | undefined
  /** An earlier run may have left files. */
  #mayExist = true
  #removed: Promise<unknown> = Promise.resolve()

  constructor(options: SlotFilesOptions) {
    this.#options = options
  }

  /** Call for each slot that was filled or emptied. */
  changed(): void {
    this.#changes += 1
    if (this.#mayExist) this.#remove()
  }

  /** Fills the index; returns false if the rows must be read. */
  async load(rows: StoredRows, ids: IdPages): Promise<boolean> {
    const { graphs, scheduler, moment, logger } = this.#options
    const now = moment()
    if (!this.#isUsed || now === undefined) return false
    // All have ended before the rows are read in their place.
    const loaded = await Promise.allSettled(
      this.#places.map((place) => scheduler.submit({ kind: 'loadSlots', ...place, rows, ids, moment: now })),
    )
    const failed = loaded.find((each) => each.status === 'rejected')
    if (failed !== undefined)
      logger.info(
        { reason: (failed.reason as Error).message },
        'the slots on disk are unusable: reading all vectors',
      )
    const points = loaded.map((each) => (each.status === 'fulfilled' ? each.value : undefined))
    if (points.includes(undefined)) return false
    for (const each of points) graphs.index.filled(each!)
    this.#keptAt = this.#changes
    this.#moment = now
    return true
  }

  saveWhenDue(isCalm: boolean): void {
    const { graphs, scheduler } = this.#options
    const isMuch = this.#changes - this.#keptAt > Math.max(saveMin, graphs.index.liveCount * saveShare)
    if (isMuch && isCalm && this.#isUsed && scheduler.isIdle) scheduler.addChore(() => this.#save())
  }

  /** Saves the slots for the next start; call when nothing changes any more. */
  async saveLast(): Promise<void> {
    const { graphs, scheduler } = this.#options
    if (this.#isUsed && !scheduler.hasFailed && !scheduler.hasEnded && graphs.hasGraph) await this.#save()
  }

  async #save(): Promise<void> {
    const { scheduler, moment, ids, logger } = this.#options
    await this.#removed
    const now = moment()
    if (now === undefined || (this.#moment !== undefined && isSameMoment(this.#moment, now))) return
    const changes = this.#changes
    this.#keptAt = changes
    this.#mayExist = true
    try {
      for (const place of this.#places)
        await scheduler.submit({ kind: 'saveSlots', ...place, ids: ids(), moment: now })
      this.#moment = now
    } catch (err) {
      logger.warn({ err }, 'the slots could not be saved for the next start')
      this.#remove()
    }
    if (this.#changes !== changes) this.#remove()
  }

  /** Whether rows stay on disk: otherwise a start reads them anyway. */
  get #isUsed(): boolean {
    const { directory, graphs } = this.#options
    return directory !== undefined && graphs.isAttached && graphs.index.layout.rows === 0
  }

  get #places(): readonly { readonly ordinal: number; readonly path: string }[] {
    const { directory, graphs } = this.#options
    if (directory === undefined) return []
    return graphs.index.segments.map(({ ordinal }) => {
      return { ordinal, path: join(directory, `slots-${ordinal}.bin`) }
    })
  }

  #remove(): void {
    const { logger } = this.#options
    this.#mayExist = false
    this.#moment = undefined
    // A kill while a file was written has left its beginning.
    const paths = this.#places.flatMap(({ path }) => [path, `${path}.new`])
    this.#removed = Promise.all(paths.map((path) => rm(path, { force: true }))).catch((err) =>
      // Their moment is past, so that no start uses them.
      logger.warn({ err }, 'the slots on disk could not be removed'),
    )
  }
}
