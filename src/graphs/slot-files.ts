import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type FileMoment, isSameMoment } from '../base/files.ts'
import { idBytes } from '../base/ids.ts'
import type { Logger } from '../base/log.ts'
import { type Column, ColumnFile, saveColumns } from '../index/column-file.ts'
import { liveStates, type SegmentHandle, SlotColumns } from '../index/segment.ts'
import { type IdPages, slotsPerPage } from '../points/id-table.ts'
import type { StoredRows } from '../storage/store.ts'
import { hasBit } from '../storage/table.ts'
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
 * Saves what a start needs of rows that stay on disk (see `saveSlots`): when points have come to rest after many
 * changes, or after a start without usable files, and at the end. The first change of a row removes the files. Main
 * thread only.
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
      // A file that was complete is kept: a stop can end the thread between the file and its answer.
      for (const { path } of this.#places) await rm(`${path}.new`, { force: true }).catch(() => {})
      logger.warn({ err }, 'the slots could not be saved for the next start')
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

/** So many changes are worth writing files although more changes arrive. */
export const saveMin = 20_000
export const saveShare = 0.1

/**
 * The slots of a segment on disk: everything that a start computes from rows that stay on disk. It is a cache that is
 * read instead of the rows, if the store is at the moment at which it was written. Whether a slot is live is known from
 * the store.
 */
const magic = 'VICSLOTS'
/** Must change with the format of codes. A file of another version is not used. */
const formatVersion = 1

interface Header extends FileMoment {
  readonly version: number
  readonly dimension: number
  readonly codeBits: number
  readonly firstSlot: number
  readonly slotCount: number
}

/** The slots of a segment in memory. */
interface SegmentSlots {
  readonly segment: SegmentHandle
  readonly slotCount: number
  readonly ids: IdPages
}

/** Writes slots to a file. If they change meanwhile, the caller must remove the file. */
export function saveSlots(slots: SegmentSlots, path: string, moment: FileMoment): void {
  saveColumns(path, magic, headerFor(slots, moment), columnsOf(slots))
}

/**
 * Reads the slots of a segment.
 *
 * @returns the number of live slots; undefined if there is no file
 * @throws Error that names why the file is unusable. No slot is live then.
 */
export function loadSlots(
  segment: SegmentHandle,
  rows: StoredRows,
  ids: IdPages,
  path: string,
  moment: FileMoment,
): number | undefined {
  using file = ColumnFile.open<Header>(path, magic, 'a file of slots')
  if (file === undefined) return undefined
  const { firstSlot, layout } = segment
  const slots = { segment, slotCount: Math.min(layout.capacity, rows.slotCount - firstSlot), ids }
  const wanted = headerFor(slots, moment)
  for (const field of ['version', 'dimension', 'codeBits', 'firstSlot', 'slotCount'] as const) {
    if (file.header[field] !== wanted[field])
      throw new Error(`it was written for ${field} ${file.header[field]}, which is now ${wanted[field]}`)
  }
  if (!isSameMoment(file.header, moment)) throw new Error('the points have changed since it was written')
  file.read(columnsOf(slots))
  const { live } = new SlotColumns(segment)
  let points = 0
  for (let local = 0; local < slots.slotCount; local += 1) {
    if (!hasBit(rows.live, firstSlot + local)) continue
    Atomics.store(live, local, liveStates.unread)
    points += 1
  }
  return points
}

function headerFor({ segment, slotCount }: SegmentSlots, moment: FileMoment): Header {
  const { firstSlot, layout } = segment
  const { dimension, codeBits } = layout
  const { databaseId, sequence, points } = moment
  return { version: formatVersion, dimension, codeBits, firstSlot, slotCount, databaseId, sequence, points }
}

function columnsOf({ segment, slotCount, ids }: SegmentSlots): Column[] {
  const { layout, firstSlot, memory } = segment
  const { buffer } = memory
  const columns: Column[] = [
    { name: 'sequences', bytes: new Uint8Array(buffer, layout.sequences, slotCount * 8) },
    { name: 'norms', bytes: new Uint8Array(buffer, layout.norms, slotCount * 8) },
    { name: 'codes', bytes: new Uint8Array(buffer, layout.codes, slotCount * layout.codeBytes) },
  ]
  const end = firstSlot + slotCount
  for (let slot = firstSlot; slot < end; slot = nextPage(slot)) {
    const at = (slot % slotsPerPage) * idBytes
    const count = Math.min(end, nextPage(slot)) - slot
    const page = ids[Math.floor(slot / slotsPerPage)]!
    columns.push({ name: 'ids', bytes: page.subarray(at, at + count * idBytes) })
  }
  return columns
}

function nextPage(slot: number): number {
  return (Math.floor(slot / slotsPerPage) + 1) * slotsPerPage
}
