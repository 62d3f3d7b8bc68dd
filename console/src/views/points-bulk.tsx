import { useSignal } from '@preact/signals'
import type { JSX } from 'preact'
import { useRef } from 'preact/hooks'
import { messageOf } from '../api/client.ts'
import { type BulkChange, type BulkResult, changeByFilter, listPoints } from '../api/points.ts'
import type { JsonObject, Point } from '../api/types.ts'
import { changeGroups } from '../lib/change-groups.ts'
import { chipsOf, isEmptyFilter } from '../lib/filters.ts'
import { formatCount, plural } from '../lib/format.ts'
import { AttributeForm, attributesIn, useAttributeDraft } from '../parts/attribute-form.tsx'
import { Button, Fault, Field } from '../parts/basics.tsx'
import { Dialog, isOpen } from '../parts/dialog.tsx'
import { report } from '../parts/toast.tsx'
import { collectionName } from '../state/route.ts'

/**
 * Changes or deletes all matching points: first a dry run that counts them, then the change itself. The change stops
 * when the user stops it or closes the dialog.
 */
export function BulkDialog(props: {
  readonly kind: 'update' | 'delete'
  readonly filter: JsonObject
  readonly onChanged: () => void
  readonly onClose: () => void
}): JSX.Element {
  const { kind, filter } = props
  const draft = useAttributeDraft()
  const unsetText = useSignal('')
  const planned = useSignal<Plan | undefined>(undefined)
  const done = useSignal<number | undefined>(undefined)
  const busy = useSignal(false)
  /** Whether points are being changed, and whether the user has stopped that. */
  const phase = useSignal<'ready' | 'changing' | 'stopping'>('ready')
  const fault = useSignal<string | undefined>(undefined)
  const dialog = useRef<HTMLDialogElement>(null)
  const collection = collectionName.value
  const attempt = async (work: () => Promise<void>): Promise<void> => {
    busy.value = true
    fault.value = undefined
    try {
      await work()
    } catch (error) {
      fault.value = messageOf(error)
    } finally {
      busy.value = false
    }
  }
  const plan = (): Promise<void> =>
    attempt(async () => {
      const change = changeOf(kind, filter, () => attributesIn(draft), unsetText.value)
      const [result, page] = await Promise.all([
        changeByFilter(collection, change, true),
        listPoints(
          collection,
          { filter, limit: shownExamples, cursor: undefined },
          new AbortController().signal,
        ),
      ])
      planned.value = { change, result, examples: page.points }
    })
  const carryOut = (): Promise<void> =>
    attempt(async () => {
      done.value = 0
      phase.value = 'changing'
      try {
        const result = await changeGroups(
          () => changeByFilter(collection, planned.value!.change, false),
          (changed) => {
            done.value = changed
          },
          () => phase.value === 'stopping' || !isOpen(dialog),
        )
        report(resultText(kind, result))
        dialog.current?.close()
      } catch (error) {
        // A closed dialog cannot show the error.
        if (!isOpen(dialog)) report(`Stopped after ${plural(done.value, 'point')}: ${messageOf(error)}`)
        throw error
      } finally {
        phase.value = 'ready'
        props.onChanged()
      }
    })
  const verb = kind === 'delete' ? 'Delete' : 'Change'
  return (
    <Dialog
      title={kind === 'delete' ? 'Delete matching points' : 'Update matching points'}
      element={dialog}
      onClose={props.onClose}
    >
      <div class="form">
        <div>
          <p class="field-label">Points of {collection}</p>
          <p class="tags">
            {isEmptyFilter(filter) ? (
              <span class="tag">no filter: all points</span>
            ) : (
              chipsOf(filter).map(({ text }) => (
                <span key={text} class="tag matched">
                  {text}
                </span>
              ))
            )}
          </p>
        </div>
        {kind === 'update' && planned.value === undefined && (
          <>
            <AttributeForm label="Attributes to set" draft={draft} />
            <Field label="Attributes to remove" hint="Names, separated by commas.">
              {({ id, describedBy }) => (
                <input
                  id={id}
                  aria-describedby={describedBy}
                  value={unsetText.value}
                  onInput={(event) => {
                    unsetText.value = event.currentTarget.value
                  }}
                />
              )}
            </Field>
          </>
        )}
        <div role="status">
          {planned.value !== undefined && <Examples plan={planned.value} />}
          {planned.value !== undefined && (
            <p class="notice">
              {verb} {plural(planned.value.result.changed, 'point')}
              {planned.value.result.more && ' or more'}? This cannot be undone.
              {done.value !== undefined && ` ${formatCount(done.value)} done.`}
            </p>
          )}
        </div>
        <Fault text={fault.value} />
        <div class="dialog-foot">
          {phase.value === 'ready' ? (
            <Button onClick={props.onClose}>Cancel</Button>
          ) : (
            <Button
              disabled={phase.value === 'stopping'}
              onClick={() => {
                phase.value = 'stopping'
              }}
            >
              {phase.value === 'stopping' ? 'Stopping' : 'Stop'}
            </Button>
          )}
          {planned.value === undefined ? (
            <Button kind="primary" disabled={busy.value} onClick={plan}>
              Count first
            </Button>
          ) : (
            <Button
              kind={kind === 'delete' ? 'danger' : 'primary'}
              disabled={busy.value || planned.value.result.changed === 0}
              onClick={carryOut}
            >
              {verb} {plural(planned.value.result.changed, 'point')}
            </Button>
          )}
        </div>
      </div>
    </Dialog>
  )
}

function resultText(kind: 'update' | 'delete', { changed, more }: BulkResult): string {
  const text = `${kind === 'delete' ? 'Deleted' : 'Changed'} ${plural(changed, 'point')}.`
  return more ? `Stopped. ${text} More points match.` : text
}

interface Plan {
  readonly change: BulkChange
  /** The result of the dry run. */
  readonly result: BulkResult
  readonly examples: readonly Point[]
}

const shownExamples = 3

/** Describes the planned change and shows the first points that it affects. */
function Examples({ plan }: { readonly plan: Plan }): JSX.Element {
  const { change, result, examples } = plan
  const names = Object.keys(change.set ?? {})
  const what = [
    ...(names.length === 0 ? [] : [`sets ${names.join(', ')}`]),
    ...(change.unset === undefined ? [] : [`removes ${change.unset.join(', ')}`]),
  ]
  return (
    <>
      {change.kind === 'update' && <p>The change {what.join(' and ')}.</p>}
      {examples.length > 0 && (
        <>
          <p class="muted">
            {result.changed > examples.length ? `The first ${examples.length} points:` : 'The points:'}
          </p>
          <ul class="bulk-examples">
            {examples.map(({ id, payload }) => (
              <li key={id}>
                <p class="content">{payload.content === '' ? id : payload.content}</p>
              </li>
            ))}
          </ul>
        </>
      )}
    </>
  )
}

function changeOf(
  kind: 'update' | 'delete',
  filter: JsonObject,
  readSet: () => JsonObject,
  unsetText: string,
): BulkChange {
  if (kind === 'delete') return { kind, filter }
  const set = readSet()
  const unset = unsetText
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '')
  if (isEmptyFilter(set) && unset.length === 0) throw new Error('Enter an attribute to set or to remove.')
  return {
    kind,
    filter,
    ...(isEmptyFilter(set) ? {} : { set }),
    ...(unset.length === 0 ? {} : { unset }),
  }
}
