import type { JSX } from 'preact'
import { formatBytes, formatCompact, formatCount, formatMs, formatRate, plural } from '../lib/format.ts'
import { findingsOf } from '../lib/health.ts'
import { type Samples, single, total } from '../lib/prometheus.ts'
import { Fault, Page, Panel } from '../parts/basics.tsx'
import { Chart } from '../parts/chart.tsx'
import { Figure, FindingItem } from '../parts/findings.tsx'
import { collections, collectionsFault, uncounted } from '../state/collections.ts'
import { type Activity, activity, growth, latest, metricsFault } from '../state/metrics.ts'
import { collectionName, hrefOf } from '../state/route.ts'
import { FirstSteps } from './first-steps.tsx'
import { IndexPanel } from './overview-index.tsx'
import { SlowPanel } from './overview-slow.tsx'

const spanS = 15 * 60

export function Overview(): JSX.Element {
  const samples = latest.value
  const known = collections.value
  const isEmpty = uncounted.value === undefined && known?.every(({ points }) => points === 0) === true
  return (
    <Page
      title="Overview"
      lead={isEmpty ? 'The server is running and has no points yet.' : <Lead samples={samples} />}
    >
      <Fault text={metricsFault.value ?? collectionsFault.value ?? uncounted.value} />
      {isEmpty && <FirstSteps />}
      {samples !== undefined && !isEmpty && (
        <>
          <Health samples={samples} />
          <Figures samples={samples} />
          <Charts activity={activity.value} />
          <IndexPanel name={indexedName()} />
          <SlowPanel />
          <CollectionList samples={samples} />
        </>
      )}
    </Page>
  )
}

function Lead({ samples }: { readonly samples: Samples | undefined }): JSX.Element | null {
  const info = samples?.get('vicinal_build_info')?.[0]?.labels
  const startS = samples === undefined ? undefined : single(samples, 'process_start_time_seconds')
  if (info === undefined || startS === undefined) return null
  return (
    <>
      Vicinal {info.version}, up {upTime(Date.now() / 1000 - startS)}
    </>
  )
}

function upTime(seconds: number): string {
  const minutes = Math.floor(seconds / 60)
  if (minutes < 1) return 'less than a minute'
  if (minutes < 120) return `${minutes} min`
  const hours = Math.floor(minutes / 60)
  return hours < 48 ? `${hours} h` : `${Math.floor(hours / 24)} days`
}

function Health({ samples }: { readonly samples: Samples }): JSX.Element {
  const found = findingsOf(samples, growth)
  const isGood = uncounted.value === undefined && !found.some(({ level }) => level !== 'note')
  return (
    <div class="health" role="status">
      {isGood && (
        <p class="health-good">
          <span class="dot good" /> Everything is in order.
        </p>
      )}
      {found.map((each) => (
        <FindingItem key={each.title} {...each} />
      ))}
    </div>
  )
}

function Figures({ samples }: { readonly samples: Samples }): JSX.Element {
  const now = activity.value.at(-1)
  const points = (collections.value ?? []).reduce((sum, each) => sum + each.points, 0)
  const free = single(samples, 'vicinal_disk_free_bytes')
  return (
    <dl class="figures">
      <Figure
        name="Points"
        value={formatCompact(points)}
        note={`in ${plural(collections.value?.length ?? 0, 'collection')}`}
      />
      <Figure name="Searches" value={`${formatRate(now?.searches ?? 0)}/s`} note={latencyNote(now)} />
      <Figure
        name="Writes"
        value={`${formatRate(now?.writes ?? 0)}/s`}
        note={now?.commitP99Ms == null ? 'none right now' : `commit p99 ${formatMs(now.commitP99Ms)}`}
      />
      <Figure
        name="Memory"
        value={formatBytes(single(samples, 'process_resident_memory_bytes') ?? 0)}
        note={memoryNote(samples)}
      />
      <Figure
        name="Disk"
        value={formatBytes(total(samples, 'vicinal_disk_bytes'))}
        note={free === undefined ? '' : `${formatBytes(free)} free`}
      />
    </dl>
  )
}

/** How much of the memory the points of all collections take, and of how much they may take. */
function memoryNote(samples: Samples): string {
  const max = total(samples, 'vicinal_memory_max_bytes')
  const used = formatBytes(total(samples, 'vicinal_memory_bytes'))
  return `points ${used}${max === 0 ? '' : ` of ${formatBytes(max)}`}`
}

function latencyNote(now: Activity | undefined): string {
  if (now?.searchP99Ms == null || now.searchP50Ms == null) return 'none right now'
  return `p50 ${formatMs(now.searchP50Ms)}, p99 ${formatMs(now.searchP99Ms)}`
}

function Charts({ activity: past }: { readonly activity: readonly Activity[] }): JSX.Element {
  const timesS = past.map(({ timeS }) => timeS)
  return (
    <div class="two-columns">
      <Panel title="Requests per second" actions={<Legend entries={['Searches', 'Writes']} />}>
        <Chart
          label="Searches and writes per second in the last 15 minutes"
          timesS={timesS}
          spanS={spanS}
          format={formatRate}
          series={[
            { label: 'Searches', colour: '--series-1', values: past.map(({ searches }) => searches) },
            { label: 'Writes', colour: '--series-2', values: past.map(({ writes }) => writes) },
          ]}
        />
      </Panel>
      <Panel title="Search latency" actions={<Legend entries={['p50', 'p99']} />}>
        <Chart
          label="Latency of searches in the last 15 minutes: median and 99th percentile"
          timesS={timesS}
          spanS={spanS}
          format={axisMs}
          series={[
            { label: 'p50', colour: '--series-1', values: past.map(({ searchP50Ms }) => searchP50Ms) },
            { label: 'p99', colour: '--series-2', values: past.map(({ searchP99Ms }) => searchP99Ms) },
          ]}
        />
      </Panel>
    </div>
  )
}

/** Rounds to three significant digits, for the labels of an axis. */
function axisMs(ms: number): string {
  return `${Number(ms.toPrecision(3))} ms`
}

function Legend({ entries }: { readonly entries: readonly string[] }): JSX.Element {
  return (
    <ul class="legend">
      {entries.map((text, index) => (
        <li key={text}>
          <span class={`swatch series-${index + 1}`} /> {text}
        </li>
      ))}
    </ul>
  )
}

/** How many of the largest collections are listed. The Collections view lists all of them. */
const shownCollections = 8

/** The largest collections, with what this node has of each in memory. */
function CollectionList({ samples }: { readonly samples: Samples }): JSX.Element {
  const largest = [...(collections.value ?? [])]
    .sort((a, b) => b.points - a.points)
    .slice(0, shownCollections)
  return (
    <Panel title="Collections" class="flush titled" actions={<a href={hrefOf('collections')}>All</a>}>
      <div class="table-wrap">
        <table class="stacking collection-list">
          <thead>
            <tr>
              {['Name', 'Points', 'Dimension', 'Waiting', 'Memory'].map((name, column) => (
                <th key={name} scope="col" class={column === 0 ? '' : 'right'}>
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {largest.map(({ name, points, dimension }) => (
              <tr key={name}>
                <td data-label="Name">
                  <a href={hrefOf('search', { c: name })}>{name}</a>
                </td>
                <td class="right" data-label="Points">
                  {formatCount(points)}
                </td>
                <td class="right" data-label="Dimension">
                  {dimension === undefined ? 'none yet' : formatCount(dimension)}
                </td>
                <td class="right" data-label="Waiting">
                  {formatCount(waitingOf(samples, name))}
                </td>
                <td class="right" data-label="Memory">
                  {memoryOf(samples, name)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  )
}

function waitingOf(samples: Samples, collection: string): number {
  return collection === 'default'
    ? total(samples, 'vicinal_index_waiting_points')
    : total(samples, 'vicinal_collection_waiting_points', { collection })
}

function memoryOf(samples: Samples, collection: string): string {
  const named = 'vicinal_collection_memory_bytes'
  // The default collection has what no other one has.
  if (collection === 'default')
    return formatBytes(total(samples, 'vicinal_memory_bytes') - total(samples, named))
  const bytes = single(samples, named, { collection })
  return bytes === undefined ? 'not loaded' : formatBytes(bytes)
}

/** The collection whose index is shown: the selected one, or the largest if nobody uses the collection `default`. */
function indexedName(): string {
  const name = collectionName.value
  const all = collections.value ?? []
  if (name !== 'default' || all.some((each) => each.name === name && each.points > 0)) return name
  return [...all].sort((a, b) => b.points - a.points)[0]?.name ?? name
}
