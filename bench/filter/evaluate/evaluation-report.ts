import { shown, table } from '../../shared/table.ts'
import { atMost, type Spell, verdictTable } from '../../shared/verdict.ts'
import type { EvaluatedFilter, Evaluation } from './evaluate.ts'

/** The measurements of the attribute index, as Markdown. */
export function evaluationReport({ points, bytesPerPoint, insertedPerSecond, filters }: Evaluation): string {
  return [
    `## Filters over ${shown(points)} points with six attributes`,
    `${shown(insertedPerSecond)} points per second enter the index; ${shown(bytesPerPoint, 1)} bytes per point.`,
    table(headings, filters.map(rowOf)),
    '### Targets',
    verdictTable([
      ...filters.map(({ name, milliseconds, goalMilliseconds }) =>
        atMost(`evaluating: ${name}`, milliseconds, goalMilliseconds, fine),
      ),
      atMost('memory per point', bytesPerPoint, 60, bytes),
    ]),
  ].join('\n\n')
}

const headings = ['filter', 'matching', 'median, ms', 'longest, ms', 'longest step, ms', 'cached, µs']

function rowOf({
  name,
  matching,
  milliseconds,
  millisecondsMax,
  longestStep,
  cachedMicroseconds,
}: EvaluatedFilter): string[] {
  const times = [milliseconds, millisecondsMax, longestStep].map((each) => shown(each, 3))
  return [name, shown(matching), ...times, shown(cachedMicroseconds, 1)]
}

const fine: Spell = (value) => `${value.toFixed(2)} ms`
const bytes: Spell = (value) => `${value.toFixed(1)} bytes`
