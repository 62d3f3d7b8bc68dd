import type { Options } from '../options.ts'

/** A curve is a table that is printed and rows that are written, over the same contenders as the comparison. */
export interface Curve {
  readonly title: string
  readonly headings: readonly string[]
  rows(options: Options, onRow: (row: readonly string[]) => void): Promise<void>
}
