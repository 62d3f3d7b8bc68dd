/**
 * `npm run docs:benchmarks -- FILE...` writes the tables of docs/decisions/benchmarks.md from result files of
 * `npm run bench:index`, `bench:service` and `bench:cluster`. All other sections stay as they are.
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

/** A file of another benchmark, which has the text of each section. */
export interface SectionResults extends Measured {
  readonly sections: Readonly<Record<string, string>>
}

interface Measured {
  readonly time: string
  readonly machine: Machine
}

/** @returns the page with the results */
export function withResults(page: string, measured: IndexResults | CurveResults | SectionResults): string {
  const { time, machine } = measured
  const where = `${machine.processor}, ${machine.cores} cores, Node ${machine.node}, ${time.slice(0, 10)}`
  if ('curve' in measured) {
    const { curve, headings, rows } = measured
    return withSection(page, `bench:index --curve ${curve}`, `${where}:\n\n${table(headings, rows)}`)
  }
  if ('sections' in measured) {
    return Object.entries(measured.sections).reduce(
      (changed, [name, text]) => withSection(changed, name, `${where}:\n\n${text}`),
      page,
    )
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
    const results = JSON.parse(readFileSync(file, 'utf8')) as Parameters<typeof withResults>[1]
    writeFileSync(path, withResults(readFileSync(path, 'utf8'), results))
  }
}
