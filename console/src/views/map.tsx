import { useSignal } from '@preact/signals'
import type { JSX } from 'preact'
import { useLayoutEffect, useMemo } from 'preact/hooks'
import type { JsonObject } from '../api/types.ts'
import { distanceMetrics, isMetric, type Metric } from '../lib/distance.ts'
import { isEmptyFilter, parseFilter, valueAt } from '../lib/filters.ts'
import { formatCount, plural } from '../lib/format.ts'
import { colouringOf } from '../map/colours.ts'
import type { MapSample, SampleQuery } from '../map/sample.ts'
import { Button, Empty, Fault, Field, Page, Panel } from '../parts/basics.tsx'
import { FilterBar, NoMatch, useKnownTypes } from '../parts/filter-bar.tsx'
import { PointDialog } from '../parts/point-dialog.tsx'
import { useUnmount } from '../parts/use-unmount.ts'
import { MapRun } from '../state/map-run.ts'
import { collectionName, hrefOf, replaceParams, route } from '../state/route.ts'
import { MapCanvas } from './map-canvas.tsx'
import { Legend, Selection } from './map-side.tsx'

const limits = [1000, 5000, 20_000, 50_000] as const
const defaultLimit = 5000
const maxSeed = 0xffff_ffff
/** So many points tell the types of the attributes. */
const typedPoints = 1000

function queryOf(params: URLSearchParams): SampleQuery {
  const metric = params.get('metric')
  const filter = parseFilter(params.get('filter') ?? '')
  const limit = Number(params.get('limit'))
  const seed = Number(params.get('seed'))
  return {
    collection: collectionName.value,
    metric: isMetric(metric) ? metric : 'Cosine',
    filter: 'filter' in filter ? filter.filter : {},
    limit: limits.find((each) => each === limit) ?? defaultLimit,
    seed: Number.isInteger(seed) && seed >= 0 && seed <= maxSeed ? seed : 0,
    path: params.get('colour') ?? '',
  }
}

export function MapView(): JSX.Element {
  const run = useMemo(() => new MapRun(), [])
  const { params } = route.value
  const query = queryOf(params)
  // Colouring by an attribute that the sample already has needs no new sample.
  const isMissing = query.path !== '' && run.sample.peek()?.paths.includes(query.path) === false
  const question = JSON.stringify({ ...query, path: isMissing ? query.path : '' })
  // Before the page is drawn: until then it would show the new address with the state of the previous map.
  useLayoutEffect(() => {
    run.show(query)
  }, [question])
  useUnmount(() => run.stop())
  const sample = run.sample.value
  const attributes = sample?.paths ?? []
  const payloads = useMemo(
    () => (sample?.points ?? []).slice(0, typedPoints).map(({ payload }) => payload),
    [sample],
  )
  const types = useKnownTypes(payloads)
  const isVoid = sample?.points.length === 0 && run.phase.value === 'done'
  const setFilter = (filter: JsonObject): void =>
    replaceParams({ filter: isEmptyFilter(filter) ? undefined : JSON.stringify(filter) })
  return (
    <Page
      title="Map"
      lead={
        <>
          The points of <strong>{collectionName.value}</strong>, arranged in two dimensions by their
          neighbours
        </>
      }
    >
      <FilterBar filter={query.filter} types={types} onChange={setFilter} />
      <Controls query={query} attributes={attributes} colour={params.get('colour') ?? ''} run={run} />
      <Fault text={run.fault.value} />
      {!isVoid && <Picture run={run} colour={params.get('colour') ?? ''} />}
      {isVoid && !isEmptyFilter(query.filter) && <NoMatch onClear={() => setFilter({})} />}
      {isVoid && isEmptyFilter(query.filter) && (
        <Panel>
          <Empty icon="map" title="This collection has no points yet.">
            <a href={hrefOf('import')}>Import points</a>
          </Empty>
        </Panel>
      )}
    </Page>
  )
}

function Controls(props: {
  readonly query: SampleQuery
  readonly attributes: readonly string[]
  readonly colour: string
  readonly run: MapRun
}): JSX.Element {
  const { query, run } = props
  return (
    <div class="map-controls">
      <Choice
        label="Colour by"
        value={props.colour}
        options={[['', 'nothing'], ...props.attributes.map((path) => [path, path] as const)]}
        onChange={(colour) => replaceParams({ colour })}
      />
      <Choice<Metric>
        label="Metric"
        value={query.metric}
        options={distanceMetrics.map((metric) => [metric, metric] as const)}
        onChange={(metric) => replaceParams({ metric })}
      />
      <Choice
        label="Max points"
        value={String(query.limit)}
        options={limits.map((limit) => [String(limit), formatCount(limit)] as const)}
        onChange={(limit) => replaceParams({ limit })}
      />
      <Progress run={run} query={query} />
    </div>
  )
}

function Choice<T extends string>(props: {
  readonly label: string
  readonly value: T
  readonly options: readonly (readonly [T, string])[]
  readonly onChange: (value: T) => void
}): JSX.Element {
  return (
    <Field label={props.label}>
      {({ id }) => (
        <select
          id={id}
          value={props.value}
          onChange={(event) => props.onChange(event.currentTarget.value as T)}
        >
          {props.options.map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
      )}
    </Field>
  )
}

const phaseTexts = {
  idle: '',
  loading: 'Loading neighbours',
  arranging: 'Arranging',
  done: '',
} as const

function Progress({ run, query }: { readonly run: MapRun; readonly query: SampleQuery }): JSX.Element {
  const phase = run.phase.value
  const isBusy = phase === 'loading' || phase === 'arranging'
  return (
    <div class="map-progress">
      <p class="muted" role="status">
        {isBusy ? phaseTexts[phase] : sampleText(run.sample.value)}
      </p>
      {isBusy ? (
        <>
          <progress class="progress" max={1} value={run.share.value} aria-label={phaseTexts[phase]} />
          <Button kind="quiet" onClick={() => run.stop()}>
            Stop
          </Button>
        </>
      ) : (
        <>
          {isPart(run.sample.value) && (
            <Button kind="quiet" onClick={() => replaceParams({ seed: String((query.seed + 1) % maxSeed) })}>
              Another sample
            </Button>
          )}
          <Button kind="quiet" onClick={() => run.show(query, true)}>
            Redraw
          </Button>
        </>
      )}
    </div>
  )
}

function isPart(sample: MapSample | undefined): boolean {
  return sample !== undefined && sample.points.length < sample.matching
}

function sampleText(sample: MapSample | undefined): string {
  if (sample === undefined) return ''
  const { points, matching } = sample
  return isPart(sample)
    ? `${formatCount(points.length)} of ${plural(matching, 'point')}, from ranges chosen at random`
    : plural(points.length, 'point')
}

function Picture({ run, colour }: { readonly run: MapRun; readonly colour: string }): JSX.Element {
  const hovered = useSignal(-1)
  const selected = useSignal<readonly number[]>([])
  const searched = useSignal('')
  const isolated = useSignal<string | undefined>(undefined)
  const open = useSignal<string | undefined>(undefined)
  // A constant: a save can end after the dialog was closed, and still belongs to this point.
  const openId = open.value
  const sample = run.sample.value
  const points = sample?.points ?? []
  // Point numbers are valid within one sample only, and until one of its points is deleted.
  useLayoutEffect(() => {
    selected.value = []
    hovered.value = -1
  }, [sample?.neighbours])
  const values = useMemo(
    () =>
      points.map(({ payload }) => (colour === '' ? undefined : valueAt(payload.attributes ?? {}, colour))),
    [sample, colour],
  )
  const colouring = useMemo(() => colouringOf(values), [values])
  const found = useMemo(() => matching(sample, searched.value), [sample, searched.value])
  return (
    <div class="map-layout">
      <MapCanvas
        positions={run.positions.value}
        points={points}
        values={values}
        colouring={colouring}
        isolated={isolated.value}
        found={found}
        selected={selected.value}
        onHover={(point) => {
          hovered.value = point
        }}
        onSelect={(chosen) => {
          selected.value = chosen
        }}
      />
      <div class="map-side">
        <input
          type="search"
          aria-label="Find in contents"
          placeholder="Find in contents"
          value={searched.value}
          onInput={(event) => {
            searched.value = event.currentTarget.value
          }}
        />
        {found !== undefined && <p class="muted">{plural(found.size, 'point')} found</p>}
        {colour !== '' && (
          <Legend
            title={colour}
            legend={colouring.legend}
            isolated={isolated.value}
            onIsolate={(text) => {
              isolated.value = text
            }}
          />
        )}
        <Selection
          points={points}
          neighbours={sample?.neighbours}
          shown={selected.value.length > 0 ? selected.value : hovered.value >= 0 ? [hovered.value] : []}
          onOpen={(id) => {
            open.value = id
          }}
        />
      </div>
      {openId !== undefined && (
        <PointDialog
          collection={collectionName.value}
          id={openId}
          onChange={(payload) => run.changePoint(openId, payload)}
          onClose={() => {
            open.value = undefined
          }}
        />
      )}
    </div>
  )
}

function matching(sample: MapSample | undefined, text: string): ReadonlySet<number> | undefined {
  const wanted = text.trim().toLowerCase()
  if (wanted === '') return undefined
  const found = new Set<number>()
  for (const [number, { payload }] of (sample?.points ?? []).entries()) {
    if (payload.content.toLowerCase().includes(wanted)) found.add(number)
  }
  return found
}
