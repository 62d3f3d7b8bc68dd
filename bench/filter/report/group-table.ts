import { median } from '../../shared/median.ts'
import { shown, table } from '../../shared/table.ts'
import { type Cell, resultOf } from '../run/cell.ts'
import { knownOf, timesBetterPlan, timesLibraries, timesOthers } from './figures.ts'

/** The cells in groups, to show at a glance which filters are expensive or have little recall. */
export function groupTable(cells: readonly Cell[]): string {
  const byRelation = Map.groupBy(cells, ({ relation }) => relation)
  const byShare = Map.groupBy(
    cells.filter(({ wantedShare }) => wantedShare !== undefined),
    ({ wantedShare }) => `${Number((100 * wantedShare!).toFixed(6))} %`,
  )
  return table(headings, [...byRelation, ...byShare].map(groupRow))
}

const headings = [
  '',
  'cells',
  'recall, mean',
  'recall, worst',
  'x better plan, median',
  'x better plan, worst',
  'x library, median',
  'x library, worst',
  'x others, median',
]

function groupRow([name, cells]: readonly [string, readonly Cell[]]): string[] {
  const recalls = knownOf(cells, (cell) => resultOf(cell, 'planned')?.recall)
  const plans = knownOf(cells, timesBetterPlan)
  const libraries = knownOf(cells, timesLibraries)
  const mean = recalls.reduce((sum, each) => sum + each, 0) / recalls.length
  return [
    name,
    shown(cells.length),
    recalls.length === 0 ? '-' : shown(mean, 4),
    recalls.length === 0 ? '-' : shown(Math.min(...recalls), 4),
    shown(median(plans), 2),
    plans.length === 0 ? '-' : shown(Math.max(...plans), 2),
    shown(median(libraries), 2),
    libraries.length === 0 ? '-' : shown(Math.min(...libraries), 2),
    shown(median(knownOf(cells, timesOthers)), 2),
  ]
}
