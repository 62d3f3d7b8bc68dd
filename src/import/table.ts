/** The formats that `import` reads. */
export const formats = ['jsonl', 'csv', 'tsv', 'parquet', 'npy', 'fvecs', 'f32', 'i8'] as const
export type Format = (typeof formats)[number]

/** Whether a format can be read from a stream, such as standard input. */
export function isStreamed(format: Format): boolean {
  return format === 'jsonl' || format === 'csv' || format === 'tsv'
}

/**
 * A value of a row. Text, whole numbers beyond 2^53 as bigint, dates as `DateTime`; lists and maps as arrays and plain
 * objects. `undefined` and `null` are missing values.
 */
export type Cell = unknown

/** The value of a column that is in the file, but was not read because nothing needs it. */
export const unread: unique symbol = Symbol('unread')

/** A record of a file, or what is wrong with it. */
export type Row = {
  /** The line where the record begins in a text file; otherwise its number. From 1. */
  readonly place: number
  /** Position in the file up to which it has been read. */
  readonly endBytes: number
} & (
  | {
      /** The columns of the file, or the fields of this record of JSON. */
      readonly names: readonly string[]
      readonly cell: (name: string) => Cell
      /** As `cell`; a whole number that the parser of JSON has rounded is a `LostValue`. Slower, and not for vectors. */
      readonly exact?: (name: string) => Cell
      readonly fault?: undefined
    }
  | { readonly fault: string }
)

/** The records of a file, all with the same columns or each with its own fields. */
export interface Table {
  readonly format: Format
  /** What `place` counts. */
  readonly unit: 'line' | 'row'
  /** Whether all values are text, so that a column's type is decided from its texts. */
  readonly isText: boolean
  /** Whether the first rows of the table do not tell all its columns, as with standard input. */
  readonly isSampleCut: boolean
  /** The columns in the order of the file; undefined if each record has its own fields. */
  readonly names: readonly string[] | undefined
  /**
   * Reads from the beginning.
   *
   * @param from all rows, or those that decide the types of columns; a stream has one pass of each
   * @param columns the columns to read; without it, all
   * @throws Error if the rest of the file cannot be read
   */
  readonly rows: (from: 'all' | 'sample', columns?: readonly string[]) => AsyncGenerator<Row>
}

/** The place of a row for messages: lines are counted from 1, as editors do, and rows from 0, as pandas does. */
export function placeText(
  unit: Table['unit'],
  place: number,
  format: (value: number) => string = String,
): string {
  return unit === 'line' ? `line ${format(place)}` : `row ${format(place - 1)}`
}

/** A fault that other options or another file solve. To be read after the name of the file. */
export class OptionError extends Error {}
