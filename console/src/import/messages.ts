import type { Column } from '../../../src/import/columns.ts'
import type { Table } from '../../../src/import/file.ts'
import type { Mapping } from '../../../src/import/mapping.ts'
import type { SampledPoint } from '../../../src/import/points.ts'
import type { NewPoint } from '../api/types.ts'

/** The messages between the page and the import worker. */

export interface Job {
  readonly mapping: Mapping
  /** The address that points are sent to. */
  readonly url: string
  readonly key: string | undefined
  /** Part of each idempotency key. A resumed import keeps its id. */
  readonly importId: string
  /** When the import began: times to live count from then. A resumed import keeps it. */
  readonly startedMs: number
  /** Rows up to this one were stored by an earlier run. */
  readonly after: number
}

export type ToWorker =
  | { readonly kind: 'inspect'; readonly file: File }
  | { readonly kind: 'preview'; readonly mapping: Mapping }
  | { readonly kind: 'start'; readonly job: Job }
  | { readonly kind: 'pause' }
  | { readonly kind: 'resume' }
  | { readonly kind: 'stop' }

/** The columns of a file. Their types are decided from the whole file. */
export interface Inspection extends Pick<Table, 'format' | 'unit' | 'isText'> {
  readonly columns: readonly Column[]
}

/** One of the first rows: a point, or what is wrong with it. */
export type PreviewRow = { readonly point: NewPoint } | { readonly fault: string }

export interface RowFault {
  readonly place: number
  readonly message: string
}

/** Further faults are only counted. */
export const keptFaults = 200

export interface Progress {
  /** Points stored by this run. */
  readonly stored: number
  readonly readBytes: number
  /** The last row that was processed. */
  readonly place: number
  /** A point of the last stored batch. */
  readonly last: SampledPoint | undefined
  /** Faults since the last message. Beyond `keptFaults`, only the numbers grow. */
  readonly faults: readonly RowFault[]
  readonly faultCount: number
  /** Those of rows up to `place`: a resumed import reads later rows again. */
  readonly faultCountToPlace: number
  /** Why the server cannot accept more points now. */
  readonly waiting: string | undefined
}

export type FromWorker =
  | { readonly kind: 'inspected'; readonly inspection: Inspection }
  | { readonly kind: 'preview'; readonly rows: readonly PreviewRow[] }
  | { readonly kind: 'refused'; readonly message: string }
  | { readonly kind: 'progress'; readonly progress: Progress }
  /** `notStored` names the columns that were left out, if any. */
  | { readonly kind: 'done'; readonly notStored: string | undefined }
  | { readonly kind: 'failed'; readonly message: string; readonly isStopped: boolean }
