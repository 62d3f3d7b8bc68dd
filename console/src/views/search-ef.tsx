import type { JSX } from 'preact'
import { formatMs } from '../lib/format.ts'
import { Slider } from '../parts/basics.tsx'
import { replaceParams } from '../state/route.ts'
import type { SearchQuery } from '../state/search-query.ts'
import type { Try } from '../state/search-run.ts'

/**
 * The positions of the slider. They grow by factors: equal steps of ef matter less and less. 0 is the server's default.
 */
const places = [0, 10, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 4096] as const

export function EfSlider({
  query,
  plan,
}: {
  readonly query: SearchQuery
  /** How the server answered the last search; undefined if it has not yet. */
  readonly plan: string | undefined
}): JSX.Element {
  const ef = query.ef ?? 0
  const place = places.findLastIndex((each) => each <= ef)
  const text = ef === 0 ? 'default' : ef < query.limit ? `${ef}, raised to ${query.limit}` : String(ef)
  const onInput = (chosen: number): void =>
    replaceParams({ ef: chosen === 0 ? undefined : String(places[chosen]) })
  return (
    <Slider
      label="ef"
      text={text}
      max={places.length - 1}
      step={1}
      value={place}
      hint={effectOf(plan)}
      onInput={onInput}
    />
  )
}

function effectOf(plan: string | undefined): string {
  if (plan === undefined || plan === 'graph') {
    return 'The breadth of the search. A larger value is slower but misses fewer points.'
  }
  return plan === 'scan of matching points'
    ? 'ef has no effect on this search: it compares every point that matches the filter, and misses none.'
    : 'ef has no effect on this search: it compares every point, and misses none.'
}

/** The values of ef that were tried for this query, with their time and recall. */
export function Tries({
  tries,
  shown,
}: {
  readonly tries: readonly Try[]
  readonly shown: number
}): JSX.Element | null {
  if (tries.length === 0) return null
  const slowest = Math.max(...tries.map(({ tookMs }) => tookMs))
  const hasRecall = tries.some(({ recall }) => recall !== undefined)
  return (
    <table class="tries">
      <caption class="visually-hidden">Values of ef tried for this query</caption>
      <thead>
        <tr>
          <th scope="col">ef</th>
          <th scope="col">{tries.every(({ onServer }) => onServer) ? 'Search' : 'Round trip'}</th>
          {hasRecall && (
            <th scope="col" class="right">
              Recall
            </th>
          )}
        </tr>
      </thead>
      <tbody>
        {tries.map(({ ef, tookMs, recall }) => (
          <tr key={ef} class={ef === shown ? 'current' : ''}>
            <td class="number">{ef === 0 ? 'default' : ef}</td>
            <td>
              <span class="try-time">
                <span class="number">{formatMs(tookMs)}</span>
                <span class="bar" aria-hidden="true">
                  <span style={{ width: `${(tookMs / slowest) * 100}%` }} />
                </span>
              </span>
            </td>
            {hasRecall && <td class="right">{recall === undefined ? '' : recall.toFixed(3)}</td>}
          </tr>
        ))}
      </tbody>
    </table>
  )
}
