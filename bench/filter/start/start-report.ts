import { median } from '../../shared/median.ts'
import { shown } from '../../shared/table.ts'
import { atMost, type Spell, verdictTable } from '../../shared/verdict.ts'
import type { Starts } from './measure-start.ts'

/** The start times, as Markdown. */
export function startReport({ points, dimension, warm, withoutFile }: Starts): string {
  const spelled = (all: readonly number[]): string => all.map((each) => shown(each, 2)).join(', ')
  return [
    `## Starts with ${shown(points)} x ${dimension} points of six attributes`,
    `Seconds until ready: ${spelled(warm)}; without the attribute file ${spelled(withoutFile)}.`,
    '### Targets',
    verdictTable([atMost('a warm start, median', median(warm), warmMax, seconds)]),
  ].join('\n\n')
}

const seconds: Spell = (value) => `${value.toFixed(2)} s`

/** For 1,000,000 points of 128 components. */
const warmMax = 3.5
