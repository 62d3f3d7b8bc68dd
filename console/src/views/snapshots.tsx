import { useSignal } from '@preact/signals'
import type { JSX } from 'preact'
import { useId, useRef } from 'preact/hooks'
import { collectionPath, isAbort, messageOf } from '../api/client.ts'
import { download } from '../api/download.ts'
import type { CollectionInfo } from '../api/types.ts'
import { formatBytes, formatCount, plural } from '../lib/format.ts'
import { Button, Code, Fault, Page, Panel } from '../parts/basics.tsx'
import { Icon } from '../parts/icon.tsx'
import { useUnmount } from '../parts/use-unmount.ts'
import type { SnapshotSummary } from '../snapshot/check.ts'
import { verifySnapshot } from '../snapshot/verify.ts'
import { collections, collectionsFault } from '../state/collections.ts'

export function Snapshots(): JSX.Element {
  return (
    <Page title="Snapshots" lead="A snapshot is one file with all points of a collection at one moment.">
      <Fault text={collectionsFault.value} />
      {collections.value !== undefined && (
        <Panel title="Create" class="flush titled">
          <ul class="snapshot-list">
            {collections.value.map((each) => (
              <SnapshotRow key={each.name} collection={each} />
            ))}
          </ul>
        </Panel>
      )}
      <VerifyPanel />
      <Panel title="On the command line">
        <p class="muted">
          Use these commands for automated backups of all collections and to restore. Restore into an empty
          directory, with the service stopped.
        </p>
        <div class="below">
          <Code
            label="the commands"
            text={`vicinal backup /var/backups
vicinal backup verify /var/backups
vicinal restore /var/backups --data-dir ./restored`}
          />
        </div>
      </Panel>
    </Page>
  )
}

function summaryText({ points, dimension, bytes }: SnapshotSummary): string {
  const vectors = dimension === 0 ? '' : ` of ${formatCount(dimension)} dimensions`
  return `${plural(points, 'point')}${vectors}, ${formatBytes(bytes)}`
}

/** Downloads a snapshot, then reads the saved file to verify it. */
function SnapshotRow({ collection }: { readonly collection: CollectionInfo }): JSX.Element {
  const { name, points } = collection
  const busy = useSignal<string | undefined>(undefined)
  const done = useSignal<string | undefined>(undefined)
  const fault = useSignal<string | undefined>(undefined)
  const running = useRef<AbortController | undefined>(undefined)
  useUnmount(() => running.current?.abort())
  const take = async (): Promise<void> => {
    const stop = new AbortController()
    running.current = stop
    fault.value = undefined
    done.value = undefined
    busy.value = 'Waiting'
    try {
      const saved = await download(`${collectionPath(name)}/snapshots`, {
        suggestedName: `vicinal-${name}.snapshot`,
        signal: stop.signal,
        onProgress: (received) => {
          busy.value = formatBytes(received)
        },
      })
      const summary = await verifySnapshot(saved.content, {
        signal: stop.signal,
        onProgress: (bytes) => {
          busy.value = `${formatBytes(bytes)} verified`
        },
      })
      done.value = `Saved ${saved.name} and verified every byte: ${summaryText(summary)}.`
    } catch (error) {
      if (!isAbort(error)) fault.value = messageOf(error)
    } finally {
      busy.value = undefined
    }
  }
  return (
    <li>
      <strong class="snapshot-name">{name}</strong>
      <span class="muted number">{plural(points, 'point')}</span>
      <span class="actions">
        {busy.value === undefined ? (
          <Button icon="download" label={`Download a snapshot of ${name}`} onClick={take}>
            Download
          </Button>
        ) : (
          <>
            <span class="number">{busy.value}</span>
            <Button onClick={() => running.current?.abort()}>Cancel</Button>
          </>
        )}
      </span>
      <p class="snapshot-done" role="status">
        {done.value !== undefined && (
          <>
            <Icon name="check" size={16} /> {done.value}
          </>
        )}
      </p>
      <Fault text={fault.value} />
    </li>
  )
}

/** Verifies a saved file. The browser reads it and uploads nothing. */
function VerifyPanel(): JSX.Element {
  const id = useId()
  const busy = useSignal<string | undefined>(undefined)
  const done = useSignal<string | undefined>(undefined)
  const fault = useSignal<string | undefined>(undefined)
  const running = useRef<AbortController | undefined>(undefined)
  useUnmount(() => running.current?.abort())
  const verify = async (file: File): Promise<void> => {
    running.current?.abort()
    const stop = new AbortController()
    running.current = stop
    done.value = undefined
    fault.value = undefined
    busy.value = `Reading ${file.name}`
    try {
      const summary = await verifySnapshot(file, {
        signal: stop.signal,
        onProgress: (bytes) => {
          busy.value = `${formatBytes(bytes)} of ${formatBytes(file.size)} verified`
        },
      })
      done.value = `Every byte of ${file.name} is intact: ${summaryText(summary)}.`
    } catch (error) {
      if (!isAbort(error)) fault.value = `${file.name} cannot be used. ${messageOf(error)}`
    } finally {
      if (running.current === stop) busy.value = undefined
    }
  }
  return (
    <Panel title="Verify">
      <div class="verify">
        <label for={id} class="button file-button">
          Choose a snapshot
          <input
            id={id}
            type="file"
            class="visually-hidden"
            accept=".snapshot"
            onChange={(event) => {
              const file = event.currentTarget.files?.[0]
              event.currentTarget.value = ''
              if (file !== undefined) verify(file)
            }}
          />
        </label>
        <p role="status">
          {busy.value}
          {done.value !== undefined && (
            <span class="snapshot-done">
              <Icon name="check" size={16} /> {done.value}
            </span>
          )}
          {busy.value === undefined && done.value === undefined && fault.value === undefined && (
            <span class="muted">Reads a saved file and detects any changed byte. Nothing is uploaded.</span>
          )}
        </p>
      </div>
      <Fault text={fault.value} />
    </Panel>
  )
}
