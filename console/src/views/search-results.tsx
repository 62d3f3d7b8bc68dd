import { useSignal } from '@preact/signals'
import { Fragment, type JSX } from 'preact'
import type { SearchOutput } from '../api/points.ts'
import type { Hit } from '../api/types.ts'
import { isEmptyFilter, testedPaths } from '../lib/filters.ts'
import { formatDistance, formatMs, plural, shortId } from '../lib/format.ts'
import { Button, CopyButton, Empty, onRowClick, Panel, Segments } from '../parts/basics.tsx'
import { NoMatch } from '../parts/filter-bar.tsx'
import { Icon } from '../parts/icon.tsx'
import { AttributeTags, Found, PointContent } from '../parts/point-content.tsx'
import { PointDialog } from '../parts/point-dialog.tsx'
import { collectionName, hrefOf, replaceParams } from '../state/route.ts'
import type { SearchQuery } from '../state/search-query.ts'
import type { SearchRun } from '../state/search-run.ts'
import { ProfilePanel } from './search-profile.tsx'

export function Results(props: {
  readonly output: SearchOutput
  readonly query: SearchQuery
  /** Whether there is something to search near. */
  readonly isNear: boolean
  readonly run: SearchRun
  readonly onClearFilter: () => void
}): JSX.Element {
  const { output, query, isNear, run } = props
  const open = useSignal<string | undefined>(undefined)
  const recall = run.tries.value.find(({ ef }) => ef === (query.ef ?? 0))?.recall
  const distances = output.hits.map(({ distance }) => distance ?? 0)
  const range = { nearest: Math.min(...distances), farthest: Math.max(...distances) }
  return (
    <>
      <div class={`results-head${run.busy.value ? ' busy' : ''}`}>
        <p role="status">
          <strong>{plural(output.hits.length, 'result')}</strong>
          {output.groups !== undefined && ` in ${plural(output.groups.length, 'group')}`}
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
      {output.hits.length === 0 && !isEmptyFilter(query.filter) && <NoMatch onClear={props.onClearFilter} />}
      {output.hits.length === 0 && isEmptyFilter(query.filter) && (
        <Panel>
          <Empty icon="search" title="There are no other points." />
        </Panel>
      )}
      {groupsOf(output).map(({ title, hits, first }) => (
        <Fragment key={title}>
          {title !== undefined && <h2 class="group-value">{title}</h2>}
          <ol class={`results ${query.form}`}>
            {hits.map((hit, index) => (
              <ResultItem
                key={hit.id}
                hit={hit}
                rank={first + index + 1}
                range={range}
                query={query}
                isNear={isNear}
                onOpen={() => {
                  open.value = hit.id
                }}
              />
            ))}
          </ol>
        </Fragment>
      ))}
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

/** The hits of each group, or all of them. */
function groupsOf({ hits, groups }: SearchOutput): readonly {
  readonly title: string | undefined
  readonly hits: readonly Hit[]
  readonly first: number
}[] {
  if (groups === undefined) return hits.length === 0 ? [] : [{ title: undefined, hits, first: 0 }]
  let first = 0
  return groups.map(({ value, count }) => {
    const from = first
    first += count
    const title = typeof value === 'string' ? value : JSON.stringify(value)
    return { title, hits: hits.slice(from, first), first: from }
  })
}

interface DistanceRange {
  readonly nearest: number
  readonly farthest: number
}

const shortestBar = 0.1

/** The length of a bar: 1 for the nearest hit, and the shortest for the farthest one. */
function nearnessOf(distance: number, { nearest, farthest }: DistanceRange): number {
  if (farthest === nearest) return 1
  return 1 - ((distance - nearest) / (farthest - nearest)) * (1 - shortestBar)
}

function ResultItem(props: {
  readonly hit: Hit
  readonly rank: number
  readonly range: DistanceRange
  readonly query: SearchQuery
  readonly isNear: boolean
  readonly onOpen: () => void
}): JSX.Element {
  const { hit, rank, range, query, isNear } = props
  const similar = hrefOf('search', {
    by: 'id',
    id: hit.id,
    metric: query.metric,
    limit: String(query.limit),
    ...(query.ef === undefined ? {} : { ef: String(query.ef) }),
    ...(query.form === 'rows' ? {} : { as: query.form }),
  })
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the button with the id does the same for the keyboard
    <li class="result opens" onClick={onRowClick(props.onOpen)}>
      <span class="rank number" aria-hidden="true">
        {rank}
      </span>
      <div class="result-body">
        {hit.payload !== undefined && (
          <PointContent
            payload={hit.payload}
            found={hit.highlight?.filter(({ path }) => path === 'content')}
          />
        )}
        {hit.highlight
          ?.filter(({ path }) => path !== 'content')
          .map(({ path, parts }, index) => (
            <p key={`${path} ${index}`} class="found">
              <span class="muted">{path}: </span>
              <Found parts={parts} />
            </p>
          ))}
        <AttributeTags attributes={hit.payload?.attributes} matched={testedPaths(query.filter)} />
      </div>
      <div class="result-side">
        {hit.score !== undefined && (
          <div class="result-distance">
            <span class="number">
              <span class="visually-hidden">Score </span>
              {hit.score.toFixed(3)}
            </span>
            <span class="bar" aria-hidden="true">
              <span style={{ width: `${hit.score * 100}%` }} />
            </span>
            <span class="hint number">
              {(['distance', 'words', 'rerank'] as const)
                .filter((name) => hit[name] !== undefined)
                .map((name) => `${name} ${formatDistance(hit[name]!)}`)
                .join(', ')}
            </span>
          </div>
        )}
        {hit.score === undefined && hit.distance !== undefined && (
          <div class="result-distance">
            <span class="number">
              <span class="visually-hidden">Distance </span>
              {formatDistance(hit.distance)}
            </span>
            <span class="bar" aria-hidden="true">
              <span style={{ width: `${nearnessOf(hit.distance, range) * 100}%` }} />
            </span>
          </div>
        )}
        <div class="result-actions">
          <button type="button" class="link mono" title={`Open ${hit.id}`} onClick={props.onOpen}>
            {shortId(hit.id)}
          </button>
          <CopyButton text={() => hit.id} label="Copy id" />
          {(isNear ? (['like', 'unlike'] as const) : (['like'] as const)).map((name) => (
            <Button
              key={name}
              kind="quiet"
              icon={name === 'like' ? 'plus' : 'minus'}
              label={name === 'like' ? 'More like this' : 'Less like this'}
              onClick={() => {
                const others = query.texts[name]
                replaceParams({ [name]: others === undefined ? hit.id : `${others}, ${hit.id}` })
              }}
            />
          ))}
          <a class="button quiet icon-only" href={similar} aria-label="Similar" title="Similar">
            <Icon name="similar" size={16} />
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
