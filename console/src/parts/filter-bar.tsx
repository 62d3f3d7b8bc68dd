import { useSignal } from '@preact/signals'
import type { JSX } from 'preact'
import { useId, useLayoutEffect, useRef } from 'preact/hooks'
import type { JsonObject } from '../api/types.ts'
import {
  chipsOf,
  isEmptyFilter,
  type Operator,
  operandOf,
  operators,
  parseFilter,
  withCondition,
  withoutChip,
} from '../lib/filters.ts'
import { Button } from './basics.tsx'
import { JsonEditor } from './json-editor.tsx'

/** A filter as chips, with a form that adds a condition and a JSON editor. Chips and JSON stay in sync. */
export function FilterBar(props: {
  readonly filter: JsonObject
  /** Attribute paths to suggest. */
  readonly paths: readonly string[]
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
          paths={props.paths}
          onAdd={(path, operator, text) => {
            props.onChange(withCondition(props.filter, path, operator, operandOf(operator, text)))
            adding.value = false
          }}
        />
      )}
      {asJson.value && <FilterJson filter={props.filter} onChange={props.onChange} />}
    </section>
  )
}

function ConditionForm(props: {
  readonly paths: readonly string[]
  readonly onAdd: (path: string, operator: Operator, text: string) => void
}): JSX.Element {
  const id = useId()
  const path = useSignal('')
  const operator = useSignal<Operator>('$eq')
  const text = useSignal('')
  return (
    <form
      class="condition-form"
      onSubmit={(event) => {
        event.preventDefault()
        props.onAdd(path.value.trim(), operator.value, text.value)
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
        {[...props.paths, '$content_type', '$id', '$expires_at', '$version'].map((each) => (
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
          placeholder={operator.value.endsWith('in') ? 'a, b, c' : 'value'}
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
