import { median, medianOfKnown } from '../../shared/median.ts'
import { shown, table } from '../../shared/table.ts'
import { type Verdict, verdictTable } from '../../shared/verdict.ts'
import { type LoadResult, type Percentile, percentiles } from '../load/load-plan.ts'
import { type Disturbed, heavyRate, slowdown } from '../run/disturbed.ts'
import type { Measurement } from '../run/measure.ts'
import type { SetResult } from '../run/set-result.ts'

/** The tables of one data set, as Markdown. */
export function reportOf(result: SetResult, verdicts: readonly Verdict[]): string {
  const parts = [
    `## ${result.set}: ${result.description}`,
    '### Stored points',
    fillTable(result),
    '### Loads',
    loadTable(result),
    'Medians of the rounds: items per second at the best pressure; times in ms at half that rate, counted from when a request was due.',
    ...sweepTables(result),
    ...toolTables(result),
    ...disturbedTables(result),
    '### Targets',
    verdictTable(verdicts),
  ]
  return parts.join('\n\n')
}

/** What the docs have of a data set. */
export function summaryOf(result: SetResult): string {
  return `${fillTable(result)}\n\n${loadTable(result)}`
}

function fillTable({ fills, indexRecall, indexRates }: SetResult): string {
  const rows = fills.map(({ target, storedPerSecond, perSecond, ef, recall, rssBytes }) => [
    target,
    whole(storedPerSecond),
    whole(perSecond),
    String(ef),
    recall?.toFixed(4) ?? '',
    megabytes(rssBytes),
  ])
  const index = [
    'index alone',
    '',
    '',
    '',
    indexRecall?.toFixed(4) ?? '',
    '',
    whole(median(indexRates.map(({ oneThread }) => oneThread))),
    whole(median(indexRates.map(({ allCores }) => allCores))),
  ]
  const headings = [
    'target',
    'stored/s',
    'indexed/s',
    'ef',
    'recall',
    'RSS, MB',
    'queries/s, one thread',
    'all cores',
  ]
  return table(headings, [...rows.map((row) => [...row, '', '']), ...(indexRates.length > 0 ? [index] : [])])
}

function loadTable({ measurements }: SetResult): string {
  const groups = Map.groupBy(measurements, ({ workload, transport, target }) =>
    [workload, transport, target].join('\n'),
  )
  const rows = [...groups.values()].map((rounds) => {
    const { workload, transport, target, connections, inFlight } = rounds[0]!
    const items = medianOfKnown(rounds, ({ itemsPerSecond }) => itemsPerSecond)!
    const processors = medianOfKnown(rounds, ({ usage }) => usage?.processors)
    return [
      workload,
      transport,
      target,
      transport === 'grpc' ? `${connections} x ${inFlight / connections}` : `${connections} x 1`,
      whole(items),
      shareOfEcho(rounds[0]!, items, measurements),
      ...percentiles.map((name) =>
        fixed(
          medianOfKnown(rounds, ({ half }) => half?.milliseconds[name]),
          2,
        ),
      ),
      fixed(processors, 2),
      fixed(
        medianOfKnown(rounds, ({ usage }) => usage?.mainThread),
        2,
      ),
      processors === undefined ? '' : fixed((1e6 * processors) / items, 0),
      megabytes(medianOfKnown(rounds, ({ usage }) => usage?.rssBytes)),
      String(rounds.reduce((sum, { full, half }) => sum + lost(full) + lost(half), 0)),
    ]
  })
  return table(loadHeadings, rows)
}

const loadHeadings = [
  'workload',
  'by',
  'target',
  'connections x requests',
  'items/s',
  'of echo',
  ...percentiles.map((name) => `p${name}`),
  'CPUs',
  'main thread',
  'CPU µs/item',
  'RSS, MB',
  'failed',
]

function lost(result: LoadResult | undefined): number {
  return result === undefined ? 0 : result.failed + result.refused
}

function shareOfEcho(
  { transport, workload, target }: Measurement,
  items: number,
  all: readonly Measurement[],
): string {
  if (target === 'echo') return ''
  const echo = all.filter(
    (each) => each.target === 'echo' && each.transport === transport && each.workload === workload,
  )
  const ceiling = medianOfKnown(echo, ({ itemsPerSecond }) => itemsPerSecond)
  return ceiling === undefined ? '' : `${((100 * items) / ceiling).toFixed(0)} %`
}

/** Single searches with all pressures that were tried, other than the best. */
function sweepTables({ measurements }: SetResult): string[] {
  const rows = measurements
    .filter(({ others }) => others.length > 0)
    .flatMap(({ target, transport, others, connections, inFlight, itemsPerSecond }) =>
      [...others, { connections, inFlight, itemsPerSecond }]
        .sort((a, b) => a.inFlight - b.inFlight || a.connections - b.connections)
        .map((each) => [
          target,
          transport,
          String(each.connections),
          String(each.inFlight),
          whole(each.itemsPerSecond),
        ]),
    )
  if (rows.length === 0) return []
  const headings = ['target', 'by', 'connections', 'concurrent requests', 'searches/s']
  return ['### Single searches, by pressure', table(headings, rows)]
}

function toolTables({ tools }: SetResult): string[] {
  if (tools.length === 0) return []
  const rows = tools.map(({ target, transport, tool, requestsPerSecond, failed, usage }) => [
    target,
    transport,
    tool,
    whole(requestsPerSecond),
    fixed(usage?.processors, 2),
    fixed(usage?.mainThread, 2),
    String(failed),
  ])
  const headings = ['target', 'by', 'tool', 'searches/s', 'CPUs', 'main thread', 'failed']
  return [
    '### Single searches, by public tools',
    table(headings, rows),
    'h2load repeats the same query over one connection; wrk sends all queries over 64 connections.',
  ]
}

function disturbedTables({ disturbed }: SetResult): string[] {
  if (disturbed.length === 0) return []
  const groups = Map.groupBy(disturbed, ({ workload, transport }) => `${workload}\n${transport}`)
  const time = (rounds: readonly Disturbed[], which: 'idle' | 'beside', name: Percentile): string =>
    fixed(
      medianOfKnown(rounds, (each) => each[which].milliseconds[name]),
      2,
    )
  const rows = [...groups.values()].map((rounds) => [
    rounds[0]!.workload,
    rounds[0]!.transport,
    time(rounds, 'idle', '50'),
    time(rounds, 'idle', '99'),
    time(rounds, 'beside', '50'),
    time(rounds, 'beside', '99'),
    fixed(
      medianOfKnown(rounds, ({ beside }) => beside.millisecondsMax),
      2,
    ),
    fixed(medianOfKnown(rounds, slowdown), 2),
    fixed(medianOfKnown(rounds, heavyRate), 1),
    whole(medianOfKnown(rounds, ({ heavy }) => heavy.refused)),
    whole(medianOfKnown(rounds, ({ heavy }) => heavy.failed)),
    megabytes(medianOfKnown(rounds, ({ usage }) => usage?.rssBytes)),
  ])
  return [
    '### A light load next to a heavy one (vicinal; times in ms)',
    table(disturbedHeadings, rows),
    'At overload, `by` is the transport of the load, and the times are those of GET /health. Refused: by the service, or because no connection was free.',
  ]
}

const disturbedHeadings = [
  'what',
  'by',
  'p50 idle',
  'p99 idle',
  'p50 beside',
  'p99 beside',
  'max beside',
  'p99 ratio',
  'heavy requests/s',
  'refused',
  'failed',
  'RSS, MB',
]

function whole(value: number | undefined): string {
  return shown(value, 0, '')
}

function fixed(value: number | undefined, digits: number): string {
  return value === undefined ? '' : value.toFixed(digits)
}

function megabytes(bytes: number | undefined): string {
  return bytes === undefined ? '' : whole(bytes / 1e6)
}
