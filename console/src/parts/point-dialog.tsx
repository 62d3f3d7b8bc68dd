import { useSignal } from '@preact/signals'
import type { JSX } from 'preact'
import { useEffect } from 'preact/hooks'
import { isAbort, messageOf } from '../api/client.ts'
import { deletePoint, getPoint, patchPoint } from '../api/points.ts'
import type { JsonObject, Point } from '../api/types.ts'
import { parseFilter } from '../lib/filters.ts'
import { formatCount } from '../lib/format.ts'
import { vectorText } from '../lib/vector-text.ts'
import { isExtended } from '../state/capabilities.ts'
import { hrefOf } from '../state/route.ts'
import { Button, Code, CopyButton, Fault } from './basics.tsx'
import { Dialog, FormDialog } from './dialog.tsx'
import { JsonEditor } from './json-editor.tsx'
import { PointContent } from './point-content.tsx'
import { report } from './toast.tsx'
import { VectorStrip } from './vector-strip.tsx'

/** A point with all that it has; its attributes can be edited. */
export function PointDialog(props: {
  readonly collection: string
  readonly id: string
  /** Called when the point was changed or deleted. */
  readonly onChange: () => void
  readonly onClose: () => void
}): JSX.Element {
  const { collection, id } = props
  const point = useSignal<Point | undefined>(undefined)
  const fault = useSignal<string | undefined>(undefined)
  const deleting = useSignal(false)
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
    <Dialog title="Point" side onClose={props.onClose}>
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
                <dd>{new Date(point.value.payload.expires_at).toLocaleString()}</dd>
              </div>
            )}
          </dl>
          {isExtended.value && (
            <AttributeEditor
              key={point.value.version}
              collection={collection}
              point={point.value}
              onSaved={() => {
                load()
                props.onChange()
              }}
            />
          )}
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
            props.onChange()
            props.onClose()
          }}
          onClose={() => {
            deleting.value = false
          }}
        >
          <p>
            This deletes <code>{id}</code> with its content and vector. It cannot be undone.
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

/** Saves what differs, on the condition that nobody else has changed the point meanwhile. */
function AttributeEditor(props: {
  readonly collection: string
  readonly point: Point
  readonly onSaved: () => void
}): JSX.Element {
  const { collection, point } = props
  const before = point.payload.attributes ?? {}
  const text = useSignal(JSON.stringify(before, null, 2))
  const fault = useSignal<string | undefined>(undefined)
  const editing = useSignal(false)
  const save = async (): Promise<void> => {
    const parsed = parseFilter(text.value)
    if ('fault' in parsed) {
      fault.value = parsed.fault
      return
    }
    try {
      await patchPoint(collection, point.id, {
        ...differenceOf(before, parsed.filter),
        ...(point.version === undefined ? {} : { when: { version: point.version } }),
      })
      report('Saved the attributes.')
      props.onSaved()
    } catch (error) {
      fault.value = messageOf(error)
    }
  }
  if (!editing.value) {
    return (
      <section>
        <div class="panel-head">
          <h3>Attributes</h3>
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
        {Object.keys(before).length === 0 ? (
          <p class="muted">None</p>
        ) : (
          <Code text={JSON.stringify(before, null, 2)} label="attributes" />
        )}
      </section>
    )
  }
  return (
    <section class="form">
      <h3>Attributes</h3>
      <JsonEditor
        label="Attributes as JSON"
        text={text.value}
        onChange={(typed) => {
          text.value = typed
        }}
      />
      <Fault text={fault.value} />
      <div class="actions">
        <Button kind="primary" onClick={save}>
          Save attributes
        </Button>
        <Button
          onClick={() => {
            editing.value = false
          }}
        >
          Cancel
        </Button>
      </div>
    </section>
  )
}

/** A patch names what is set and what goes; attributes that stayed the same are not sent. */
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
