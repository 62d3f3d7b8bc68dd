import { shown, table } from '../../shared/table.ts'
import { type Verdict, verdictTable } from '../../shared/verdict.ts'
import { type Cell, resultOf, type WayResult } from '../run/cell.ts'
import type { SetResult } from '../run/compare.ts'
import { type WayName, wayNames, ways } from '../ways.ts'
import { hasWalked, timesBetterPlan, timesLibraries, timesOthers } from './figures.ts'
import { groupTable } from './group-table.ts'

/** The tables of one data set, as Markdown. */
export function reportOf({ set, cells, faults }: SetResult, verdicts: readonly Verdict[]): string {
  const groups = Map.groupBy(cells, ({ k }) => k)
  const parts = [
    `## ${set.name}: ${set.description}; ${set.count} rows, ${set.queryCount} queries`,
    ...[...groups].flatMap(([k, group]) => [
      `### The engine, k ${k}`,
      table(plannedHeadings, group.map(plannedRow)),
      `### All ways, k ${k}: queries per second (ef; recall if it is below the target)`,
      table(['', ...waysOf(group)], group.map(speedRow)),
    ]),
    '### By the relation of the filter to the vectors, and by the share of matching points',
    groupTable(cells),
    '### Worst cells',
    table(['', 'cell', 'figure'], worstRows(cells)),
    '### Targets',
    verdictTable(verdicts),
    ...faults.map(({ way, fault }) => `${way} failed: ${fault}`),
  ]
  return parts.join('\n\n')
}

/** Describes each way, for the end of the report. */
export function describe(names: readonly WayName[]): string {
  const rows = names.map((name) => [name, ways[name].description])
  return `## Ways\n\n${table(['', 'what'], rows)}`
}

const plannedHeadings = [
  'filter',
  'matching, %',
  'recall',
  'p1',
  'short',
  'queries/s',
  'p50, µs',
  'p99, µs',
  'filter, µs',
  'compared',
  'x better plan',
  'x library',
  'x others',
  'plans',
]

function plannedRow(cell: Cell): string[] {
  const planned = resultOf(cell, 'planned')
  return [
    cell.name,
    shown(100 * cell.share, 2),
    shown(planned?.recall, 4),
    shown(planned?.recallP1, 2),
    shown(planned?.short),
    shown(planned?.queriesPerSecond),
    shown(planned?.p50Us),
    shown(planned?.p99Us),
    shown(planned?.filterUs),
    shown(planned?.compared),
    shown(timesBetterPlan(cell), 2),
    shown(timesLibraries(cell), 2),
    shown(timesOthers(cell), 2),
    plansOf(planned),
  ]
}

/** Each plan with the share of queries that it answered; only its name if it answered all. */
function plansOf(result: WayResult | undefined): string {
  const entries = Object.entries(result?.plans ?? {}).sort(([, a], [, b]) => b - a)
  if (entries.length === 1) return entries[0]![0]
  const all = entries.reduce((sum, [, count]) => sum + count, 0)
  return entries.map(([plan, count]) => `${plan} ${Math.round((100 * count) / all)} %`).join(', ')
}

function waysOf(cells: readonly Cell[]): WayName[] {
  const measured = new Set(cells.flatMap(({ results }) => results.map(({ way }) => way)))
  return wayNames.filter((way) => measured.has(way))
}

function speedRow(cell: Cell, _: number, cells: readonly Cell[]): string[] {
  return [cell.name, ...waysOf(cells).map((way) => speedOf(resultOf(cell, way)))]
}

function speedOf(result: WayResult | undefined): string {
  if (result === undefined) return '-'
  const { way, ef, hasReached, recall, queriesPerSecond } = result
  const isScan = way === 'walk' && !hasWalked(result)
  const notes = [
    ...(ways[way].isTuned ? [isScan ? 'scans' : `ef ${ef}`] : []),
    ...(hasReached ? [] : [recall.toFixed(2)]),
  ]
  return `${shown(queriesPerSecond)}${notes.length === 0 ? '' : ` (${notes.join('; ')})`}`
}

function worstRows(cells: readonly Cell[]): string[][] {
  const worst = (title: string, figure: (cell: Cell) => number | undefined, sign: 1 | -1): string[] => {
    const known = cells
      .map((cell) => ({ cell, value: figure(cell) }))
      .filter((each): each is { cell: Cell; value: number } => each.value !== undefined)
      .sort((a, b) => sign * (a.value - b.value))
    const [first] = known
    return [
      title,
      first === undefined ? '-' : `${first.cell.name}, k ${first.cell.k}`,
      shown(first?.value, 4),
    ]
  }
  return [
    worst('recall', (cell) => resultOf(cell, 'planned')?.recall, 1),
    worst('first percentile of recall', (cell) => resultOf(cell, 'planned')?.recallP1, 1),
    worst('times the better of scan and walk', timesBetterPlan, -1),
    worst('times the best library', timesLibraries, 1),
  ]
}
