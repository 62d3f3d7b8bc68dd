import '../styles/import.css'
import { useSignal } from '@preact/signals'
import type { JSX } from 'preact'
import { useEffect, useId } from 'preact/hooks'
import { acceptedFiles } from '../import/formats.ts'
import { guessMapping, type Mapping } from '../import/mapping.ts'
import { formatBytes, formatCount } from '../lib/format.ts'
import { Button, Fault, Page, Panel } from '../parts/basics.tsx'
import { Icon } from '../parts/icon.tsx'
import { loadCollections } from '../state/collections.ts'
import { ImportRun } from '../state/import-run.ts'
import { collectionName, hrefOf } from '../state/route.ts'
import { AttributesPanel, dimensionFault, RolesPanel } from './import-mapping.tsx'
import { PreviewPanel } from './import-preview.tsx'
import { ImportProgress } from './import-progress.tsx'

export function Import(): JSX.Element {
  const run = useSignal<ImportRun | undefined>(undefined)
  useEffect(() => () => run.value?.close(), [])
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

/** What is decided before anything is stored. */
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
          <Button kind="primary" icon="play" onClick={() => run.goOn()}>
            Go on from there
          </Button>
        </div>
      )}
      <RolesPanel inspection={inspection} mapping={mapping} />
      <AttributesPanel inspection={inspection} mapping={mapping} />
      <PreviewPanel inspection={inspection} mapping={mapping.value} />
      {isWrong && (
        <p class="notice">
          No row fits {run.collection}. Choose another collection at the side, or{' '}
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
      <span class="muted">JSON lines, CSV, Parquet or NumPy. Any size: it is read as it is sent.</span>
      <input
        id={id}
        type="file"
        class="visually-hidden"
        accept={acceptedFiles}
        onChange={(event) => {
          const file = event.currentTarget.files?.[0]
          // The same file can be chosen again.
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
    'One object a line with its vector, text and attributes, such as vicinal export writes it.',
  ],
  [
    'CSV',
    '.csv, .tsv',
    'The first row names the columns. The vector is one column of lists, or a column for each number.',
  ],
  ['Parquet', '.parquet', 'A column of lists is the vector; the other columns keep their types.'],
  ['NumPy', '.npy', 'An array of two dimensions: each row is a vector, and its number becomes an attribute.'],
] as const

function Formats(): JSX.Element {
  return (
    <Panel title="What a file looks like">
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
