import { useSignal } from '@preact/signals'
import type { JSX } from 'preact'
import { settingText } from '../../../src/base/relevance.ts'
import { messageOf } from '../api/client.ts'
import { evaluatePoints } from '../api/points.ts'
import type { Evaluated, Evaluation, JsonValue, MeasuredSetting, Relevance } from '../api/types.ts'
import { shapeOf, sharedFields } from '../lib/answer-shape.ts'
import { isEmptyFilter, isObject } from '../lib/filters.ts'
import { plural } from '../lib/format.ts'
import { Button, Empty, Fault, Field, Page, Panel } from '../parts/basics.tsx'
import { FilterBar } from '../parts/filter-bar.tsx'
import { useRun } from '../parts/use-run.ts'
import { currentCollection, embeddingModel } from '../state/collections.ts'
import { collectionName, replaceParams } from '../state/route.ts'
import { searchQuery } from '../state/search-query.ts'
import { EfSlider } from './search-ef.tsx'
import { LimitField, MetricField, MoreFields } from './search-shape.tsx'
import { BalanceSlider } from './search-text.tsx'

interface Measured {
  readonly answer: Evaluated
  /** What the judgements are about, for people. */
  readonly names: readonly string[]
  readonly k: number
}

/** No points are shown whose attributes could be suggested. */
const noTypes = new Map()
const sweeps = ['balance', 'ef', 'paths'] as const

/** Measures how well searches agree with judgements, and shows the queries that another setting makes worse. */
export function RelevanceView(): JSX.Element {
  const text = useSignal('')
  const query = searchQuery.value
  const sweep = useSignal<readonly string[]>([])
  const measured = useSignal<Measured | undefined>(undefined)
  const {
    run: measure,
    stop,
    isRunning,
    fault,
  } = useRun(async (signal) => {
    const judgements = judgementsIn(text.value)
    const { metric: similarity, limit: k, balance, ef, filter, texts } = query
    const { shape, faults } = shapeOf(texts, sharedFields)
    const faulty = sharedFields.find(({ name }) => faults[name] !== undefined)
    if (faulty !== undefined) throw new Error(`${faulty.label}: ${faults[faulty.name]}`)
    const asked = { judgements, k, sweep: sweep.value, similarity, balance, ef, filter, shape }
    const answer = await evaluatePoints(collectionName.value, asked, signal)
    measured.value = { answer, names: judgements.map(nameOf), k }
  })
  return (
    <Page
      title="Relevance"
      lead={
        <>
          How good searches in <strong>{collectionName.value}</strong> are, by judgements
        </>
      }
    >
      <div class="search-layout">
        <div class="search-side">
          <Panel class="form">
            <Field label="Judgements" hint={hintOf()}>
              {({ id, describedBy }) => (
                <textarea
                  id={id}
                  class="mono judgements"
                  aria-describedby={describedBy}
                  spellcheck={false}
                  placeholder={'{"words": "anadama bread", "relevant": {"3f2b8c1e-…": 2}}'}
                  value={text.value}
                  onInput={(event) => {
                    text.value = event.currentTarget.value
                  }}
                />
              )}
            </Field>
            <input
              type="file"
              aria-label="File of judgements"
              accept=".jsonl,.ndjson,application/x-ndjson"
              onChange={async ({ currentTarget: { files } }) => {
                if (files?.[0] !== undefined) text.value = await files[0].text()
              }}
            />
            <div class="fields">
              <MetricField metric={query.metric} />
              <LimitField label="Results per query (k)" limit={query.limit} />
            </div>
            <BalanceSlider balance={query.balance} />
            <EfSlider query={query} plan={undefined} />
            <MoreFields fields={sharedFields} {...query} />
            <fieldset class="sweeps">
              <legend>Find the best</legend>
              {sweeps.map((name) => (
                <label key={name} class="check">
                  <input
                    type="checkbox"
                    checked={sweep.value.includes(name)}
                    onChange={({ currentTarget: { checked } }) => {
                      const others = sweep.value.filter((each) => each !== name)
                      sweep.value = checked ? [...others, name] : others
                    }}
                  />
                  {name === 'paths' ? 'weights of paths' : name}
                </label>
              ))}
            </fieldset>
            {!isRunning ? (
              <Button kind="primary" disabled={text.value.trim() === ''} onClick={measure}>
                Measure
              </Button>
            ) : (
              <Button onClick={stop}>Stop</Button>
            )}
          </Panel>
        </div>
        <div class="search-main">
          <FilterBar
            filter={query.filter}
            types={noTypes}
            onChange={(filter) =>
              replaceParams({ filter: isEmptyFilter(filter) ? undefined : JSON.stringify(filter) })
            }
          />
          <Fault text={fault} />
          {measured.value === undefined ? (
            <Panel>
              <Empty icon="relevance" title={isRunning ? 'Searching…' : 'No judgements yet'}>
                <p>A judgement is a query with the points that answer it, one a line.</p>
              </Empty>
            </Panel>
          ) : (
            <Results measured={measured.value} />
          )}
        </div>
      </div>
    </Page>
  )
}

function hintOf(): string {
  const ways = [
    ...(currentCollection.value?.words === undefined ? [] : ['words']),
    'vector',
    ...(embeddingModel.value === undefined ? [] : ['text']),
  ]
  return `A JSON object a line: ${ways.join(' or ')}, and relevant: the grades of points by id.`
}

/** @throws Error that names the line that is not JSON */
function judgementsIn(text: string): readonly JsonValue[] {
  return text.split('\n').flatMap((line, index) => {
    if (line.trim() === '') return []
    try {
      return [JSON.parse(line) as JsonValue]
    } catch (error) {
      throw new Error(`Line ${index + 1} is not JSON: ${messageOf(error)}`)
    }
  })
}

function nameOf(judgement: JsonValue, index: number): string {
  const { words, text } = isObject(judgement) ? judgement : {}
  const name = [words, text].find((each) => typeof each === 'string')
  return typeof name === 'string' ? name : `Judgement ${index + 1}`
}

function Results({ measured }: { readonly measured: Measured }): JSX.Element {
  const { answer, names } = measured
  const { best, curve, missing } = answer
  return (
    <>
      <Panel title={`The first ${measured.k} results of ${plural(names.length, 'query', 'queries')}`}>
        {missing > 0 && (
          <p class="notice">{plural(missing, 'judged point')} of these judgements are not stored.</p>
        )}
        <Figures given={answer} best={best} />
      </Panel>
      {best !== undefined && (
        <>
          <Panel title={`Best: ${settingText(best)}`}>
            <Curve curve={curve} best={best} />
          </Panel>
          <Changes given={answer} best={best} names={names} />
        </>
      )}
    </>
  )
}

const measures = [
  ['ndcg', 'nDCG'],
  ['recall', 'Recall'],
  ['mrr', 'MRR'],
] as const

function Figures({
  given,
  best,
}: {
  readonly given: Evaluation
  readonly best: Evaluation | undefined
}): JSX.Element {
  return (
    <table class="measured">
      <thead>
        <tr>
          <th scope="col">Measure</th>
          <th scope="col">Now</th>
          {best !== undefined && <th scope="col">Best</th>}
        </tr>
      </thead>
      <tbody>
        {measures.map(([name, label]) => (
          <tr key={name}>
            <th scope="row">{label}</th>
            {[given, best].map(
              (each, index) => each && <td key={index === 0 ? 'now' : 'best'}>{figureText(each, name)}</td>,
            )}
          </tr>
        ))}
      </tbody>
    </table>
  )
}

function figureText(evaluation: Evaluation, name: keyof Relevance): JSX.Element {
  const { low, high } = evaluation
  return (
    <>
      <span class="number">{evaluation[name].toFixed(3)}</span>{' '}
      <span class="muted number">
        {low[name].toFixed(3)} to {high[name].toFixed(3)}
      </span>
    </>
  )
}

/** What was tried, with a bar from the worst to the best. */
function Curve({
  curve,
  best,
}: {
  readonly curve: readonly MeasuredSetting[]
  readonly best: Evaluation
}): JSX.Element {
  const values = curve.map(({ ndcg }) => ndcg)
  const [least, greatest] = [Math.min(...values), Math.max(...values)]
  const shown = settingText(best)
  return (
    <table class="tries">
      <caption class="visually-hidden">Settings that were tried</caption>
      <thead>
        <tr>
          <th scope="col">Setting</th>
          <th scope="col">nDCG</th>
        </tr>
      </thead>
      <tbody>
        {curve.map((setting) => (
          <tr key={settingText(setting)} class={settingText(setting) === shown ? 'current' : ''}>
            <td>{settingText(setting)}</td>
            <td>
              <span class="try-time">
                <span class="number">{setting.ndcg.toFixed(3)}</span>
                <span class="bar" aria-hidden="true">
                  <span style={{ width: `${barOf(setting.ndcg, least, greatest)}%` }} />
                </span>
              </span>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

function barOf(value: number, least: number, greatest: number): number {
  return greatest === least ? 100 : 5 + (95 * (value - least)) / (greatest - least)
}

function Changes(props: {
  readonly given: Evaluation
  readonly best: Evaluation
  readonly names: readonly string[]
}): JSX.Element {
  const { given, best, names } = props
  const changes = names.map((name, index) => ({
    name,
    before: given.queries[index]!.ndcg,
    after: best.queries[index]!.ndcg,
  }))
  const worse = changes.filter(({ before, after }) => after < before)
  const better = changes.filter(({ before, after }) => after > before).length
  worse.sort((a, b) => a.after - a.before - (b.after - b.before))
  return (
    <Panel title={`${plural(better, 'query', 'queries')} better, ${worse.length} worse`}>
      {worse.length > 0 && (
        <table class="measured">
          <caption class="visually-hidden">Queries that get worse</caption>
          <thead>
            <tr>
              <th scope="col">Worse with the best setting</th>
              <th scope="col">Now</th>
              <th scope="col">Then</th>
            </tr>
          </thead>
          <tbody>
            {worse.slice(0, worseMax).map(({ name, before, after }, index) => (
              <tr key={`${index} ${name}`}>
                <td>{name}</td>
                <td class="number">{before.toFixed(3)}</td>
                <td class="number">{after.toFixed(3)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Panel>
  )
}

const worseMax = 50
