import { DatabaseError } from '../base/errors.ts'

/**
 * One segment: a shared WebAssembly memory of at most 4 GiB that holds a run of slots.
 *
 *   0        64                                                                          memory.buffer end
 *   ├────────┼───────────────┬───────────┬────────────┬────────────┬──────────────────────────┤
 *   │ unused │ scratch       │ live      │ sequences  │ norms      │ rows                     │
 *   │        │ one lane a    │ u8 a slot │ f64 a slot │ f64 a slot │ f32 x padded dimension   │
 *   │        │ thread        │           │            │ (squared)  │ a slot, 64-byte aligned  │
 *   └────────┴───────────────┴───────────┴────────────┴────────────┴──────────────────────────┘
 *                 lane: query rows, then the pool of nearest slots
 *
 * Columns have room for every slot the segment can ever hold, at fixed offsets; rows stand last, so that
 * growing the memory only ever adds rows. The room that is not used yet is address space, not memory: the
 * operating system gives a page when it is first written.
 *
 * Threads: the main thread writes columns and rows and grows the memory. Any thread reads them through a
 * kernel instance of its own, without locks; each writes only its own lane of scratch. To fill a slot the
 * main thread clears `live`, writes the sequence, norm and row, and sets `live` last.
 */
export interface SegmentLayout {
  readonly dimension: number
  /** Components of a row with its zero padding: a multiple of 16. */
  readonly paddedDimension: number
  readonly rowBytes: number
  /** Slots that the segment can hold. */
  readonly capacity: number
  readonly laneBytes: number
  /** Offset of the pool within a lane, behind the query rows. */
  readonly poolOffset: number
  readonly poolBytes: number
  readonly scratch: number
  readonly live: number
  readonly sequences: number
  readonly norms: number
  readonly rows: number
}

/** What another thread needs to read a segment; can be posted to a worker. */
export interface SegmentHandle {
  readonly ordinal: number
  /** Slot number of the segment's first slot. */
  readonly firstSlot: number
  readonly memory: WebAssembly.Memory
  readonly layout: SegmentLayout
}

/** Queries that one scan can carry through the rows together. */
export const queriesPerScanMax = 16

/** A pool entry: f64 distance, f64 sequence, u32 slot. */
export const poolEntryBytes = 20

export const pageBytes = 65_536
const segmentBytesMax = 65_536 * pageBytes
const rowAlignment = 64

/**
 * Computes the layout with as many slots as fit in 4 GiB.
 *
 * @param options.maxSlots fewer slots than fit, for tests of many segments
 */
export function segmentLayout(options: {
  readonly dimension: number
  readonly threads: number
  readonly maxLimit: number
  readonly maxSlots?: number | undefined
}): SegmentLayout {
  const paddedDimension = roundUp(options.dimension, 16)
  const rowBytes = paddedDimension * 4
  const poolOffset = queriesPerScanMax * rowBytes
  const poolBytes = roundUp(options.maxLimit * poolEntryBytes, rowAlignment)
  const laneBytes = poolOffset + poolBytes
  const scratch = rowAlignment
  const live = scratch + options.threads * laneBytes
  const fit = Math.floor((segmentBytesMax - live - 3 * rowAlignment) / (rowBytes + 17))
  if (fit < 1) {
    throw new DatabaseError(
      'memory_full',
      `${options.threads} search threads with MAX_LIMIT ${options.maxLimit} leave no room for vectors in a memory segment`,
    )
  }
  const capacity = Math.min(fit, options.maxSlots ?? fit)
  const sequences = roundUp(live + capacity, rowAlignment)
  const norms = roundUp(sequences + capacity * 8, rowAlignment)
  const rows = roundUp(norms + capacity * 8, rowAlignment)
  const sizes = { dimension: options.dimension, paddedDimension, rowBytes, capacity, laneBytes }
  return { ...sizes, poolOffset, poolBytes, scratch, live, sequences, norms, rows }
}

/** Byte address of a thread's lane of scratch. */
export function laneAddress(layout: SegmentLayout, thread: number): number {
  return layout.scratch + thread * layout.laneBytes
}

/** Pages that a segment needs for its first `slots` slots. */
export function pagesFor(layout: SegmentLayout, slots: number): number {
  return Math.ceil((layout.rows + slots * layout.rowBytes) / pageBytes)
}

function roundUp(value: number, step: number): number {
  return Math.ceil(value / step) * step
}
