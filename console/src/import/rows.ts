import type { JsonObject } from '../api/types.ts'

/** A record of a file: its fields by name, or what is wrong with it. */
export type Row = {
  /** The line where the record begins in a text file; otherwise the number of the record. Starts at 1. */
  readonly place: number
  /** The position in the file up to which it has been read. */
  readonly endBytes: number
} & ({ readonly record: JsonObject } | { readonly fault: string })

/** A file whose rows can be read from first to last, any number of times. */
export interface RowSource {
  readonly format: Format
  /** The unit that `place` counts. */
  readonly unit: 'line' | 'row'
  /** Whether values have types. In CSV, all values are text. */
  readonly isTyped: boolean
  /** @throws Error when the rest of the file cannot be read */
  rows(): AsyncGenerator<Row>
}

export type Format = 'JSON lines' | 'CSV' | 'Parquet' | 'NumPy'
