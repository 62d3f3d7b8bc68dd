import type { JsonObject } from '../api/types.ts'
import type { Mapping } from './mapping.ts'
import type { Format } from './rows.ts'

/** The messages between the page and the import worker. */

export interface Job {
  readonly mapping: Mapping
  /** The address that points are sent to. */
  readonly url: string
  readonly key: string | undefined
  /** Part of each idempotency key. A resumed import keeps its id. */
  readonly importId: string
  /** Rows up to this one were stored by an earlier run. */
  readonly after: number
}

export type ToWorker =
  | { readonly kind: 'inspect'; readonly file: File }
  | { readonly kind: 'start'; readonly job: Job }
  | { readonly kind: 'pause' }
  | { readonly kind: 'resume' }
  | { readonly kind: 'stop' }

/** The beginning of a file. */
export interface Inspection {
  readonly format: Format
  readonly unit: 'line' | 'row'
  readonly isTyped: boolean
  readonly records: readonly JsonObject[]
}

export interface RowFault {
  readonly place: number
  readonly message: string
}

export interface Progress {
  /** Points stored by this run. */
  readonly stored: number
  readonly readBytes: number
  /** The last row that was processed. */
  readonly place: number
  /** Faults since the last message. Beyond the limit, only `faultCount` grows. */
  readonly faults: readonly RowFault[]
  readonly faultCount: number
  /** Why the server cannot accept more points now. */
  readonly waiting: string | undefined
}

export type FromWorker =
  | { readonly kind: 'inspected'; readonly inspection: Inspection }
  | { readonly kind: 'refused'; readonly message: string }
  | { readonly kind: 'progress'; readonly progress: Progress }
  | { readonly kind: 'done' }
  | { readonly kind: 'failed'; readonly message: string; readonly isStopped: boolean }
