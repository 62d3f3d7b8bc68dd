import { type SegmentLayout, segmentLayout, slotBytes } from '../index/segment.ts'
import { idTableBytesPerSlot } from '../points/id-table.ts'

interface SizeOptions {
  readonly dimension: number
  /** Links of a point: `m` of its collection's graph. */
  readonly links: number
  readonly searchThreads: number
  readonly maxLimit: number
  /** Bytes of the content and the attributes of a point. */
  readonly contentBytes: number
}

/** Bytes that a point takes, as docs/scale.md adds them up. */
interface PointSize {
  /** With `VECTORS_ON_DISK=false`, and with `true`. */
  readonly memory: number
  readonly memoryOfCodes: number
  /** Likewise. */
  readonly disk: number
  readonly diskWithSlots: number
}

/** Returns the bytes that a point takes, with the memory that is free between two growths. */
export function pointSize({
  dimension,
  links,
  searchThreads,
  maxLimit,
  contentBytes,
}: SizeOptions): PointSize {
  // The main thread, search threads and index threads have a mark each.
  const threads = 1 + 2 * searchThreads
  const layoutOf = (rowsOnDisk: boolean): SegmentLayout =>
    segmentLayout({ ...{ dimension, threads, maxLimit, rowsOnDisk }, m: links, efConstruction: 128 })
  const inMemory = (layout: SegmentLayout): number =>
    (slotBytes(layout, threads) + idTableBytesPerSlot + attributeBytes) * growth
  const graphFile = 8 * links + 16
  const disk = 4 * dimension + rowOverheadBytes + recordOverheadBytes + contentBytes + graphFile
  const layout = layoutOf(true)
  return {
    memory: inMemory(layoutOf(false)),
    memoryOfCodes: inMemory(layout),
    disk,
    diskWithSlots: disk + layout.codeBytes + slotOverheadBytes,
  }
}

/** Memory of a process without points. */
export const processBytes: number = 200 * 1024 * 1024

/** Six typical attributes; docs/operations.md. */
const attributeBytes = 30
/** Garbage, and memory that grew ahead; measured with `npm run test:memory`. */
const growth = 1.15
/** The checksum, id and sequence number of a row. */
const rowOverheadBytes = 28
/** The id, sequence number and norm of a slot in its file. */
const slotOverheadBytes = 32
/** A record of LMDB with its key. */
const recordOverheadBytes = 70
