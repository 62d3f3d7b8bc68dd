/**
 * `npm run docs:benchmarks -- FILE...` writes the tables of docs/decisions/benchmarks.md from result files of
 * `npm run bench:index`. The sections of other data sets stay as they are.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { withSection } from '../shared/docs-section.ts'
import type { Machine } from '../shared/machine.ts'
import { benchFolder } from '../shared/options.ts'
import { table } from '../shared/table.ts'
import type { SetResult } from './run/compare.ts'
import { summaryOf } from './run/report.ts'

/** A file that `bench:index` has written: the comparison on some data sets, or a curve. */
export interface IndexResults extends Measured {
  readonly results: readonly SetResult[]
}

export interface CurveResults extends Measured {
  readonly curve: string
  readonly headings: readonly string[]
  readonly rows: readonly (readonly string[])[]
}

interface Measured {
  readonly time: string
  readonly machine: Machine
}

/** @returns the page with the results */
export function withResults(page: string, measured: IndexResults | CurveResults): string {
  const { time, machine } = measured
  const where = `${machine.processor}, ${machine.cores} cores, Node ${machine.node}, ${time.slice(0, 10)}`
  if ('curve' in measured) {
    const { curve, headings, rows } = measured
    return withSection(page, `bench:index --curve ${curve}`, `${where}:\n\n${table(headings, rows)}`)
  }
  return measured.results.reduce(
    (changed, result) =>
      withSection(changed, `bench:index ${result.set.name}`, `${where}:\n\n${summaryOf(result)}`),
    page,
  )
}

if (import.meta.main) {
  const path = join(benchFolder, '../docs/decisions/benchmarks.md')
  for (const file of process.argv.slice(2)) {
    const results = JSON.parse(readFileSync(file, 'utf8')) as IndexResults | CurveResults
    writeFileSync(path, withResults(readFileSync(path, 'utf8'), results))
  }
}
