import { table } from './table.ts'

/** A target and the measured figure. */
export interface Verdict {
  readonly goal: string
  /** Undefined if this run did not measure it. */
  readonly figure: number | undefined
  readonly spelled: string
  readonly isReached: boolean | undefined
}

/** Formats a figure with its unit. */
export type Spell = (value: number) => string
export const share: Spell = (value) => `${(100 * value).toFixed(0)} %`
export const times: Spell = (value) => `${value.toFixed(value < 10 ? 2 : 1)}x`
export const milliseconds: Spell = (value) => `${value.toFixed(1)} ms`

/** A table of all targets, with the measured figures and whether they reach the targets. */
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
