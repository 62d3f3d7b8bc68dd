import '../styles/import.css'
import { useSignal } from '@preact/signals'
import type { JSX } from 'preact'
import { useEffect, useId } from 'preact/hooks'
import { acceptedFiles } from '../import/formats.ts'
import { guessMapping, type Mapping } from '../import/mapping.ts'
import { formatBytes, formatCount } from '../lib/format.ts'
import { Button, Fault, Page, Panel } from '../parts/basics.tsx'
import { Icon } from '../parts/icon.tsx'
import { useUnmount } from '../parts/use-unmount.ts'
import { loadCollections } from '../state/collections.ts'
import { ImportRun } from '../state/import-run.ts'
import { collectionName, hrefOf } from '../state/route.ts'
import { AttributesPanel, dimensionFault, RolesPanel } from './import-mapping.tsx'
import { PreviewPanel } from './import-preview.tsx'
import { ImportProgress } from './import-progress.tsx'

export function Import(): JSX.Element {
  const run = useSignal<ImportRun | undefined>(undefined)
  useUnmount(() => run.value?.close())
  const open = (file: File): void => {
    run.value?.close()
    run.value = new ImportRun(file, collectionName.value)
  }
  const phase = run.value?.phase.value
  return (
    <Page
      title="Import"
      lead={
        <>
          Points from a file into <strong>{collectionName.value}</strong>
        </>
      }
    >
      {run.value === undefined || phase === 'refused' ? (
        <>
          <DropZone onFile={open} />
          <Fault
            text={phase === 'refused' ? `${run.value!.file.name}: ${run.value!.message.value}` : undefined}
          />
          <Formats />
        </>
      ) : (
        <Opened
          key={run.value.file.name}
          run={run.value}
          onOther={() => {
            run.value?.close()
            run.value = undefined
          }}
        />
      )}
    </Page>
  )
}

function Opened({ run, onOther }: { readonly run: ImportRun; readonly onOther: () => void }): JSX.Element {
  const phase = run.phase.value
  useEffect(() => {
    if (['done', 'stopped', 'failed'].includes(phase)) loadCollections()
  }, [phase])
  if (phase === 'reading') {
    return (
      <Panel>
        <p role="status">Reading {run.file.name}…</p>
      </Panel>
    )
  }
  if (phase === 'ready') return <Prepare run={run} onOther={onOther} />
  return <ImportProgress run={run} onOther={onOther} />
}

/** The choices that the user makes before anything is stored. */
function Prepare({ run, onOther }: { readonly run: ImportRun; readonly onOther: () => void }): JSX.Element {
  const inspection = run.inspection.value!
  const mapping = useSignal<Mapping>(guessMapping(inspection.records, inspection.isTyped))
  const interrupted = run.interrupted.value
  const isWrong = dimensionFault(inspection, mapping.value) !== undefined
  return (
    <>
      {interrupted !== undefined && (
        <div class="notice with-actions">
          <p>
            An import of this file was interrupted after {inspection.unit} {formatCount(interrupted.place)},
            with {formatCount(interrupted.stored)} points stored.
          </p>
          <Button kind="primary" icon="play" onClick={() => run.resumeInterrupted()}>
            Resume from there
          </Button>
        </div>
      )}
      <RolesPanel inspection={inspection} mapping={mapping} />
      <AttributesPanel inspection={inspection} mapping={mapping} />
      <PreviewPanel inspection={inspection} mapping={mapping.value} />
      {isWrong && (
        <p class="notice">
          No row fits the collection {run.collection}. Choose another collection in the side bar, or{' '}
          <a href={hrefOf('collections')}>create one</a> for these vectors.
        </p>
      )}
      <div class="actions">
        <Button
          kind={interrupted === undefined ? 'primary' : 'plain'}
          icon="import"
          disabled={mapping.value.vector === '' || isWrong}
          onClick={() => run.start(mapping.value)}
        >
          Import {run.file.name}
        </Button>
        <Button onClick={onOther}>Choose another file</Button>
        <span class="muted">
          {inspection.format}, {formatBytes(run.file.size)}
        </span>
      </div>
    </>
  )
}

function DropZone({ onFile }: { readonly onFile: (file: File) => void }): JSX.Element {
  const over = useSignal(false)
  const id = useId()
  return (
    <label
      for={id}
      class={over.value ? 'drop-zone over' : 'drop-zone'}
      onDragOver={(event) => {
        event.preventDefault()
        over.value = true
      }}
      onDragLeave={() => {
        over.value = false
      }}
      onDrop={(event) => {
        event.preventDefault()
        over.value = false
        const file = event.dataTransfer?.files[0]
        if (file !== undefined) onFile(file)
      }}
    >
      <Icon name="import" size={28} />
      <strong>Drop a file here, or choose one</strong>
      <span class="muted">JSON lines, CSV, Parquet or NumPy. Any size: the file is streamed.</span>
      <input
        id={id}
        type="file"
        class="visually-hidden"
        accept={acceptedFiles}
        onChange={(event) => {
          const file = event.currentTarget.files?.[0]
          // Lets the user choose the same file again.
          event.currentTarget.value = ''
          if (file !== undefined) onFile(file)
        }}
      />
    </label>
  )
}

const formats = [
  [
    'JSON lines',
    '.jsonl',
    'One object per line with its vector, text and attributes, as written by vicinal export.',
  ],
  [
    'CSV',
    '.csv, .tsv',
    'The first row names the columns. The vector is one column of lists, or one column per number.',
  ],
  ['Parquet', '.parquet', 'A column of lists is the vector; the other columns keep their types.'],
  [
    'NumPy',
    '.npy',
    'A two-dimensional array: each row is a vector, and the row number becomes an attribute.',
  ],
] as const

function Formats(): JSX.Element {
  return (
    <Panel title="File formats">
      <dl class="format-list">
        {formats.map(([name, ends, text]) => (
          <div key={name}>
            <dt>
              {name} <span class="muted mono">{ends}</span>
            </dt>
            <dd class="muted">{text}</dd>
          </div>
        ))}
      </dl>
    </Panel>
  )
}
