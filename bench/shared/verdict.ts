import { table } from './table.ts'

/** A goal, and what was measured. */
export interface Verdict {
  readonly goal: string
  /** Undefined where this run did not measure it. */
  readonly figure: number | undefined
  readonly spelled: string
  readonly isReached: boolean | undefined
}

/** Writes a figure with its unit. */
export type Spell = (value: number) => string
export const share: Spell = (value) => `${(100 * value).toFixed(0)} %`
export const times: Spell = (value) => `${value.toFixed(value < 10 ? 2 : 1)}x`
export const milliseconds: Spell = (value) => `${value.toFixed(1)} ms`

/** All goals, what was measured, and whether that is enough. */
export function verdictTable(verdicts: readonly Verdict[]): string {
  const rows = verdicts.map(({ goal, spelled, isReached }) => {
    return [goal, spelled, isReached === undefined ? '' : isReached ? 'reached' : 'MISSED']
  })
  return table(['goal', 'figure', ''], rows)
}

export function atLeast(goal: string, figure: number | undefined, bound: number, spell: Spell): Verdict {
  const isReached = figure === undefined ? undefined : figure >= bound
  return { goal: `${goal}: at least ${spell(bound)}`, figure, spelled: spelled(figure, spell), isReached }
}

export function atMost(goal: string, figure: number | undefined, bound: number, spell: Spell): Verdict {
  const isReached = figure === undefined ? undefined : figure <= bound
  return { goal: `${goal}: at most ${spell(bound)}`, figure, spelled: spelled(figure, spell), isReached }
}

function spelled(figure: number | undefined, spell: Spell): string {
  return figure === undefined ? 'not measured' : spell(figure)
}
