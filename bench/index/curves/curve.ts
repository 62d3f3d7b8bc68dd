import type { Options } from '../options.ts'

/** A table over a varying condition, such as the number of rows or threads, for the selected contenders. */
export interface Curve {
  readonly title: string
  readonly headings: readonly string[]
  rows(options: Options, onRow: (row: readonly string[]) => void): Promise<void>
}
