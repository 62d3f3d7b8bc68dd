import type { Metric } from '../base/point.ts'
import { type Column, ColumnFile, saveColumns } from './column-file.ts'
import { GraphState, slotStates } from './graph-state.ts'
import type { DistanceSource, Route } from './routes.ts'
import { type CodeBits, type SegmentHandle, SlotColumns } from './segment.ts'

/**
 * A graph on disk: a cache that a start reads instead of building the graph. It can be rebuilt from the stored points.
 * In addition to the columns of the graph, the file has the sequence number of every slot. It shows which slots now
 * hold another point than the linked one.
 */
const magic = 'VICGRAPH'
/** A file of another version is not used: the graph is built again. */
const formatVersion = 5

/** The engine's part of a graph file. */
export interface CheckpointMeta {
  readonly plans: readonly KeptPlan[]
  /** The source of the graph's distances. */
  readonly distanceSource?: DistanceSource | undefined
  /** The number of points when that was last checked. */
  readonly checkedPoints?: number | undefined
}

/** The settings of a measurement; undefined if it was due to be repeated. */
type MeasuredBy = { readonly ef: number; readonly target: number } | undefined

/** The measurements of a metric, by which the routes of its searches were chosen. */
export interface KeptPlan {
  readonly metric: Metric
  /** Undefined if the metric was not measured. */
  readonly plan?: {
    /** Undefined for the exact scan. */
    readonly route?: Route | undefined
    readonly recall?: number | undefined
    /** Number of linked points at the time of the measurement. */
    readonly points: number
  }
  /** Points linked and removed between the measurement and the writing of the file. */
  readonly linkedSince?: number
  readonly removedSince?: number
  readonly by?: MeasuredBy
  /** The same for searches with filters, by the name of the range of matching shares. */
  readonly filtered: readonly {
    readonly bin: string
    /** Undefined for the exact scan. */
    readonly efMultiplier?: number | undefined
    readonly recall: number
  }[]
  /** Recall of scans by codes with the filters of all bins; undefined if it was not measured. */
  readonly scanRecall?: number | undefined
  readonly filteredBy?: MeasuredBy
}

interface Header {
  readonly version: number
  readonly dimension: number
  readonly m: number
  /** The code width of searches when the recall of their routes was measured. */
  readonly codeBits: CodeBits
  readonly rowsOnDisk: boolean
  /** Number of the segment's first slot among all slots. */
  readonly firstSlot: number
  readonly slotCount: number
  readonly upperNext: number
  readonly entry: { readonly level: number; readonly slot: number } | null
  readonly reaches: readonly number[]
  readonly meta: CheckpointMeta
}

/**
 * Writes a graph to a file. The graph must not change meanwhile. Points can be placed in slots that are not in the
 * graph.
 */
export function saveGraph(segment: SegmentHandle, graph: number, path: string, meta: CheckpointMeta): void {
  const state = new GraphState(segment, graph)
  const { slotCount, upperNext } = state
  // A copy, because the sequence of a point that is placed meanwhile would not match the checksum.
  const sequences = new Uint8Array(new SlotColumns(segment).sequences.slice(0, slotCount).buffer)
  const columns = columnsOf(segment, graph, slotCount, upperNext, sequences)
  const header: Header = {
    version: formatVersion,
    dimension: segment.layout.dimension,
    m: segment.layout.m,
    codeBits: segment.layout.codeBits,
    rowsOnDisk: segment.layout.rows === 0,
    firstSlot: segment.firstSlot,
    slotCount,
    upperNext,
    entry: state.entry ?? null,
    reaches: [...state.reaches],
    meta,
  }
  saveColumns(path, magic, header, columns)
}

/**
 * Reads a graph into a segment that has none. Slots that now hold another point, or none, become leaving: they must be
 * repaired out before anything is linked. Links are valid for any code width. Routes that were measured with another
 * code width, or with rows stored elsewhere, are dropped.
 *
 * @returns the engine's part of the file; undefined if there is no file
 * @throws Error that names the fault of the file. The graph is then empty.
 */
export function loadGraph(segment: SegmentHandle, graph: number, path: string): CheckpointMeta | undefined {
  try {
    using file = openGraphFile(path)
    return file && readGraph(segment, graph, file)
  } catch (error) {
    new GraphState(segment, graph).reset()
    throw error
  }
}

function readGraph(segment: SegmentHandle, graph: number, file: ColumnFile<Header>): CheckpointMeta {
  const { header } = file
  const { layout } = segment
  for (const field of ['dimension', 'm'] as const) {
    if (header[field] !== layout[field]) {
      throw new Error(`it was written for ${field} ${header[field]}, which is now ${layout[field]}`)
    }
  }
  if (header.firstSlot !== segment.firstSlot) throw new Error('it was written for segments of another size')
  const state = new GraphState(segment, graph)
  if (header.slotCount > state.slotCount)
    throw new Error(`it has ${header.slotCount} slots, the store has ${state.slotCount}`)
  if (header.upperNext > layout.graphs[graph]!.upperCount) throw new Error('it has more upper lists than fit')
  const sequences = new Float64Array(header.slotCount)
  const columns = columnsOf(
    segment,
    graph,
    header.slotCount,
    header.upperNext,
    new Uint8Array(sequences.buffer),
  )
  file.read(columns)
  const now = new SlotColumns(segment)
  const { states } = state
  for (let slot = 0; slot < header.slotCount; slot += 1) {
    if (states[slot] === slotStates.absent) continue
    if (!now.isLive(slot) || now.sequences[slot] !== sequences[slot]) states[slot] = slotStates.leaving
  }
  state.upperNext = header.upperNext
  state.entry = header.entry ?? undefined
  const isMeasuredAlike = header.codeBits === layout.codeBits && header.rowsOnDisk === (layout.rows === 0)
  if (!isMeasuredAlike) return { ...header.meta, plans: [] }
  state.reaches.set(header.reaches)
  return header.meta
}

/** Returns the `m` of a graph file; undefined if there is none. */
export function linksOfGraphFile(path: string): number | undefined {
  using file = openGraphFile(path)
  return file?.header.m
}

function columnsOf(
  { layout, memory: { buffer } }: SegmentHandle,
  graph: number,
  slots: number,
  upperNext: number,
  sequences: Uint8Array,
): Column[] {
  const columns = layout.graphs[graph]!
  return [
    { name: 'sequences', bytes: sequences },
    { name: 'states', bytes: new Uint8Array(buffer, columns.states, slots) },
    { name: 'levels', bytes: new Uint8Array(buffer, columns.levels, slots) },
    { name: 'uppers', bytes: new Uint8Array(buffer, columns.uppers, slots * 4) },
    { name: 'links', bytes: new Uint8Array(buffer, columns.links, slots * 8 * layout.m) },
    { name: 'upperBlocks', bytes: new Uint8Array(buffer, columns.upperBlocks, upperNext * 4 * layout.m) },
  ]
}

function openGraphFile(path: string): ColumnFile<Header> | undefined {
  const file = ColumnFile.open<Header>(path, magic, 'a graph file')
  if (file === undefined || file.header.version === formatVersion) return file
  file[Symbol.dispose]()
  throw new Error(`it has format ${file.header.version}, this version reads ${formatVersion}`)
}
