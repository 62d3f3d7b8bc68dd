import { type Signal, useSignal } from '@preact/signals'
import type { JSX } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { isAbort, messageOf } from '../api/client.ts'
import { deletePoint, getPoint, patchPoint } from '../api/points.ts'
import type { JsonObject, Payload, Point } from '../api/types.ts'
import { typeOf } from '../lib/attribute-rows.ts'
import { pathsOf, plainText, valueAt } from '../lib/filters.ts'
import { formatCount, formatMoment } from '../lib/format.ts'
import { vectorText } from '../lib/vector-text.ts'
import { hrefOf } from '../state/route.ts'
import { AttributeForm, attributesIn, useAttributeDraft } from './attribute-form.tsx'
import { Button, CopyButton, Fault, Field } from './basics.tsx'
import { Dialog, FormDialog, isOpen } from './dialog.tsx'
import { PointContent } from './point-content.tsx'
import { report } from './toast.tsx'
import { VectorStrip } from './vector-strip.tsx'

/** All details of a point. Its content and attributes can be edited. */
export function PointDialog(props: {
  readonly collection: string
  readonly id: string
  /** Called with the new payload when the point was changed, and with undefined when it was deleted. */
  readonly onChange: (payload: Payload | undefined) => void
  readonly onClose: () => void
}): JSX.Element {
  const { collection, id } = props
  const point = useSignal<Point | undefined>(undefined)
  const fault = useSignal<string | undefined>(undefined)
  const deleting = useSignal(false)
  const element = useRef<HTMLDialogElement>(null)
  const load = async (signal?: AbortSignal): Promise<void> => {
    try {
      point.value = await getPoint(collection, id, signal)
    } catch (error) {
      if (!isAbort(error)) fault.value = messageOf(error)
    }
  }
  useEffect(() => {
    const stop = new AbortController()
    load(stop.signal)
    return () => stop.abort()
  }, [collection, id])
  return (
    <Dialog title="Point" side element={element} onClose={props.onClose}>
      <p class="point-id mono">
        {id} <CopyButton text={() => id} label="Copy id" />
      </p>
      <Fault text={fault.value} />
      {point.value !== undefined && (
        <>
          <PointContent payload={point.value.payload} whole />
          <dl class="facts">
            <div>
              <dt>Content type</dt>
              <dd>{point.value.payload.content_type}</dd>
            </div>
            {point.value.version !== undefined && (
              <div>
                <dt>Version</dt>
                <dd class="number">{point.value.version}</dd>
              </div>
            )}
            {point.value.payload.expires_at !== undefined && (
              <div>
                <dt>Expires</dt>
                <dd>{formatMoment(new Date(point.value.payload.expires_at))}</dd>
              </div>
            )}
          </dl>
          <AttributeEditor
            key={point.value.version}
            collection={collection}
            point={point.value}
            isShown={() => isOpen(element)}
            onSaved={async () => {
              await load()
              props.onChange(point.value?.payload)
            }}
          />
          <VectorPart vector={point.value.vector ?? []} />
          <div class="dialog-foot spread">
            <Button
              kind="danger"
              icon="trash"
              onClick={() => {
                deleting.value = true
              }}
            >
              Delete
            </Button>
            <a class="button" href={hrefOf('search', { by: 'id', id })} onClick={props.onClose}>
              Find similar
            </a>
          </div>
        </>
      )}
      {deleting.value && (
        <FormDialog
          title="Delete this point?"
          submit="Delete point"
          kind="danger"
          onSubmit={async () => {
            await deletePoint(collection, id)
            report('Deleted the point.')
            props.onChange(undefined)
            element.current?.close()
          }}
          onClose={() => {
            deleting.value = false
          }}
        >
          <p>
            This deletes <code>{id}</code> with its content and vector, and cannot be undone.
          </p>
        </FormDialog>
      )}
    </Dialog>
  )
}

function VectorPart({ vector }: { readonly vector: readonly number[] }): JSX.Element {
  return (
    <section class="vector-part">
      <div class="panel-head">
        <h3>Vector, {formatCount(vector.length)} dimensions</h3>
        <CopyButton text={() => `[${vectorText(vector)}]`} label="Copy vector" />
      </div>
      <VectorStrip vector={vector} />
    </section>
  )
}

/** Saves only the changes, and only if nobody else has changed the point meanwhile. */
function AttributeEditor(props: {
  readonly collection: string
  readonly point: Point
  /** Whether the user still sees the editor's dialog. */
  readonly isShown: () => boolean
  readonly onSaved: () => Promise<void>
}): JSX.Element {
  const { collection, point } = props
  const before = point.payload.attributes ?? {}
  const fault = useSignal<string | undefined>(undefined)
  const editing = useSignal(false)
  const save = async (attributes: JsonObject, content: string): Promise<void> => {
    const changes = {
      ...differenceOf(before, attributes),
      ...(content === point.payload.content ? {} : { content }),
    }
    const isChanged = Object.keys(changes).length > 0
    try {
      if (isChanged) {
        const when = point.version === undefined ? {} : { when: { version: point.version } }
        await patchPoint(collection, point.id, { ...changes, ...when })
      }
      // The new version replaces this editor, and would close a form that the user has opened again meanwhile.
      await props.onSaved()
      if (isChanged) report('Saved the changes.')
      editing.value = false
    } catch (error) {
      const message = messageOf(error)
      if (props.isShown() && editing.value) fault.value = message
      else report(`Edit point: ${message}`)
    }
  }
  if (!editing.value) {
    return (
      <section>
        <div class="panel-head">
          <h3>Attributes</h3>
          <div class="actions">
            <CopyButton text={() => JSON.stringify(before, null, 2)} label="Copy attributes as JSON" />
            <Button
              kind="quiet"
              icon="edit"
              onClick={() => {
                editing.value = true
              }}
            >
              Edit
            </Button>
          </div>
        </div>
        <AttributeList attributes={before} />
      </section>
    )
  }
  return (
    <EditForm
      point={point}
      fault={fault}
      onSave={save}
      onCancel={() => {
        editing.value = false
        fault.value = undefined
      }}
    />
  )
}

function EditForm(props: {
  readonly point: Point
  readonly fault: Signal<string | undefined>
  readonly onSave: (attributes: JsonObject, content: string) => Promise<void>
  readonly onCancel: () => void
}): JSX.Element {
  const { point, fault } = props
  const draft = useAttributeDraft(point.payload.attributes)
  const content = useSignal(point.payload.content)
  const busy = useSignal(false)
  const save = async (): Promise<void> => {
    busy.value = true
    fault.value = undefined
    try {
      await props.onSave(attributesIn(draft), content.value)
    } catch (error) {
      fault.value = messageOf(error)
    } finally {
      busy.value = false
    }
  }
  return (
    <form
      class="form"
      onSubmit={(event) => {
        event.preventDefault()
        save()
      }}
    >
      <Field label="Content" hint="The vector does not change.">
        {({ id, describedBy }) => (
          <textarea
            id={id}
            aria-describedby={describedBy}
            value={content.value}
            onInput={(event) => {
              content.value = event.currentTarget.value
            }}
          />
        )}
      </Field>
      <AttributeForm label="Attributes" draft={draft} />
      <Fault text={fault.value} />
      <div class="actions">
        <Button type="submit" kind="primary" disabled={busy.value}>
          Save
        </Button>
        <Button onClick={props.onCancel}>Cancel</Button>
      </div>
    </form>
  )
}

/** Every value with its path and type. */
function AttributeList({ attributes }: { readonly attributes: JsonObject }): JSX.Element {
  const paths = pathsOf(attributes)
  if (paths.length === 0) return <p class="muted">None</p>
  return (
    <table class="attribute-list">
      <thead class="visually-hidden">
        <tr>
          <th scope="col">Attribute</th>
          <th scope="col">Value</th>
          <th scope="col">Type</th>
        </tr>
      </thead>
      <tbody>
        {paths.map((path) => {
          const value = valueAt(attributes, path)!
          return (
            <tr key={path}>
              <th scope="row" class="attribute-name">
                {path}
              </th>
              <td class="attribute-value">{plainText(value)}</td>
              <td class="attribute-value attribute-type muted">{typeOf(value)}</td>
            </tr>
          )
        })}
      </tbody>
    </table>
  )
}

/** The patch from `before` to `after`: attributes to set and names to unset. Unchanged attributes are not sent. */
function differenceOf(
  before: JsonObject,
  after: JsonObject,
): { readonly set?: JsonObject; readonly unset?: string[] } {
  const changed = Object.entries(after).filter(
    ([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name]),
  )
  const unset = Object.keys(before).filter((name) => !(name in after))
  return {
    ...(changed.length === 0 ? {} : { set: Object.fromEntries(changed) }),
    ...(unset.length === 0 ? {} : { unset }),
  }
}
