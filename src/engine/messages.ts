import type { Hit } from '../index/hit.ts'
import type { IndexQuery, SlotRange } from '../index/searcher.ts'
import type { SegmentHandle } from '../index/segment.ts'
import type { KernelModule } from '../kernels/wasm-module.ts'

/**
 * What the main thread and the search workers say to each other.
 *
 *   main thread                                     worker n (lane n of every segment's scratch)
 *   ───────────                                     ─────────────────────────────────────────────
 *   new Worker(workerData: WorkerSetup) ──────────> instantiate nothing yet
 *   SegmentMessage ───────────────────────────────> instantiate the kernels over the segment's memory
 *   TaskMessage ──────────────────────────────────> scan, range by range
 *   cancelled[0] = 1 (shared) ····················> seen between two ranges: stops early
 *        <──────────────────────────────────────── ResultMessage, or FaultMessage
 *
 * Vectors of points are never posted: workers read them where they stand, in the segments' shared memory.
 * A worker has one task at a time, so that what waits stays on the main thread, where it can be cancelled
 * and dealt out fairly. Messages from one side arrive in order: a task never overtakes its segment.
 */

export interface WorkerSetup {
  readonly kernels: KernelModule
  /** The worker's own lane of scratch; lane 0 is the main thread's. */
  readonly lane: number
}

export interface SegmentMessage {
  readonly kind: 'segment'
  readonly segment: SegmentHandle
}

export interface TaskMessage {
  readonly kind: 'task'
  readonly task: number
  readonly queries: readonly IndexQuery[]
  readonly ranges: readonly SlotRange[]
  /** One word, shared: not 0 when nobody waits for the result any more. */
  readonly cancelled: Int32Array
}

export type ToWorker = SegmentMessage | TaskMessage

export interface ResultMessage {
  readonly kind: 'result'
  readonly task: number
  /** By query: its hits as triples of slot, sequence, distance, ascending by (distance, sequence). */
  readonly hits: readonly Float64Array[]
}

export interface FaultMessage {
  readonly kind: 'fault'
  readonly task: number
  readonly error: unknown
}

export type FromWorker = ResultMessage | FaultMessage

/** Packs hits for the way between threads: three numbers each, in a buffer that is handed over, not copied. */
export function packHits(hits: readonly Hit[]): Float64Array<ArrayBuffer> {
  const packed = new Float64Array(hits.length * 3)
  for (const [index, { slot, sequence, distance }] of hits.entries()) {
    packed[index * 3] = slot
    packed[index * 3 + 1] = sequence
    packed[index * 3 + 2] = distance
  }
  return packed
}

export function unpackHits(packed: Float64Array): Hit[] {
  return Array.from({ length: packed.length / 3 }, (_, index) => ({
    slot: packed[index * 3]!,
    sequence: packed[index * 3 + 1]!,
    distance: packed[index * 3 + 2]!,
  }))
}
