/**
 * `npm run docs:benchmarks -- FILE...` writes the tables of docs/decisions/benchmarks.md from result files of
 * `npm run bench:index`. The sections of other data sets stay as they are.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { withSection } from '../shared/docs-section.ts'
import type { Machine } from '../shared/machine.ts'
import { benchFolder } from '../shared/options.ts'
import type { SetResult } from './run/compare.ts'
import { summaryOf } from './run/report.ts'

/** A file that `bench:index` has written. */
export interface IndexResults {
  readonly time: string
  readonly machine: Machine
  readonly results: readonly SetResult[]
}

/** @returns the page with the results */
export function withResults(page: string, { time, machine, results }: IndexResults): string {
  const where = `${machine.processor}, ${machine.cores} cores, Node ${machine.node}, ${time.slice(0, 10)}`
  return results.reduce(
    (changed, result) =>
      withSection(changed, `bench:index ${result.set.name}`, `${where}:\n\n${summaryOf(result)}`),
    page,
  )
}

if (import.meta.main) {
  const path = join(benchFolder, '../docs/decisions/benchmarks.md')
  for (const file of process.argv.slice(2)) {
    const results = JSON.parse(readFileSync(file, 'utf8')) as IndexResults
    writeFileSync(path, withResults(readFileSync(path, 'utf8'), results))
  }
}
