import type { SegmentHandle } from '../index/segment.ts'
import type { KernelModule } from '../kernels/wasm-module.ts'
import type { FilterMessage } from './thread-filters.ts'

/**
 * The messages between the main thread and the search workers.
 *
 *   main thread                                     worker n (lane n of every segment's scratch)
 *   ───────────                                     ─────────────────────────────────────────────
 *   new Worker(workerData: WorkerSetup) ──────────> instantiate nothing yet
 *   StartMessage ─────────────────────────────────> from here on asleep by Atomics.wait, or at work
 *   SegmentMessage, announced in the ring ────────> instantiate the kernels over the segment's memory
 *   FilterMessage, announced in the ring ─────────> keep the bitmap of a filter, or drop it
 *   record in the ring ···························> search, one record after the other
 *   cancelled, in the record ·····················> seen between two ranges or two queries: stops early
 *        <········································· hits in the record, and the doorbell
 *        <───────────────────────────────────────── FaultMessage, when the search has thrown
 *   DetachMessage, announced in the ring ─────────> drop everything of the index
 *        <───────────────────────────────────────── DetachedMessage
 *
 *   ───> a message       ···> shared memory: search-ring.ts, doorbell.ts
 *
 * Every worker serves every index: messages and records identify theirs by its id, which is unique in the process.
 * Vectors of points are never posted: workers read them in place, in the segments' shared memory. A thread that
 * sleeps by Atomics.wait receives no messages, so each one posted after the start is counted in the ring, which wakes
 * it; a record never overtakes the message of a segment or of a filter. A DetachMessage can overtake records of its index: their hits
 * are no longer needed, and they are completed without any.
 */

export interface WorkerSetup {
  readonly kernels: KernelModule
  /** The worker's own lane of scratch; lane 0 is the main thread's. */
  readonly lane: number
}

export interface StartMessage {
  readonly kind: 'start'
  /** Of a `SearchRing`, this worker's own. */
  readonly ring: SharedArrayBuffer
  /** Of the `Doorbell` that all workers ring. */
  readonly doorbell: SharedArrayBuffer
}

export interface SegmentMessage {
  readonly kind: 'segment'
  readonly index: number
  readonly segment: SegmentHandle
}

export interface DetachMessage {
  readonly kind: 'detach'
  readonly index: number
}

export type ToWorker = StartMessage | SegmentMessage | FilterMessage | DetachMessage

export interface FaultMessage {
  readonly kind: 'fault'
  readonly error: unknown
}

/** The worker has dropped the index. */
export interface DetachedMessage {
  readonly kind: 'detached'
  readonly index: number
  /** Indexes that the worker still serves. */
  readonly left: number
}

export type FromWorker = FaultMessage | DetachedMessage
