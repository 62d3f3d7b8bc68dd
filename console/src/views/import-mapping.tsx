import type { Signal } from '@preact/signals'
import type { JSX } from 'preact'
import type { Column } from '../../../src/import/columns.ts'
import {
  type AttributeMapping,
  isAttributeName,
  type Mapping,
  withRole,
} from '../../../src/import/mapping.ts'
import { type ValueType, valueTypes } from '../../../src/import/values.ts'
import type { Inspection } from '../import/messages.ts'
import { plural } from '../lib/format.ts'
import { Field, Panel } from '../parts/basics.tsx'
import { currentCollection } from '../state/collections.ts'

interface MappingProps {
  readonly inspection: Inspection
  readonly mapping: Signal<Mapping>
}

/** Selects the columns for the vector, the content and the id. */
export function RolesPanel({ inspection, mapping }: MappingProps): JSX.Element {
  const { columns } = inspection
  const vectors = columns.filter(({ isVector }) => isVector)
  const others = columns.filter(({ isVector }) => !isVector)
  const { contentType, contentTypeColumn } = mapping.value
  const choose = (role: 'vector' | 'content' | 'id') => (chosen: string) => {
    mapping.value = withRole(mapping.value, role, chosen, columns)
  }
  return (
    <Panel title="Column roles">
      <div class="fields">
        <Choice
          label="Vector"
          options={vectors}
          value={vectorColumn(columns, mapping.value)?.name ?? ''}
          none={vectors.length === 0 ? 'no column holds numbers' : 'choose a column'}
          fault={dimensionFault(inspection, mapping.value)}
          onChange={choose('vector')}
        />
        <Choice
          label="Content"
          options={others}
          value={mapping.value.content}
          none="none: points without a text"
          onChange={choose('content')}
        />
        <Field label="Content type">
          {({ id }) => (
            <select
              id={id}
              value={contentTypeColumn === '' ? contentType : 'column'}
              onChange={(event) => {
                const chosen = event.currentTarget.value
                if (chosen === 'column') return
                mapping.value = {
                  ...mapping.value,
                  contentTypeColumn: '',
                  contentType: chosen === 'Image' ? 'Image' : 'Text',
                }
              }}
            >
              {contentTypeColumn !== '' && <option value="column">from {contentTypeColumn}</option>}
              <option value="Text">Text</option>
              <option value="Image">Image</option>
            </select>
          )}
        </Field>
        <Choice
          label="Id"
          options={others}
          value={mapping.value.id}
          none="chosen by the server"
          onChange={choose('id')}
        />
      </div>
    </Panel>
  )
}

/** The column of the vector, or the group of its columns. */
function vectorColumn(columns: readonly Column[], { vector, isSplit }: Mapping): Column | undefined {
  return columns.find(({ name, members }) => (isSplit ? members?.[0] : name) === vector[0])
}

/** Why no row can be stored: the dimension is wrong. Undefined if it fits or is unknown. */
export function dimensionFault({ columns }: Inspection, mapping: Mapping): string | undefined {
  const needed = currentCollection.value?.dimension
  const length = vectorColumn(columns, mapping)?.dimension
  return needed === undefined || length === undefined || length === needed
    ? undefined
    : `The vector has ${length} numbers; the collection needs ${needed}.`
}

function Choice(props: {
  readonly label: string
  readonly options: readonly Column[]
  readonly value: string
  readonly none: string | undefined
  readonly fault?: string | undefined
  readonly onChange: (value: string) => void
}): JSX.Element {
  return (
    <Field label={props.label} fault={props.fault}>
      {({ id, describedBy }) => (
        <select
          id={id}
          aria-describedby={describedBy}
          value={props.value}
          onChange={(event) => props.onChange(event.currentTarget.value)}
        >
          {props.none !== undefined && <option value="">{props.none}</option>}
          {props.options.map(({ name }) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      )}
    </Field>
  )
}

const typeTexts: Readonly<Record<ValueType, string>> = {
  own: 'as in the file',
  text: 'text',
  number: 'number',
  boolean: 'true or false',
  date: 'date and time',
}

/** Selects which other columns to store as attributes, and their types. */
export function AttributesPanel({ inspection, mapping }: MappingProps): JSX.Element | null {
  const { attributes } = mapping.value
  const { columns, isText } = inspection
  if (attributes.length === 0) return null
  const change = (changed: AttributeMapping): void => {
    mapping.value = {
      ...mapping.value,
      attributes: attributes.map((each) => (each.column === changed.column ? changed : each)),
    }
  }
  const kept = attributes.filter((each) => each.kept).length
  return (
    <Panel title={`Attributes: ${kept} of ${plural(attributes.length, 'column')}`} class="flush titled">
      <div class="table-wrap bounded">
        <table class="stacking">
          <thead>
            <tr>
              <th scope="col">Column</th>
              <th scope="col">Type</th>
              <th scope="col">First values</th>
            </tr>
          </thead>
          <tbody>
            {attributes.map((each) => (
              <AttributeRow
                key={each.column}
                attribute={each}
                isText={isText}
                samples={columns.find(({ name }) => name === each.column)?.samples ?? []}
                onChange={change}
              />
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  )
}

const shownCharacters = 40

function AttributeRow(props: {
  readonly attribute: AttributeMapping
  readonly isText: boolean
  readonly samples: Column['samples']
  readonly onChange: (changed: AttributeMapping) => void
}): JSX.Element {
  const { attribute, samples } = props
  const { column, kept, type } = attribute
  const isPossible = isAttributeName(column)
  return (
    <tr class={kept ? '' : 'left-out'}>
      <td>
        <label class="check">
          <input
            type="checkbox"
            checked={kept}
            disabled={!isPossible}
            onChange={(event) => props.onChange({ ...attribute, kept: event.currentTarget.checked })}
          />
          {column}
        </label>
        {!isPossible && <p class="hint">An attribute name must not contain a dot or begin with $.</p>}
      </td>
      <td data-label="Type">
        <select
          aria-label={`Type of ${column}`}
          value={type}
          disabled={!kept}
          onChange={(event) =>
            props.onChange({
              ...attribute,
              type: valueTypes.find((each) => each === event.currentTarget.value)!,
            })
          }
        >
          {valueTypes
            .filter((each) => each !== 'own' || !props.isText)
            .map((each) => (
              <option key={each} value={each}>
                {typeTexts[each]}
              </option>
            ))}
        </select>
      </td>
      <td class="muted sample-cell" data-label="First values">
        {samples
          .map((text) => (text.length > shownCharacters ? `${text.slice(0, shownCharacters)}…` : text))
          .join(' · ')}
      </td>
    </tr>
  )
}
