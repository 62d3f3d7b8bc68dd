import { useSignal } from '@preact/signals'
import type { JSX } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { collectionPath, isAbort, messageOf } from '../api/client.ts'
import { download } from '../api/download.ts'
import type { CollectionInfo } from '../api/types.ts'
import { formatBytes, formatCount } from '../lib/format.ts'
import { Button, Code, Fault, Page, Panel } from '../parts/basics.tsx'
import { report } from '../parts/toast.tsx'
import { collections, collectionsFault } from '../state/collections.ts'
import { collectionName } from '../state/route.ts'

export function Snapshots(): JSX.Element {
  return (
    <Page title="Snapshots" lead="All points of a collection, as they are at one moment, in one file.">
      <Fault text={collectionsFault.value} />
      {collections.value !== undefined && (
        <Panel class="flush">
          <ul class="snapshot-list">
            {collections.value.map((each) => (
              <SnapshotRow key={each.name} collection={each} />
            ))}
          </ul>
        </Panel>
      )}
      <Panel title="On the command line">
        <p class="muted">
          Checks every byte while it downloads. Use it for backups, and for large collections.
        </p>
        <div class="below">
          <Code
            label="the commands"
            text={`vicinal snapshot create /var/backups${collectionName.value === 'default' ? '' : ` --collection ${collectionName.value}`}
vicinal snapshot verify /var/backups/vicinal-….snapshot
vicinal snapshot restore /var/backups/vicinal-….snapshot --data-dir ./restored`}
          />
        </div>
      </Panel>
    </Page>
  )
}

function SnapshotRow({ collection }: { readonly collection: CollectionInfo }): JSX.Element {
  const { name, points } = collection
  const bytes = useSignal<number | undefined>(undefined)
  const fault = useSignal<string | undefined>(undefined)
  const running = useRef<AbortController | undefined>(undefined)
  useEffect(() => () => running.current?.abort(), [])
  const take = async (): Promise<void> => {
    const stop = new AbortController()
    running.current = stop
    fault.value = undefined
    try {
      bytes.value = 0
      const file = await download(`${collectionPath(name)}/snapshots`, {
        suggestedName: `vicinal-${name}.snapshot`,
        signal: stop.signal,
        onProgress: (received) => {
          bytes.value = received
        },
      })
      report(`Saved ${file}, ${formatBytes(bytes.value ?? 0)}.`)
    } catch (error) {
      if (!isAbort(error)) fault.value = messageOf(error)
    } finally {
      bytes.value = undefined
    }
  }
  return (
    <li>
      <strong class="snapshot-name">{name}</strong>
      <span class="muted number">{formatCount(points)} points</span>
      <span class="actions">
        {bytes.value === undefined ? (
          <Button icon="download" label={`Download a snapshot of ${name}`} onClick={take}>
            Download
          </Button>
        ) : (
          <>
            <span class="number">{formatBytes(bytes.value)}</span>
            <Button onClick={() => running.current?.abort()}>Cancel</Button>
          </>
        )}
      </span>
      <Fault text={fault.value} />
    </li>
  )
}
