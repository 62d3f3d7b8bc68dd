import type { MessagePort } from 'node:worker_threads'
import type { BudgetSetup } from '../base/budgets.ts'
import type { Filter } from '../base/filter.ts'
import type { Metric } from '../base/point.ts'
import type { RouteInForce } from '../graphs/recall-plans.ts'
import type { SegmentHandle, SegmentLayout } from '../index/segment.ts'
import type { SlotBits } from '../index/slot-filter.ts'
import type { KernelModule } from '../kernels/wasm-module.ts'
import type { SubmitterSetup } from '../search/executor.ts'
import type { StoredPlace } from '../storage/store.ts'

/**
 * The messages between the engine and a thread that searches by itself.
 *
 *   engine (readers.ts)                           reading thread (local-reads.ts)
 *   ───────────────────                           ───────────────────────────────
 *        <─────────────────────────────── want ── a search in a collection that it does not know
 *   view, or absent ────────────────────────────> attach the collection: state, journal, segments, ids
 *   segment, page, entries ─────────────────────> attach more of it
 *   detach ─────────────────────────────────────> drop everything of it, when the collection has been closed
 *   closeRecords ───────────────────────────────> close LMDB's file, and leave records to the engine from then on
 *        <────────────────────── recordsClosed ──
 *        <──────────────────────────── prepare ── before it submits searches to the search threads
 *   prepared, once they know what they need ────>
 *        <··········· MatchingCall, a call ······ the bitmap of a filter, and its route
 *
 * Everything else that a search needs is in shared memory: read-state.ts, change-journal.ts, segment.ts. A thread that
 * does not know a segment or a page yet, or finds that it may not answer, asks the engine to search.
 */
export type ToReader =
  | (ViewMessage & { readonly kind: 'view' })
  | { readonly kind: 'absent'; readonly name: string }
  | { readonly kind: 'segment'; readonly view: number; readonly segment: SegmentHandle }
  | { readonly kind: 'page'; readonly view: number; readonly page: SharedArrayBuffer }
  | {
      readonly kind: 'entries'
      readonly view: number
      readonly entries: SharedArrayBuffer
      readonly partition: number
    }
  | { readonly kind: 'detach'; readonly view: number }
  | { readonly kind: 'closeRecords' }
  /** The answer to the oldest `prepare`. */
  | { readonly kind: 'prepared' }

export type FromReader =
  | { readonly kind: 'want'; readonly name: string }
  | { readonly kind: 'prepare'; readonly view: number; readonly filters: readonly PreparedFilter[] }
  | { readonly kind: 'recordsClosed' }

type PreparedFilter = Pick<SlotBits, 'id' | 'words'>

interface ViewMessage {
  /** The name or alias that was wanted. */
  readonly name: string
  /** The version of the names for which that was true. */
  readonly names: number
  /** Identifies the collection in later messages. */
  readonly view: number
  /** The id of its index. */
  readonly index: number
  readonly state: SharedArrayBuffer
  readonly journal: SharedArrayBuffer
  readonly layout: SegmentLayout
  readonly segments: readonly SegmentHandle[]
  readonly pages: readonly SharedArrayBuffer[]
  readonly entries: readonly SharedArrayBuffer[]
  readonly place: StoredPlace
  /** Of the collection's shares. */
  readonly results: SharedArrayBuffer
  readonly queries: SharedArrayBuffer
}

/** What a reading thread is started with. The port must be transferred. */
export interface ReaderSetup {
  readonly port: MessagePort
  readonly kernels: KernelModule
  /** The thread's lane of scratch in every segment. */
  readonly lane: number
  /** One word: changes when a name or an alias may mean another collection. */
  readonly names: SharedArrayBuffer
  readonly results: BudgetSetup
  readonly maxDetailBytes: number
  /** See `idHashKey`. */
  readonly idHashKey: Uint32Array
  /** Whether records can be read from LMDB's file. */
  readonly hasRecords: boolean
  readonly submitter: SubmitterSetup
  /** Searches of at most this many bytes of rows run on the thread itself; undefined for the usual. */
  readonly inlineBytesMax: number | undefined
}

/** Asks the engine for the slots that match a filter, and for the route of a query with that filter. */
export type MatchingCall = (
  collection: string | undefined,
  filter: Filter,
  query: FilteredQuery | undefined,
) => Promise<MatchingAnswer>

/** What the route of a search with a filter depends on. */
export interface FilteredQuery {
  readonly metric: Metric
  readonly vector: Float32Array
  readonly limit: number
}

export interface MatchingAnswer {
  /** Unique among the bitmaps of the collection. */
  readonly id: number
  /** Later answers with the same id can change the bitmap, but only for slots touched after the position. */
  readonly words: SharedArrayBuffer
  readonly count: number
  /** The journal position of which the bitmap is. */
  readonly position: number
  readonly route: RouteInForce | undefined
}
