import { useSignal } from '@preact/signals'
import type { JSX } from 'preact'
import { useLayoutEffect, useMemo, useRef } from 'preact/hooks'
import type { ShapeField, ShapeTexts } from '../lib/answer-shape.ts'
import { distanceMetrics, type Metric } from '../lib/distance.ts'
import { Field } from '../parts/basics.tsx'
import { replaceParams } from '../state/route.ts'
import { maxLimit } from '../state/search-query.ts'

/** Fields of a query that the search and its evaluation share. The address holds what they contain. */

export function ShapeFields(props: {
  readonly fields: readonly ShapeField[]
  readonly texts: ShapeTexts
  readonly faults: ShapeTexts
}): JSX.Element {
  const { fields, texts, faults } = props
  return (
    <>
      {fields.map(({ name, label, placeholder, hint, isLong = false }) => (
        <Field key={name} label={label} hint={hint} fault={faults[name]}>
          {({ id, describedBy }) => {
            const attributes = {
              id,
              class: 'mono',
              'aria-describedby': describedBy,
              spellcheck: false,
              placeholder,
              value: texts[name] ?? '',
              onInput: ({
                currentTarget: { value },
              }: {
                readonly currentTarget: { readonly value: string }
              }) => replaceParams({ [name]: value || undefined }),
            }
            return isLong ? <textarea {...attributes} /> : <input autocomplete="off" {...attributes} />
          }}
        </Field>
      ))}
    </>
  )
}

/** Fields that are hidden until they are wanted. Those that have something are named. */
export function MoreFields(props: Parameters<typeof ShapeFields>[0]): JSX.Element {
  const given = props.fields.filter(({ name }) => props.texts[name] !== undefined)
  const isOpen = useMemo(() => given.length > 0, [])
  return (
    <details class="shape" open={isOpen}>
      <summary>
        Shape the answer <span class="muted">{given.map(({ label }) => label.toLowerCase()).join(', ')}</span>
      </summary>
      <div class="form below">
        <ShapeFields {...props} />
      </div>
    </details>
  )
}

export function MetricField({ metric }: { readonly metric: Metric }): JSX.Element {
  return (
    <Field label="Metric">
      {({ id }) => (
        <select
          id={id}
          value={metric}
          onChange={(event) => replaceParams({ metric: event.currentTarget.value })}
        >
          {distanceMetrics.map((each) => (
            <option key={each} value={each}>
              {each}
            </option>
          ))}
        </select>
      )}
    </Field>
  )
}

/** Keeps the typed text, even while it is not a valid limit. */
export function LimitField(props: { readonly label: string; readonly limit: number }): JSX.Element {
  const { label, limit } = props
  const typed = useSignal(String(limit))
  const input = useRef<HTMLInputElement>(null)
  useLayoutEffect(() => {
    if (document.activeElement !== input.current) typed.value = String(limit)
  }, [limit])
  return (
    <Field label={label}>
      {({ id }) => (
        <input
          ref={input}
          id={id}
          type="number"
          min={1}
          max={maxLimit}
          value={typed.value}
          onInput={(event) => {
            typed.value = event.currentTarget.value
            replaceParams({ limit: typed.value })
          }}
        />
      )}
    </Field>
  )
}
