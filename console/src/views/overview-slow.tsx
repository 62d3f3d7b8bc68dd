import type { JSX } from 'preact'
import type { SlowQueries, SlowQuery } from '../api/types.ts'
import { formatCount, formatMs, formatTime } from '../lib/format.ts'
import { Fault, Panel } from '../parts/basics.tsx'
import { usePolled } from '../state/polled.ts'

const periodMs = 5000
const shown = 10

/** The slowest requests of the last hour, in all collections. */
export function SlowPanel(): JSX.Element {
  const { value, fault } = usePolled<SlowQueries>('slow-queries', periodMs)
  const slow = value.value
  return (
    <Panel title="Slowest requests of the last hour">
      <Fault text={fault.value} />
      {slow !== undefined && <Slow {...slow} />}
    </Panel>
  )
}

function Slow({ threshold_ms, queries }: SlowQueries): JSX.Element {
  if (queries.length === 0) {
    return (
      <p class="muted">
        No search, list, count or change by filter took {formatCount(threshold_ms)} ms or longer.
      </p>
    )
  }
  return (
    <>
      <div class="table-wrap">
        <table class="stacking slow-table">
          <thead>
            <tr>
              <th scope="col" class="right">
                Took
              </th>
              <th scope="col">When</th>
              <th scope="col">Request</th>
              <th scope="col">Collection</th>
              <th scope="col">How it was answered</th>
              <th scope="col" class="right">
                Hits
              </th>
            </tr>
          </thead>
          <tbody>
            {queries.slice(0, shown).map((query, index) => (
              <Row key={`${query.time} ${index}`} query={query} />
            ))}
          </tbody>
        </table>
      </div>
      <p class="hint">
        Requests of {formatCount(threshold_ms)} ms or longer are kept.
        {queries.length > shown && ` GET /slow-queries lists ${formatCount(queries.length - shown)} more.`}
      </p>
    </>
  )
}

function Row({ query }: { readonly query: SlowQuery }): JSX.Element {
  const { time, took_ms, operation, transport, collection, outcome, plan, reason, hits, filter } = query
  return (
    <tr>
      <td class="right number nowrap" data-label="Took">
        {formatMs(took_ms)}
      </td>
      <td class="nowrap" data-label="When">
        <time dateTime={time}>{formatTime(new Date(time))}</time>
      </td>
      <td data-label="Request">
        <div>
          {operation} <span class="muted">over {transport === 'grpc' ? 'gRPC' : 'HTTP'}</span>
          <div class="muted">{partsOf(query).join(' · ')}</div>
          {filter !== undefined && <code class="slow-filter">{filter}</code>}
        </div>
      </td>
      <td data-label="Collection">{collection}</td>
      <td data-label="Answered">
        {(plan !== undefined || outcome !== 'ok') && (
          <div>
            {outcome === 'ok' ? plan : `refused: ${outcome}`}
            {outcome === 'ok' && <div class="muted">{reason}</div>}
          </div>
        )}
      </td>
      <td class="right number" data-label="Hits">
        {hits === undefined ? '' : formatCount(hits)}
      </td>
    </tr>
  )
}

function partsOf({ queries, similarity, limit, ef }: SlowQuery): readonly string[] {
  return [
    queries === undefined ? '' : `${formatCount(queries)} queries`,
    similarity ?? '',
    limit === undefined ? '' : `limit ${formatCount(limit)}`,
    ef === undefined ? '' : `ef ${formatCount(ef)}`,
  ].filter((part) => part !== '')
}
