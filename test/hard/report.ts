import { distanceMetrics, type Metric } from '../../src/base/point.ts'
import { type Moment, moments, type SetResult } from './battery.ts'

/** Recall by set, metric and moment, as Markdown; the lowest of all rounds. */
export function recallTable(results: readonly SetResult[]): string {
  const lines = results.flatMap((result) =>
    distanceMetrics.map((metric, index) => [
      index === 0 ? result.name : '',
      metric,
      ...moments.map((moment) => cell(result, metric, moment)),
    ]),
  )
  return table(['set', 'metric', ...moments], lines)
}

/** The cost of each set, and its number of faults. */
export function costTable(results: readonly SetResult[]): string {
  const lines = results.map(({ name, points, dimension, rounds, slowestMs, faults }) => [
    name,
    `${points} x ${dimension}`,
    ...(['insert', 'delete', 'search'] as const).map((kind) => `${(slowestMs[kind] / 1000).toFixed(2)} s`),
    rounds.flatMap(({ settledMs }) => settledMs.map(seconds)).join(', '),
    rounds.map(({ stoppedMs }) => seconds(stoppedMs)).join(', '),
    rounds.map(({ residentBytes }) => mebibytes(residentBytes)).join(', '),
    rounds.map(({ diskBytes }) => mebibytes(diskBytes)).join(', '),
    String(faults.length),
  ])
  const slowest = ['insert', 'delete', 'search'].map((kind) => `slowest ${kind}`)
  return table(['set', 'points', ...slowest, 'settled', 'SIGTERM', 'RSS MiB', 'disk MiB', 'faults'], lines)
}

/** `0.981 x2`: recall and ef multiplier; `scan`: exact scan; `!3`: number of answers out of order. */
function cell({ rows }: SetResult, metric: Metric, moment: Moment): string {
  const found = rows.filter((row) => row.metric === metric && row.moment === moment)
  if (found.length === 0) return ''
  const least = found.toSorted((a, b) => a.recall - b.recall)[0]!
  const disordered = Math.max(...found.map((row) => row.disordered))
  const way = least.efMultiplier === 0 ? 'scan' : `x${least.efMultiplier}`
  // Round down: 0.9996 is not exact.
  const recall = (Math.floor(least.recall * 1000) / 1000).toFixed(3)
  return `${recall} ${way}${disordered > 0 ? ` !${disordered}` : ''}`
}

function seconds(ms: number | undefined): string {
  return ms === undefined ? 'never' : `${(ms / 1000).toFixed(1)} s`
}

function mebibytes(bytes: number): string {
  return String(Math.round(bytes / 1024 / 1024))
}

function table(head: readonly string[], lines: readonly (readonly string[])[]): string {
  const widths = head.map((title, column) =>
    Math.max(title.length, ...lines.map((line) => line[column]!.length)),
  )
  const row = (cells: readonly string[]): string =>
    `| ${cells.map((text, column) => text.padEnd(widths[column]!)).join(' | ')} |`
  return [row(head), row(widths.map((width) => '-'.repeat(width))), ...lines.map(row)].join('\n')
}
