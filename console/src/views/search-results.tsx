import { useSignal } from '@preact/signals'
import type { JSX } from 'preact'
import type { SearchOutput } from '../api/points.ts'
import type { Hit } from '../api/types.ts'
import { testedPaths } from '../lib/filters.ts'
import { formatDistance, formatMs, plural, shortId } from '../lib/format.ts'
import { CopyButton, Empty, Panel, Segments } from '../parts/basics.tsx'
import { Icon } from '../parts/icon.tsx'
import { AttributeTags, PointContent } from '../parts/point-content.tsx'
import { PointDialog } from '../parts/point-dialog.tsx'
import { collectionName, hrefOf, replaceParams } from '../state/route.ts'
import type { SearchQuery } from '../state/search-query.ts'
import type { SearchRun } from '../state/search-run.ts'
import { ProfilePanel } from './search-profile.tsx'

export function Results(props: {
  readonly output: SearchOutput
  readonly query: SearchQuery
  readonly run: SearchRun
}): JSX.Element {
  const { output, query, run } = props
  const open = useSignal<string | undefined>(undefined)
  const recall = run.tries.value.find(({ ef }) => ef === (query.ef ?? 0))?.recall
  const farthest = Math.max(0, ...output.hits.map(({ distance }) => distance ?? 0))
  return (
    <>
      <div class={`results-head${run.busy.value ? ' busy' : ''}`}>
        <p role="status">
          <strong>{plural(output.hits.length, 'result')}</strong>
          <span class="muted"> {timeText(output)}</span>
          {query.compare && recall !== undefined && (
            <span class={recall < 1 ? 'recall low' : 'recall'}>recall {recall.toFixed(3)}</span>
          )}
        </p>
        <Segments
          label="Show as"
          options={[
            ['rows', 'Rows'],
            ['cards', 'Cards'],
          ]}
          value={query.form}
          onChange={(chosen) => replaceParams({ as: chosen === 'rows' ? undefined : chosen })}
        />
      </div>
      {output.hits.length === 0 ? (
        <Panel>
          <Empty icon="search" title="No points match." />
        </Panel>
      ) : (
        <ol class={`results ${query.form}`}>
          {output.hits.map((hit, index) => (
            <ResultItem
              key={hit.id}
              hit={hit}
              rank={index + 1}
              farthest={farthest}
              query={query}
              onOpen={() => {
                open.value = hit.id
              }}
            />
          ))}
        </ol>
      )}
      {output.profile !== undefined && <ProfilePanel profile={output.profile} />}
      {open.value !== undefined && (
        <PointDialog
          collection={collectionName.value}
          id={open.value}
          onChange={() => run.repeat()}
          onClose={() => {
            open.value = undefined
          }}
        />
      )}
    </>
  )
}

function ResultItem(props: {
  readonly hit: Hit
  readonly rank: number
  readonly farthest: number
  readonly query: SearchQuery
  readonly onOpen: () => void
}): JSX.Element {
  const { hit, rank, farthest, query } = props
  const similar = hrefOf('search', {
    by: 'id',
    id: hit.id,
    metric: query.metric,
    limit: String(query.limit),
    ...(query.ef === undefined ? {} : { ef: String(query.ef) }),
    ...(query.form === 'rows' ? {} : { as: query.form }),
  })
  return (
    <li class="result">
      <span class="rank number" aria-hidden="true">
        {rank}
      </span>
      <div class="result-body">
        {hit.payload !== undefined && <PointContent payload={hit.payload} />}
        <AttributeTags attributes={hit.payload?.attributes} matched={testedPaths(query.filter)} />
      </div>
      <div class="result-side">
        {hit.distance !== undefined && (
          <div class="result-distance">
            <span class="number">
              <span class="visually-hidden">Distance </span>
              {formatDistance(hit.distance)}
            </span>
            <span class="bar" aria-hidden="true">
              <span style={{ width: `${farthest === 0 ? 0 : (hit.distance / farthest) * 100}%` }} />
            </span>
          </div>
        )}
        <div class="result-actions">
          <button type="button" class="link mono" title={`Open ${hit.id}`} onClick={props.onOpen}>
            {shortId(hit.id)}
          </button>
          <CopyButton text={() => hit.id} label="Copy id" />
          <a class="button quiet" href={similar}>
            <Icon name="similar" size={16} />
            Similar
          </a>
        </div>
      </div>
    </li>
  )
}

/** The time of the round trip, and how much of it the search took. */
function timeText({ tookMs, profile }: SearchOutput): string {
  const searchUs = profile?.search_us
  const own = typeof searchUs === 'number' ? `, of which the search took ${formatMs(searchUs / 1000)}` : ''
  return `in ${formatMs(tookMs)}${own}`
}
