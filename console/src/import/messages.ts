import type { JsonObject } from '../api/types.ts'
import type { Mapping } from './mapping.ts'
import type { Format } from './rows.ts'

/** What the page and the worker that imports tell each other. */

export interface Job {
  readonly mapping: Mapping
  /** Where points are sent. */
  readonly url: string
  readonly key: string | undefined
  /** What the idempotency keys begin with: the same when an import goes on. */
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
  /** By this run. */
  readonly stored: number
  readonly readBytes: number
  /** The last row that is done with. */
  readonly place: number
  /** Since the last message; of more than are kept only the number. */
  readonly faults: readonly RowFault[]
  readonly faultCount: number
  /** Why the server cannot take more now. */
  readonly waiting: string | undefined
}

export type FromWorker =
  | { readonly kind: 'inspected'; readonly inspection: Inspection }
  | { readonly kind: 'refused'; readonly message: string }
  | { readonly kind: 'progress'; readonly progress: Progress }
  | { readonly kind: 'done' }
  | { readonly kind: 'failed'; readonly message: string; readonly isStopped: boolean }
