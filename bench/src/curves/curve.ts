import type { Options } from '../run/options.ts'

export const curveNames = ['growth', 'threads', 'churn', 'metrics', 'levers'] as const
export type CurveName = (typeof curveNames)[number]

/** A curve is a table that is printed and rows that are written, over the same contenders as the comparison. */
export interface Curve {
  readonly title: string
  readonly headings: readonly string[]
  rows(options: Options, onRow: (row: readonly string[]) => void): Promise<void>
}

export function shown(value: number | undefined, digits = 0): string {
  if (value === undefined) return '-'
  return value.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits })
}
