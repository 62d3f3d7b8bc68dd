import { median } from '../../shared/median.ts'
import { atLeast, atMost, type Spell, times, type Verdict } from '../../shared/verdict.ts'
import { type Cell, resultOf, type WayResult } from '../run/cell.ts'
import { knownOf, timesBetterPlan, timesLibraries, timesOthers } from './figures.ts'

/** The targets for filtered search, over all cells of a data set. */
export function verdictsOf(cells: readonly Cell[]): Verdict[] {
  const planned = cells.map((cell) => resultOf(cell, 'planned')).filter((each) => each !== undefined)
  const recalls = planned.map(({ recall }) => recall)
  return [
    atLeast('recall, mean of all cells', meanOf(recalls), 0.98, recall),
    atLeast('recall of the worst cell', extreme(recalls, Math.min), 0.95, recall),
    atMost('answers with fewer results than possible', shortOf(planned), 0, whole),
    atMost(
      'time over that of the better of scan and walk, worst cell',
      extreme(knownOf(cells, timesBetterPlan), Math.max),
      2.2,
      times,
    ),
    atLeast('speed, times the best library, median cell', median(knownOf(cells, timesLibraries)), 3, times),
    atLeast(
      'speed, times the best of libraries, brute force and filtering afterwards, median cell',
      median(knownOf(cells, timesOthers)),
      3,
      times,
    ),
  ]
}

function meanOf(values: readonly number[]): number | undefined {
  return values.length === 0 ? undefined : values.reduce((sum, each) => sum + each, 0) / values.length
}

function extreme(values: readonly number[], of: (...values: number[]) => number): number | undefined {
  return values.length === 0 ? undefined : of(...values)
}

function shortOf(results: readonly WayResult[]): number | undefined {
  return results.length === 0 ? undefined : results.reduce((sum, { short }) => sum + short, 0)
}

const recall: Spell = (value) => value.toFixed(4)
const whole: Spell = (value) => value.toFixed(0)
