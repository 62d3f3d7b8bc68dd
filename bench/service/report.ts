import { table } from '../src/run/report.ts'
import { percentiles } from './load-plan.ts'
import type { Measurement, TargetResult } from './measure.ts'

/** Two tables: the targets, and every measurement beside the echo's of the same workload and transport. */
export function reportOf(results: readonly TargetResult[]): string {
  const all = results.flatMap(({ measurements }) => measurements)
  const targets = results.map(({ target, recall, fillPerSecond }) => [
    target,
    recall?.toFixed(4) ?? '',
    fillPerSecond === undefined ? '' : String(Math.round(fillPerSecond)),
  ])
  const rows = all.map((each) => [
    each.workload,
    each.transport,
    each.target,
    String(Math.round(each.itemsPerSecond)),
    shareOfEcho(each, all),
    ...percentiles.map((name) => each.milliseconds[name].toFixed(2)),
    each.processors?.toFixed(2) ?? '',
    each.processors === undefined ? '' : ((1e6 * each.processors) / each.itemsPerSecond).toFixed(0),
    each.rssBytes === undefined ? '' : String(Math.round(each.rssBytes / 1e6)),
    String(each.failed),
  ])
  rows.sort((a, b) => a[0]!.localeCompare(b[0]!, 'en', { numeric: true }) || a[1]!.localeCompare(b[1]!))
  return [
    table(['target', 'recall', 'filled, points/s'], targets),
    '',
    table([...headings], rows),
    '',
    'Rates with as many requests as it takes; times in ms at half that rate, counted from when a request was due.',
  ].join('\n')
}

const headings = [
  'workload',
  'transport',
  'target',
  'items/s',
  'of echo',
  ...percentiles.map((name) => `p${name}`),
  'CPUs',
  'CPU µs/item',
  'RSS, MB',
  'failed',
]

function shareOfEcho(measurement: Measurement, all: readonly Measurement[]): string {
  const echo = all.find(
    ({ target, transport, workload }) =>
      target === 'echo' && transport === measurement.transport && workload === measurement.workload,
  )
  if (echo === undefined || measurement === echo) return ''
  return `${((100 * measurement.itemsPerSecond) / echo.itemsPerSecond).toFixed(0)} %`
}
