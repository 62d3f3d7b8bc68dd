import { useSignal } from '@preact/signals'
import type { JSX } from 'preact'
import { useId } from 'preact/hooks'
import { collectionPath, messageOf } from '../api/client.ts'
import { download } from '../api/download.ts'
import type { CollectionInfo } from '../api/types.ts'
import { formatBytes, formatCount, plural } from '../lib/format.ts'
import { Button, Code, Fault, Page, Panel } from '../parts/basics.tsx'
import { Icon } from '../parts/icon.tsx'
import { useRun } from '../parts/use-run.ts'
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
  const take = useRun(async (signal) => {
    done.value = undefined
    busy.value = 'Waiting'
    const saved = await download(`${collectionPath(name)}/snapshots`, {
      suggestedName: `vicinal-${name}.snapshot`,
      signal,
      onProgress: (received) => {
        busy.value = formatBytes(received)
      },
    })
    const summary = await verifySnapshot(saved.content, {
      signal,
      onProgress: (bytes) => {
        busy.value = `${formatBytes(bytes)} verified`
      },
    })
    done.value = `Saved ${saved.name} and verified every byte: ${summaryText(summary)}.`
  })
  return (
    <li>
      <strong class="snapshot-name">{name}</strong>
      <span class="muted number">{plural(points, 'point')}</span>
      <span class="actions">
        {take.isRunning ? (
          <>
            <span class="number">{busy.value}</span>
            <Button onClick={take.stop}>Cancel</Button>
          </>
        ) : (
          <Button icon="download" label={`Download a snapshot of ${name}`} onClick={() => take.run()}>
            Download
          </Button>
        )}
      </span>
      <p class="snapshot-done" role="status">
        {done.value !== undefined && (
          <>
            <Icon name="check" size={16} /> {done.value}
          </>
        )}
      </p>
      <Fault text={take.fault} />
    </li>
  )
}

/** Verifies a saved file. The browser reads it and uploads nothing. */
function VerifyPanel(): JSX.Element {
  const id = useId()
  const busy = useSignal<string | undefined>(undefined)
  const done = useSignal<string | undefined>(undefined)
  const verify = useRun(async (signal, file: File) => {
    done.value = undefined
    busy.value = `Reading ${file.name}`
    try {
      const summary = await verifySnapshot(file, {
        signal,
        onProgress: (bytes) => {
          busy.value = `${formatBytes(bytes)} of ${formatBytes(file.size)} verified`
        },
      })
      done.value = `Every byte of ${file.name} is intact: ${summaryText(summary)}.`
    } catch (error) {
      throw new Error(`${file.name} cannot be used. ${messageOf(error)}`, { cause: error })
    }
  })
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
              if (file !== undefined) verify.run(file)
            }}
          />
        </label>
        <p role="status">
          {verify.isRunning && busy.value}
          {done.value !== undefined && (
            <span class="snapshot-done">
              <Icon name="check" size={16} /> {done.value}
            </span>
          )}
          {!verify.isRunning && done.value === undefined && verify.fault === undefined && (
            <span class="muted">Reads a saved file and detects any changed byte. Nothing is uploaded.</span>
          )}
        </p>
      </div>
      <Fault text={verify.fault} />
    </Panel>
  )
}
