import { DatabaseError } from '../base/errors.ts'
import { foundMax } from '../base/point.ts'
import { HEADER_BYTES } from '../kernels/graph-header.ts'
import {
  CODE_HEADER_BYTES,
  EF_MAX,
  FILTERED_POOL_MAX,
  GRAPH_SCRATCH_BYTES,
  PAGES_MAX,
} from '../kernels/memory-format.ts'

/**
 * One segment: a shared WebAssembly memory of at most 16 GiB that holds a run of slots.
 *
 *   0        64        320                                                            memory.buffer end
 *   ├────────┼─────────┼────────────┬────────────┬──────────────┬──────────────┬───────────────────┤
 *   │ unused │ headers │ lanes of   │ live       │ graph 0, 1:  │ codes        │ rows              │
 *   │        │ of the  │ scratch    │ sequences  │ states,      │ header and   │ f32 x padded      │
 *   │        │ graphs  │ one a      │ norms      │ levels,      │ half or one  │ dimension a slot, │
 *   │        │         │ thread     │ hashes     │ lists, ring  │ byte each    │ 64-byte aligned   │
 *   └────────┴─────────┴────────────┴────────────┴──────────────┴──────────────┴───────────────────┘
 *                       lane: query rows, pool of nearest slots, graph scratch, beam, visited marks, filter
 *
 * Rows can also stay on disk, in the store's row file (slots.ts). Codes are then the last column, and there are no
 * hashes.
 *
 * Columns have room for every slot that the segment can ever hold, at fixed offsets. Only the last one grows, so that
 * nothing ever moves. Unused room is address space, not memory: the operating system adds a page when it is first
 * written.
 *
 * Threads: every thread reads everything without locks, through its own kernel instances. Who writes what:
 *
 *   main thread      the headers, once; live, sequences, norms, hashes and rows of inserted and removed points, and
 *                    their codes if rows stay on disk; rings and slot counts; the states of slots that begin to leave a
 *                    graph; it also grows the memory
 *   index threads    the graphs: states, levels, lists and entry points (the kernels' graph.ts says how threads share
 *                    them), and codes if rows are in memory; at a start also live, sequences, norms, hashes, rows and
 *                    codes of stored points, each thread for its own slots
 *   every thread     its own lane of scratch
 *
 * A thread that fills a slot clears `live`, writes the sequence, row, norm and hash, and sets `live` last (slots.ts).
 */
export interface SegmentLayout {
  readonly dimension: number
  /** Components of a row with its zero padding: a multiple of 16. */
  readonly paddedDimension: number
  readonly rowBytes: number
  /** Number of slots that the segment can hold. */
  readonly capacity: number
  /** Maximum number of links of a node on each upper level; twice as many on level 0. */
  readonly m: number
  readonly efConstruction: number
  /** Bits of a code: one code of 7 bits, or two codes of 4 bits, in a byte. */
  readonly codeBits: CodeBits
  /** Number of codes of a row with padding: a multiple of 32, or of 64 if a code has 4 bits. */
  readonly codeWidth: number
  readonly codeBytes: number
  readonly laneBytes: number
  readonly scratch: number
  readonly lane: LaneLayout
  readonly live: number
  readonly sequences: number
  readonly norms: number
  /** 0 if the rows stay on disk. */
  readonly hashes: number
  readonly graphs: readonly GraphColumns[]
  readonly codes: number
  /** 0 if the rows stay on disk. */
  readonly rows: number
  /** The last column, the only one that grows. */
  readonly growing: { readonly at: number; readonly bytesPerSlot: number }
}

/** Offsets within a thread's lane, after the query rows. */
interface LaneLayout {
  /** The pool of nearest slots of an exact scan. */
  readonly pool: number
  readonly poolBytes: number
  readonly graph: number
  readonly beam: number
  readonly visited: number
  /** A bit a slot: whether it matches the filter of the search. */
  readonly filter: number
  /** A block of rows read from disk. */
  readonly block: number
}

/** Byte addresses of one graph's columns. */
interface GraphColumns {
  readonly header: number
  /** u8 a slot: absent, linked or leaving. */
  readonly states: number
  readonly locks: number
  /** u8 a slot: the highest level of the slot's node. */
  readonly levels: number
  /** u32 a slot: its first upper list in `upperBlocks`; 0 if it has none. */
  readonly uppers: number
  /** u32 x 2m a slot. */
  readonly links: number
  /** u32 x m a list; list 0 is unused. */
  readonly upperBlocks: number
  readonly upperCount: number
  /** u32 a slot: the slots that wait to be linked. */
  readonly ring: number
}

/** What another thread needs to access a segment. It can be posted to a worker. */
export interface SegmentHandle {
  readonly ordinal: number
  /** Slot number of the segment's first slot. */
  readonly firstSlot: number
  readonly memory: WebAssembly.Memory
  readonly layout: SegmentLayout
  /** The file of the rows if they are not in memory. */
  readonly rowFile: RowFileLayout | undefined
}

/**
 * A file with the rows of all segments by slot. All rows have the same length: a head that ends with the sequence number
 * (f64), the vector, and the CRC-32 of both.
 */
export interface RowFileLayout {
  readonly path: string
  /** Byte offset of the first row. */
  readonly firstRow: number
  readonly headBytes: number
  /** Bytes from the start of one row to the next. */
  readonly rowBytes: number
}

/** Maximum number of queries of one scan. */
export const queriesPerScanMax = 16

/** Recall audits search for this many nearest points of a query, and for the point from which the query comes. */
export const auditedNeighbours = 10

/** A pool entry: f64 distance, f64 sequence, u32 slot. */
export const poolEntryBytes = 20

/** Maximum beam width of a graph search. A search with a larger ef is an exact scan. */
export const efMax: number = EF_MAX

/** Maximum size of the pool of a walk with a filter. */
export const filteredPoolMax: number = FILTERED_POOL_MAX

/** Number of graphs that a segment has room for. */
export const graphsPerSegment = 2

/** Half of a usual second-level cache, so that the rows of a block stay there while every query scans them. */
export const blockBytes: number = 256 * 1024

export const pageBytes = 65_536
const segmentBytesMax = PAGES_MAX * pageBytes
const rowAlignment = 64
const headersAt = 64

/** Up to this dimension a float32 row is no longer than two cache lines, and codes would save nothing. */
const uncodedDimensionMax = 16

/** With up to this many threads, the capacity of a segment does not depend on their number. */
const usualThreadsMax = 16

export const codeBitsChoices = [4, 7] as const
export type CodeBits = (typeof codeBitsChoices)[number]

/**
 * Returns the best code width for a dimension. Short codes suit long vectors: walks on them wait for memory, and the
 * errors of their components even out (docs/decisions/index.md has the figures).
 */
function usualCodeBits(dimension: number): CodeBits {
  return dimension < 256 ? 7 : 4
}

interface SegmentOptions {
  readonly dimension: number
  readonly threads: number
  readonly maxLimit: number
  readonly m: number
  readonly efConstruction: number
  /** Undefined to use `usualCodeBits`. */
  readonly codeBits?: CodeBits | undefined
  /** Whether rows stay on disk. Codes and links are always in memory. */
  readonly rowsOnDisk?: boolean | undefined
  /** Limits the slots of a segment, for tests of many segments. */
  readonly maxSlots?: number | undefined
}

/**
 * Computes the layout with as many slots as fit.
 *
 * @throws DatabaseError `memory_full` if the scratch of the threads alone fills a segment
 */
export function segmentLayout(options: SegmentOptions): SegmentLayout {
  const most = options.maxSlots ?? segmentBytesMax / rowAlignment
  // Every column is linear in the capacity, so the bytes of a slot follow from two layouts. They are computed for many
  // threads, so that segments have the same capacity with any usual number of threads.
  const usual = { ...options, threads: Math.max(options.threads, usualThreadsMax) }
  const fixed = columnsFor(usual, 0).end
  const perSlot = (columnsFor(usual, 1 << 16).end - fixed) / (1 << 16)
  let fit = Math.floor((segmentBytesMax - fixed - 64 * rowAlignment) / perSlot)
  // Beams are the exception: a short column takes more than its share of `perSlot`. With long rows and many threads, the
  // capacity is therefore lower. It must not change where it fits, because a graph file is only valid for one capacity.
  const excessOf = (slots: number): number => columnsFor(options, slots).end - segmentBytesMax
  while (fit > 0 && excessOf(fit) > 0) fit -= Math.ceil(excessOf(fit) / perSlot)
  if (fit < 1) {
    throw new DatabaseError(
      'memory_full',
      `${options.threads} threads with MAX_LIMIT ${options.maxLimit} leave no room for vectors in a memory segment`,
    )
  }
  return columnsFor(options, Math.min(fit, most)).layout
}

function columnsFor(options: SegmentOptions, capacity: number): { layout: SegmentLayout; end: number } {
  const { dimension, m, efConstruction } = options
  const paddedDimension = roundUp(dimension, 16)
  const rowBytes = paddedDimension * 4
  const codeBits = options.codeBits ?? usualCodeBits(dimension)
  const codeWidth = roundUp(dimension, codeBits === 4 ? 64 : 32)
  const rowsOnDisk = options.rowsOnDisk ?? false
  const codeBytes =
    dimension <= uncodedDimensionMax && !rowsOnDisk
      ? 0
      : CODE_HEADER_BYTES + (codeBits === 4 ? codeWidth / 2 : codeWidth)

  const laneAllocator = new AddressAllocator(queriesPerScanMax * rowBytes)
  // Audits do not depend on MAX_LIMIT: their queries are scanned together, each with a pool at an 8-byte boundary.
  const auditBytes = queriesPerScanMax * roundUp((auditedNeighbours + 1) * poolEntryBytes, 8)
  const poolBytes = roundUp(Math.max(foundMax(options.maxLimit) * poolEntryBytes, auditBytes), rowAlignment)
  const lane = {
    pool: laneAllocator.allocate(poolBytes),
    poolBytes,
    graph: laneAllocator.allocate(GRAPH_SCRATCH_BYTES + codeWidth),
    // A pool contains a slot at most once.
    beam: laneAllocator.allocate((Math.max(efMax, Math.min(filteredPoolMax, capacity)) + 8) * 8),
    visited: laneAllocator.allocate(capacity),
    filter: laneAllocator.allocate(Math.ceil(capacity / 64) * 8),
    block: laneAllocator.allocate(rowsOnDisk ? Math.max(rowBytes, blockBytes) : 0),
  }
  const laneBytes = laneAllocator.end

  const allocator = new AddressAllocator(headersAt + graphsPerSegment * HEADER_BYTES)
  const scratch = allocator.allocate(options.threads * laneBytes)
  const live = allocator.allocate(capacity)
  const sequences = allocator.allocate(capacity * 8)
  const norms = allocator.allocate(capacity * 8)
  const hashes = rowsOnDisk ? 0 : allocator.allocate(capacity * 8)
  const graphs = Array.from({ length: graphsPerSegment }, (_, index) =>
    graphColumns(allocator, index, capacity, m),
  )
  const codes = allocator.allocate(capacity * codeBytes)
  const rows = rowsOnDisk ? 0 : allocator.allocate(capacity * rowBytes)
  const growing = rowsOnDisk ? { at: codes, bytesPerSlot: codeBytes } : { at: rows, bytesPerSlot: rowBytes }
  const sizes = {
    dimension,
    paddedDimension,
    rowBytes,
    capacity,
    m,
    efConstruction,
    codeBits,
    codeWidth,
    codeBytes,
    laneBytes,
  }
  return {
    layout: { ...sizes, scratch, lane, live, sequences, norms, hashes, graphs, codes, rows, growing },
    end: allocator.end,
  }
}

function graphColumns(allocator: AddressAllocator, index: number, capacity: number, m: number): GraphColumns {
  // A slot has 1 / (m - 1) upper lists on average; a quarter more is ample for random variation.
  const upperCount = Math.ceil((capacity * 1.25) / (m - 1)) + 64
  return {
    header: headersAt + index * HEADER_BYTES,
    states: allocator.allocate(capacity),
    locks: allocator.allocate(capacity),
    levels: allocator.allocate(capacity),
    uppers: allocator.allocate(capacity * 4),
    ring: allocator.allocate(capacity * 4),
    links: allocator.allocate(capacity * 8 * m),
    upperBlocks: allocator.allocate(upperCount * 4 * m),
    upperCount,
  }
}

/** Returns the byte address of a thread's lane of scratch. */
export function laneAddress(layout: SegmentLayout, thread: number): number {
  return layout.scratch + thread * layout.laneBytes
}

/** Returns the number of pages that a segment needs for its first `slots` slots. */
export function pagesFor({ growing }: SegmentLayout, slots: number): number {
  return Math.ceil((growing.at + slots * growing.bytesPerSlot) / pageBytes)
}

/** Returns the bytes that a slot uses once it is filled and linked into one graph. @param threads with a visited mark each */
export function slotBytes(layout: SegmentLayout, threads: number): number {
  const { rows, rowBytes, codeBytes } = layout
  const columns = 1 + 8 + 8
  const inMemory = rows === 0 ? 0 : 8 + rowBytes
  return inMemory + codeBytes + columns + graphBytes(layout) + threads
}

/** Returns the bytes that a slot uses in one graph. */
export function graphBytes({ m }: SegmentLayout): number {
  return 3 + 4 + 4 + 8 * m + Math.ceil((4 * m) / (m - 1))
}

/** Allocates consecutive aligned addresses. */
class AddressAllocator {
  end: number

  constructor(start: number) {
    this.end = roundUp(start, rowAlignment)
  }

  allocate(bytes: number): number {
    const at = this.end
    this.end = roundUp(at + bytes, rowAlignment)
    return at
  }
}

function roundUp(value: number, step: number): number {
  return Math.ceil(value / step) * step
}

/** The values of the column `live`. A slot is `unread` from a start that did not read its row until the row is verified. */
export const liveStates = { empty: 0, live: 1, unread: 2 } as const

/**
 * Views of the columns that describe the points in the slots of a segment. These columns lie before the one that grows,
 * so the views stay valid. Create them once.
 */
export class SlotColumns {
  readonly live: Uint8Array
  readonly sequences: Float64Array
  /** Squared norms of the vectors. */
  readonly norms: Float64Array

  constructor({ memory: { buffer }, layout }: SegmentHandle) {
    this.live = new Uint8Array(buffer, layout.live, layout.capacity)
    this.sequences = new Float64Array(buffer, layout.sequences, layout.capacity)
    this.norms = new Float64Array(buffer, layout.norms, layout.capacity)
  }

  /** Whether a slot holds a point. If true, this thread also sees the slot's sequence, norm and row. */
  isLive(local: number): boolean {
    return Atomics.load(this.live, local) !== liveStates.empty
  }
}
