import { type Signal, useSignal } from '@preact/signals'
import type { JSX } from 'preact'
import { useRef } from 'preact/hooks'
import type { JsonObject } from '../api/types.ts'
import {
  type AttributeRow,
  type AttributeType,
  attributeRows,
  attributesOf,
  attributeTypes,
} from '../lib/attribute-rows.ts'
import { parseFilter } from '../lib/filters.ts'
import { Button } from './basics.tsx'
import { JsonEditor } from './json-editor.tsx'

/** The input of an attribute form. It is parsed only when it is saved. */
export interface AttributeDraft {
  readonly rows: Signal<readonly AttributeRow[]>
  /** All attributes as JSON text while the JSON editor is open; otherwise undefined. */
  readonly json: Signal<string | undefined>
}

export function useAttributeDraft(attributes: JsonObject = {}): AttributeDraft {
  return { rows: useSignal(attributeRows(attributes)), json: useSignal<string | undefined>(undefined) }
}

/** @throws Error that says what is invalid */
export function attributesIn({ rows, json }: AttributeDraft): JsonObject {
  if (json.value === undefined) return attributesOf(rows.value)
  const parsed = parseFilter(json.value)
  if ('fault' in parsed) throw new Error(`The attributes are not valid JSON: ${parsed.fault}`)
  return parsed.filter
}

/** Attributes as a table of names, types and values, or as JSON. */
export function AttributeForm(props: {
  readonly label: string
  readonly draft: AttributeDraft
}): JSX.Element {
  const { label, draft } = props
  const fault = useSignal<string | undefined>(undefined)
  const isJson = draft.json.value !== undefined
  /** Carries the input over to the other form. Invalid input must be fixed first. */
  const toggle = (): void => {
    try {
      const attributes = attributesIn(draft)
      const isEmpty = Object.keys(attributes).length === 0
      if (isJson) draft.rows.value = attributeRows(attributes)
      draft.json.value = isJson ? undefined : isEmpty ? '' : JSON.stringify(attributes, null, 2)
      fault.value = undefined
    } catch (error) {
      fault.value = (error as Error).message
    }
  }
  return (
    <fieldset class="attribute-form">
      <legend class="field-label">{label}</legend>
      {isJson ? (
        <JsonEditor
          label={`${label} as JSON`}
          text={draft.json.value ?? ''}
          onChange={(text) => {
            draft.json.value = text
          }}
        />
      ) : (
        <AttributeTable rows={draft.rows} />
      )}
      {fault.value !== undefined && (
        <p class="hint fault" role="alert">
          {fault.value}
        </p>
      )}
      <div class="actions">
        {!isJson && (
          <Button
            icon="plus"
            onClick={() => {
              draft.rows.value = [...draft.rows.value, { name: '', type: 'text', text: '' }]
            }}
          >
            Add attribute
          </Button>
        )}
        <Button kind="quiet" pressed={isJson} onClick={toggle}>
          JSON
        </Button>
      </div>
    </fieldset>
  )
}

function AttributeTable({ rows }: { readonly rows: Signal<readonly AttributeRow[]> }): JSX.Element | null {
  const body = useRef<HTMLUListElement>(null)
  if (rows.value.length === 0) return null
  return (
    <ul class="attribute-rows" ref={body}>
      {rows.value.map((row, index) => (
        <AttributeRowForm
          key={index}
          row={row}
          onChange={(changed) => {
            rows.value = rows.value.with(index, changed)
          }}
          onRemove={() => {
            rows.value = rows.value.toSpliced(index, 1)
          }}
        />
      ))}
    </ul>
  )
}

const placeholders: Readonly<Record<AttributeType, string>> = {
  text: 'any text',
  number: '12.5',
  'true or false': 'true',
  'date and time': '2026-01-31T12:00:00Z',
  location: '52.5, 13.4',
  'list or map': '["a", "b"]',
}

function AttributeRowForm(props: {
  readonly row: AttributeRow
  readonly onChange: (changed: AttributeRow) => void
  readonly onRemove: () => void
}): JSX.Element {
  const { row, onChange } = props
  const name = row.name === '' ? 'new attribute' : row.name
  return (
    <li>
      <input
        aria-label="Name"
        placeholder="name"
        spellcheck={false}
        autocomplete="off"
        value={row.name}
        onInput={(event) => onChange({ ...row, name: event.currentTarget.value })}
      />
      <select
        aria-label={`Type of ${name}`}
        value={row.type}
        onChange={(event) => {
          const type = attributeTypes.find((each) => each === event.currentTarget.value)!
          onChange({ ...row, type })
        }}
      >
        {attributeTypes.map((type) => (
          <option key={type} value={type}>
            {type}
          </option>
        ))}
      </select>
      {row.type === 'text' ? (
        <textarea
          rows={1}
          aria-label={`Value of ${name}`}
          placeholder={placeholders.text}
          value={row.text}
          onInput={(event) => onChange({ ...row, text: event.currentTarget.value })}
        />
      ) : (
        <input
          aria-label={`Value of ${name}`}
          placeholder={placeholders[row.type]}
          spellcheck={false}
          autocomplete="off"
          value={row.text}
          onInput={(event) => onChange({ ...row, text: event.currentTarget.value })}
        />
      )}
      <Button kind="quiet" icon="close" label={`Remove ${name}`} onClick={props.onRemove} />
    </li>
  )
}
