import { useSignal } from '@preact/signals'
import type { JSX } from 'preact'
import { useId, useLayoutEffect, useMemo, useRef } from 'preact/hooks'
import type { JsonObject } from '../api/types.ts'
import type { AttributeType } from '../lib/attribute-rows.ts'
import {
  type KnownTypes,
  type Operator,
  operators,
  suggestedPaths,
  typeAt,
  typesIn,
  withCondition,
} from '../lib/conditions.ts'
import { chipsOf, isEmptyFilter, parseFilter, withoutChip } from '../lib/filters.ts'
import { Button, Empty, Panel } from './basics.tsx'
import { JsonEditor } from './json-editor.tsx'

/**
 * The attribute types of all points that a view has shown so far. They outlive a filter that nothing matches, whose
 * next condition needs them just as much.
 */
export function useKnownTypes(shown: readonly { readonly attributes?: JsonObject }[]): KnownTypes {
  const known = useRef<KnownTypes>(new Map())
  return useMemo(() => {
    known.current = typesIn(
      shown.map(({ attributes }) => attributes),
      known.current,
    )
    return known.current
  }, [shown])
}

/** A filter as chips, with a form that adds a condition and a JSON editor. Chips and JSON stay in sync. */
export function FilterBar(props: {
  readonly filter: JsonObject
  /** The attributes to suggest, with the types that typed values are converted to. */
  readonly types: KnownTypes
  readonly onChange: (filter: JsonObject) => void
}): JSX.Element {
  const adding = useSignal(false)
  const asJson = useSignal(false)
  const chips = chipsOf(props.filter)
  return (
    <section class="filter-bar" aria-label="Filter">
      <div class="filter-chips">
        {chips.map((chip) => (
          <span key={`${chip.key} ${chip.operator}`} class="chip">
            {chip.text}
            <button
              type="button"
              aria-label={`Remove condition ${chip.text}`}
              onClick={() => props.onChange(withoutChip(props.filter, chip))}
            >
              ×
            </button>
          </span>
        ))}
        <Button
          kind="quiet"
          icon={chips.length === 0 ? 'filter' : 'plus'}
          pressed={adding.value}
          onClick={() => {
            adding.value = !adding.value
          }}
        >
          {chips.length === 0 ? 'Add filter' : 'Add'}
        </Button>
        <Button
          kind="quiet"
          pressed={asJson.value}
          onClick={() => {
            asJson.value = !asJson.value
          }}
        >
          JSON
        </Button>
        {chips.length > 1 && (
          <Button kind="quiet" onClick={() => props.onChange({})}>
            Clear
          </Button>
        )}
      </div>
      {adding.value && (
        <ConditionForm
          types={props.types}
          onAdd={(path, operator, text) => {
            props.onChange(withCondition(props.filter, path, operator, text, props.types))
            adding.value = false
          }}
        />
      )}
      {asJson.value && <FilterJson filter={props.filter} onChange={props.onChange} />}
    </section>
  )
}

/** Shown in place of points when a filter matches none. */
export function NoMatch({ onClear }: { readonly onClear: () => void }): JSX.Element {
  return (
    <Panel>
      <Empty icon="filter" title="No points match the filter.">
        <p>Remove one of its conditions, or all:</p>
        <Button onClick={onClear}>Clear the filter</Button>
      </Empty>
    </Panel>
  )
}

const valueExamples: Readonly<Record<AttributeType, string>> = {
  text: 'value',
  number: '12.5',
  'true or false': 'true',
  'date and time': '2026-01-31',
  location: '',
  'list or map': '',
}

function ConditionForm(props: {
  readonly types: KnownTypes
  /** @throws Error that says what is wrong with the text */
  readonly onAdd: (path: string, operator: Operator, text: string) => void
}): JSX.Element {
  const id = useId()
  const path = useSignal('')
  const operator = useSignal<Operator>('$eq')
  const text = useSignal('')
  const fault = useSignal<string | undefined>(undefined)
  const type = typeAt(props.types, path.value.trim())
  const example = type === undefined ? 'value' : valueExamples[type]
  return (
    <form
      class="condition-form"
      onSubmit={(event) => {
        event.preventDefault()
        try {
          props.onAdd(path.value.trim(), operator.value, text.value)
        } catch (error) {
          fault.value = (error as Error).message
        }
      }}
    >
      <input
        aria-label="Attribute"
        placeholder="attribute"
        required
        list={`${id}-paths`}
        spellcheck={false}
        value={path.value}
        onInput={(event) => {
          path.value = event.currentTarget.value
        }}
      />
      <datalist id={`${id}-paths`}>
        {suggestedPaths(props.types).map((each) => (
          <option key={each} value={each} />
        ))}
      </datalist>
      <select
        aria-label="Comparison"
        value={operator.value}
        onChange={(event) => {
          operator.value = event.currentTarget.value as Operator
        }}
      >
        {operators.map(([name, sign]) => (
          <option key={name} value={name}>
            {sign}
          </option>
        ))}
      </select>
      {operator.value !== '$exists' && (
        <input
          aria-label="Value"
          placeholder={operator.value.endsWith('in') ? `${example}, …` : example}
          spellcheck={false}
          value={text.value}
          onInput={(event) => {
            text.value = event.currentTarget.value
          }}
        />
      )}
      <Button type="submit" kind="primary">
        Add
      </Button>
      {fault.value !== undefined && (
        <p class="hint fault" role="alert">
          {fault.value}
        </p>
      )}
    </form>
  )
}

function FilterJson(props: {
  readonly filter: JsonObject
  readonly onChange: (filter: JsonObject) => void
}): JSX.Element {
  const text = useSignal(jsonText(props.filter))
  const fault = useSignal<string | undefined>(undefined)
  const written = JSON.stringify(props.filter)
  /** The filter that the text represents. */
  const known = useRef(written)
  // Before any further event: more may be typed before an effect after the next frame.
  useLayoutEffect(() => {
    if (written === known.current) return
    known.current = written
    text.value = jsonText(props.filter)
    fault.value = undefined
  }, [written])
  const change = (typed: string): void => {
    text.value = typed
    const parsed = parseFilter(typed)
    fault.value = 'fault' in parsed ? parsed.fault : undefined
    if ('fault' in parsed || JSON.stringify(parsed.filter) === known.current) return
    known.current = JSON.stringify(parsed.filter)
    props.onChange(parsed.filter)
  }
  return (
    <div class="filter-json">
      <JsonEditor label="Filter as JSON" text={text.value} onChange={change} />
      {fault.value !== undefined && <p class="hint fault">{fault.value}</p>}
    </div>
  )
}

function jsonText(filter: JsonObject): string {
  return isEmptyFilter(filter) ? '' : JSON.stringify(filter, null, 2)
}
