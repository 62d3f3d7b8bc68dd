import { useSignal } from '@preact/signals'
import type { JSX } from 'preact'
import { useEffect, useMemo, useRef } from 'preact/hooks'
import { apiRoot, messageOf } from '../api/client.ts'
import { somePoint } from '../api/points.ts'
import type { JsonObject } from '../api/types.ts'
import { hasExamples, shapeFields } from '../lib/answer-shape.ts'
import { isEmptyFilter } from '../lib/filters.ts'
import { languages, type QueryToShow, snippet } from '../lib/snippets.ts'
import { vectorPreview } from '../lib/vector-text.ts'
import { Button, Code, Empty, Fault, Field, Page, Panel, Segments } from '../parts/basics.tsx'
import { FilterBar, useKnownTypes } from '../parts/filter-bar.tsx'
import { currentCollection, embeddingModel } from '../state/collections.ts'
import { collectionName, hrefOf, replaceParams } from '../state/route.ts'
import { type Near, nearOf, type SearchQuery, searchQuery, usualBalance } from '../state/search-query.ts'
import { SearchRun } from '../state/search-run.ts'
import { serviceConfig } from '../state/service-config.ts'
import { key } from '../state/session.ts'
import { EfSlider, Tries } from './search-ef.tsx'
import { NearPoint } from './search-near.tsx'
import { Results } from './search-results.tsx'
import { LimitField, MetricField, MoreFields, ShapeFields } from './search-shape.tsx'
import { TextQuery, WordsQuery } from './search-text.tsx'

/** Debounces changes of the query, so that moving the slider does not send a search for every pixel. */
const pauseMs = 120

export function Search(): JSX.Element {
  const run = useMemo(() => new SearchRun(), [])
  const changedMs = useRef(Number.NEGATIVE_INFINITY)
  const query = searchQuery.value
  const collection = currentCollection.value
  const near = nearOf(query, collection?.dimension)
  const known = near !== undefined && !('fault' in near) ? near : undefined
  const isReady =
    known !== undefined || (near === undefined && (query.words !== '' || hasExamples(query.shape)))
  const question = JSON.stringify([query, near])
  useEffect(() => {
    if (!isReady) return
    const { metric, limit, ef, filter, words, balance, shape } = query
    const settings = { metric, limit, ef, filter, words, balance, shape }
    const input = { ...settings, collection: collectionName.value, near: known }
    const search = (): unknown => run.run(input, query.compare && known !== undefined && isPlain(query))
    const isFirst = performance.now() - changedMs.current > pauseMs
    changedMs.current = performance.now()
    if (isFirst) {
      search()
      return
    }
    const timer = setTimeout(search, pauseMs)
    return () => clearTimeout(timer)
  }, [question])
  // Not `useUnmount`, which would stop it before the timer above: a search started in between would not be stopped.
  useEffect(() => () => run.stop(), [])
  const output = run.output.value
  const payloads = useMemo(() => (output?.hits ?? []).map(({ payload }) => payload ?? {}), [output])
  const types = useKnownTypes(payloads)
  const setFilter = (filter: JsonObject): void =>
    replaceParams({ filter: isEmptyFilter(filter) ? undefined : JSON.stringify(filter) })
  return (
    <Page
      title="Search"
      lead={
        <>
          {query.words === '' ? 'The nearest points' : 'The best points'} in{' '}
          <strong>{collectionName.value}</strong>
        </>
      }
    >
      <div class="search-layout">
        <div class="search-side">
          <QueryPanel query={query} near={near} run={run} />
        </div>
        <div class="search-main">
          <FilterBar filter={query.filter} types={types} onChange={setFilter} />
          <Fault text={run.fault.value} />
          {isReady && output !== undefined && (
            <Results
              output={output}
              query={query}
              isNear={known !== undefined || hasExamples(query.shape)}
              run={run}
              onClearFilter={() => setFilter({})}
            />
          )}
          {!isReady && <Start />}
          {isReady && <AsCode query={query} near={known} />}
        </div>
      </div>
    </Page>
  )
}

/** Whether an exact search would find the same points, if the graph misses none. */
function isPlain({ words, texts }: SearchQuery): boolean {
  return words === '' && Object.keys(texts).length === 0
}

function Start(): JSX.Element {
  const isVoid = currentCollection.value?.points === 0
  if (isVoid) {
    return (
      <Panel>
        <Empty icon="search" title="This collection has no points yet.">
          <a href={hrefOf('import')}>Import points</a>
        </Empty>
      </Panel>
    )
  }
  return (
    <Panel>
      <Empty icon="search" title="Choose a query">
        <p>
          {embeddingModel.value === undefined
            ? 'Paste a vector or the id of a point.'
            : 'Enter a text, or paste a vector or the id of a point.'}{' '}
          {currentCollection.value?.words !== undefined && 'Or enter words. '}
          Or start from a random point:
        </p>
        <RandomPoint text="Random point" />
      </Empty>
    </Panel>
  )
}

function RandomPoint({ text }: { readonly text?: string }): JSX.Element {
  const fault = useSignal<string | undefined>(undefined)
  const collection = currentCollection.value
  const choose = async (): Promise<void> => {
    try {
      const id = await somePoint(collectionName.value, collection!.dimension!)
      if (id !== undefined) location.hash = hrefOf('search', { ...shownParams(), by: 'id', id })
    } catch (error) {
      fault.value = messageOf(error)
    }
  }
  return (
    <>
      <Button
        icon="shuffle"
        {...(text === undefined ? { label: 'Random point' } : {})}
        disabled={collection?.dimension === undefined}
        onClick={choose}
      >
        {text}
      </Button>
      <Fault text={fault.value} />
    </>
  )
}

/** The parameters that are kept when the query point changes. */
function shownParams(): Readonly<Record<string, string | undefined>> {
  const { metric, limit, ef, filter, compare, form, words, balance, texts } = searchQuery.value
  return {
    words: words === '' ? undefined : words,
    balance: balance === usualBalance ? undefined : String(balance),
    metric,
    limit: String(limit),
    ef: ef === undefined ? undefined : String(ef),
    filter: isEmptyFilter(filter) ? undefined : JSON.stringify(filter),
    ...texts,
    compare: compare ? '1' : undefined,
    as: form === 'rows' ? undefined : form,
  }
}

const waysToSearch: readonly (readonly [SearchQuery['by'], string])[] = [
  ['id', 'Near a point'],
  ['vector', 'Near a vector'],
]

/** Shorter, so that three options fit into one row. */
const waysWithText: readonly (readonly [SearchQuery['by'], string])[] = [
  ['text', 'By text'],
  ['id', 'By point'],
  ['vector', 'By vector'],
]

function QueryPanel(props: {
  readonly query: SearchQuery
  readonly near: Near | { readonly fault: string } | undefined
  readonly run: SearchRun
}): JSX.Element {
  const { query, near } = props
  const fault = near !== undefined && 'fault' in near ? near.fault : undefined
  const isNear = near !== undefined || hasExamples(query.shape)
  const isByWordsAlone = !isNear && query.words !== ''
  return (
    <Panel class="form">
      <div class="near-head">
        <Segments
          label="Search by"
          options={embeddingModel.value === undefined ? waysToSearch : waysWithText}
          value={query.by}
          onChange={(by) => replaceParams({ by })}
        />
      </div>
      {query.by === 'id' && near !== undefined && 'id' in near && (
        <NearPoint id={near.id} isAnswered={!props.run.busy.value} />
      )}
      {query.by === 'text' ? (
        <TextQuery text={query.text} />
      ) : query.by === 'id' ? (
        <Field label="Id of the point" fault={fault}>
          {({ id, describedBy }) => (
            <span class="with-button">
              <input
                id={id}
                class="mono"
                aria-describedby={describedBy}
                spellcheck={false}
                autocomplete="off"
                placeholder="8f14e45f-ceea-467f-a8d0-2b4e1c9f7a63"
                value={query.id}
                onInput={(event) => replaceParams({ by: 'id', id: event.currentTarget.value.trim() })}
              />
              <RandomPoint />
            </span>
          )}
        </Field>
      ) : (
        <Field
          label="Vector"
          hint={
            near !== undefined && 'vector' in near
              ? vectorPreview(near.vector)
              : 'A JSON array, or numbers separated by commas or spaces.'
          }
          fault={fault}
        >
          {({ id, describedBy }) => (
            <textarea
              id={id}
              class="mono"
              aria-describedby={describedBy}
              spellcheck={false}
              placeholder="[0.12, -0.5, 0.33]"
              value={query.vectorText}
              onInput={(event) => replaceParams({ by: 'vector', vector: event.currentTarget.value })}
            />
          )}
        </Field>
      )}
      {(currentCollection.value?.words !== undefined || query.words !== '') && (
        <WordsQuery query={query} hasVector={isNear} />
      )}
      <div class="fields">
        {!isByWordsAlone && <MetricField metric={query.metric} />}
        <LimitField label={query.texts.group === undefined ? 'Limit' : 'Groups'} limit={query.limit} />
      </div>
      <ShapeFields fields={shapeFields.slice(0, 1)} {...query} />
      <MoreFields fields={shapeFields.slice(1)} {...query} />
      {!isByWordsAlone && <EfSlider query={query} plan={props.run.output.value?.profile?.plan} />}
      {isPlain(query) && (
        <label class="check">
          <input
            type="checkbox"
            checked={query.compare}
            onChange={(event) => replaceParams({ compare: event.currentTarget.checked ? '1' : undefined })}
          />
          Measure recall against an exact search
        </label>
      )}
      {!isByWordsAlone && <Tries tries={props.run.tries.value} shown={query.ef ?? 0} />}
    </Panel>
  )
}

function AsCode({
  query,
  near,
}: {
  readonly query: SearchQuery
  readonly near: Near | undefined
}): JSX.Element {
  const language = useSignal<(typeof languages)[number][0]>('curl')
  const shown: QueryToShow = {
    ...query,
    near,
    url: apiRoot.href.replace(/\/$/, ''),
    grpcPort: serviceConfig.value.grpcPort,
    collection: collectionName.value,
    needsKey: key.value !== undefined,
  }
  return (
    <Panel
      title="This query as code"
      actions={
        <Segments
          label="Language"
          options={languages}
          value={language.value}
          onChange={(chosen) => {
            language.value = chosen
          }}
        />
      }
    >
      <Code
        text={snippet(language.value, shown, false)}
        full={() => snippet(language.value, shown, true)}
        label="the query"
      />
    </Panel>
  )
}
