import type { JsonObject } from '../api/types.ts'

/** A record of a file: its fields by name, or what is wrong with it. */
export type Row = {
  /** The line where it begins, in a file of text; else its number. From 1. */
  readonly place: number
  /** How far the file has been read. */
  readonly endBytes: number
} & ({ readonly record: JsonObject } | { readonly fault: string })

/** A file that can be read from its first row to its last, as often as needed. */
export interface RowSource {
  readonly format: Format
  /** What `place` counts. */
  readonly unit: 'line' | 'row'
  /** Whether values have types of their own; in CSV all of them are text. */
  readonly isTyped: boolean
  /** @throws Error when the rest of the file cannot be read */
  rows(): AsyncGenerator<Row>
}

export type Format = 'JSON lines' | 'CSV' | 'Parquet' | 'NumPy'
