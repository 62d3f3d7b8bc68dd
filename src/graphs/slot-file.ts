import { type FileMoment, isSameMoment } from '../base/files.ts'
import { idBytes } from '../base/ids.ts'
import { type Column, ColumnFile, saveColumns } from '../index/column-file.ts'
import { liveStates, type SegmentHandle, SlotColumns } from '../index/segment.ts'
import { type IdPages, slotsPerPage } from '../points/id-table.ts'
import type { StoredRows } from '../storage/store.ts'
import { hasBit } from '../storage/table.ts'

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
