import '../styles/import.css'
import { useSignal } from '@preact/signals'
import type { JSX } from 'preact'
import { useEffect, useId } from 'preact/hooks'
import { placeText } from '../../../src/import/file.ts'
import { guessMapping, type Mapping } from '../../../src/import/mapping.ts'
import type { Inspection } from '../import/messages.ts'
import { formatBytes, formatCount } from '../lib/format.ts'
import { Button, Fault, Page, Panel } from '../parts/basics.tsx'
import { Icon } from '../parts/icon.tsx'
import { useUnmount } from '../parts/use-unmount.ts'
import { loadCollections } from '../state/collections.ts'
import { type EarlierImport, ImportRun } from '../state/import-run.ts'
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
  const mapping = useSignal<Mapping>(guessMapping(inspection.columns))
  const earlier = run.earlier.value
  const canResume = earlier?.kind === 'interrupted'
  useEffect(() => run.showPreview(mapping.value), [mapping.value])
  const isWrong = dimensionFault(inspection, mapping.value) !== undefined
  return (
    <>
      {earlier !== undefined && <EarlierNotice run={run} earlier={earlier} unit={inspection.unit} />}
      <RolesPanel inspection={inspection} mapping={mapping} />
      <AttributesPanel inspection={inspection} mapping={mapping} />
      <PreviewPanel rows={run.preview.value} />
      {isWrong && (
        <p class="notice">
          No row fits the collection {run.collection}. Choose another collection in the side bar, or{' '}
          <a href={hrefOf('collections')}>create one</a> for these vectors.
        </p>
      )}
      <div class="actions">
        <Button
          kind={canResume ? 'plain' : 'primary'}
          icon="import"
          disabled={mapping.value.vector.length === 0 || isWrong}
          onClick={() => run.start(mapping.value)}
        >
          Import {run.file.name}
          {earlier?.kind === 'finished' && ' again'}
        </Button>
        <Button onClick={onOther}>Choose another file</Button>
        <span class="muted">
          {formatNames[inspection.format]}, {formatBytes(run.file.size)}
        </span>
      </div>
    </>
  )
}

/** What an earlier import of the same file has stored. */
function EarlierNotice(props: {
  readonly run: ImportRun
  readonly earlier: EarlierImport
  readonly unit: Inspection['unit']
}): JSX.Element {
  const { run, earlier, unit } = props
  const stored = formatCount(earlier.stored)
  if (earlier.kind === 'finished') {
    return (
      <p class="notice">
        This file was imported before: {stored} points. Importing it again stores every point twice.
      </p>
    )
  }
  if (earlier.kind === 'lost') {
    return (
      <p class="notice">
        An import of this file was interrupted after {placeText(unit, earlier.place, formatCount)}. It cannot
        resume, because some of its {stored} points are no longer stored.
      </p>
    )
  }
  return (
    <div class="notice with-actions">
      <p>
        An import of this file was interrupted after {placeText(unit, earlier.place, formatCount)}, with{' '}
        {stored} points stored.
      </p>
      <Button kind="primary" icon="play" onClick={() => run.resumeInterrupted()}>
        Resume from there
      </Button>
    </div>
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

const acceptedFiles =
  '.jsonl,.ndjson,.json,.csv,.tsv,.tab,.txt,.parquet,.npy,.fvecs,application/x-ndjson,text/csv'

const formatNames = {
  jsonl: 'JSON lines',
  csv: 'CSV',
  tsv: 'CSV',
  parquet: 'Parquet',
  npy: 'NumPy',
  fvecs: 'fvecs',
  f32: 'float32',
  i8: 'int8',
} as const

const formats = [
  [
    'JSON lines',
    '.jsonl',
    'One object per line with its vector, text and attributes, as written by vicinal export.',
  ],
  [
    'CSV',
    '.csv, .tsv',
    'The first row names the columns, and all values of a column decide its type. The vector is one column of lists, or one column per number.',
  ],
  ['Parquet', '.parquet', 'A column of lists is the vector; the other columns keep their types.'],
  ['NumPy', '.npy', 'A two-dimensional array: each row is a vector, and its content is the row number.'],
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
