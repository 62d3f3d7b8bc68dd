import { type Signal, useSignal } from '@preact/signals'
import type { JSX } from 'preact'
import { useEffect, useId } from 'preact/hooks'
import { messageOf } from '../api/client.ts'
import type { JsonObject } from '../api/types.ts'
import { valueText } from '../lib/filters.ts'
import { formatBytes, formatCount, plural } from '../lib/format.ts'
import {
  fieldAt,
  fieldPaths,
  guessMapping,
  isVector,
  type Mapping,
  parseObject,
} from '../lib/import-mapping.ts'
import { linesOf } from '../lib/json-lines.ts'
import { vectorPreview } from '../lib/vector-text.ts'
import { Button, Fault, Field, Page, Panel } from '../parts/basics.tsx'
import { Icon } from '../parts/icon.tsx'
import { isExtended } from '../state/capabilities.ts'
import { currentCollection, loadCollections } from '../state/collections.ts'
import { ImportRun } from '../state/import-run.ts'
import { collectionName, hrefOf } from '../state/route.ts'

const previewLines = 5

interface Preview {
  readonly file: File
  readonly objects: readonly JsonObject[]
}

export function Import(): JSX.Element {
  const preview = useSignal<Preview | undefined>(undefined)
  const mapping = useSignal<Mapping | undefined>(undefined)
  const run = useSignal<ImportRun | undefined>(undefined)
  const fault = useSignal<string | undefined>(undefined)
  useEffect(() => () => run.value?.stop(), [])
  const open = async (file: File): Promise<void> => {
    fault.value = undefined
    run.value = undefined
    try {
      const objects = await firstObjects(file)
      preview.value = { file, objects }
      mapping.value = guessMapping(objects)
    } catch (error) {
      preview.value = undefined
      fault.value = `${file.name}: ${messageOf(error)}`
    }
  }
  const start = async (): Promise<void> => {
    const started = new ImportRun()
    run.value = started
    await started.start(preview.value!.file, collectionName.value, mapping.value!, isExtended.value)
    await loadCollections()
  }
  return (
    <Page
      title="Import"
      lead={
        <>
          JSON lines into <strong>{collectionName.value}</strong>: one object a line, with its vector
        </>
      }
    >
      {run.value === undefined && <DropZone onFile={open} />}
      <Fault text={fault.value} />
      {preview.value !== undefined && mapping.value !== undefined && run.value === undefined && (
        <>
          <MappingPanel preview={preview.value} mapping={mapping as Signal<Mapping>} />
          <PreviewPanel preview={preview.value} mapping={mapping.value} />
          <div class="actions">
            <Button kind="primary" icon="import" disabled={mapping.value.vector === ''} onClick={start}>
              Import {preview.value.file.name}
            </Button>
            <span class="muted">{formatBytes(preview.value.file.size)}</span>
          </div>
        </>
      )}
      {run.value !== undefined && (
        <Progress
          run={run.value}
          file={preview.value!.file}
          onAgain={() => {
            run.value = undefined
            preview.value = undefined
          }}
        />
      )}
    </Page>
  )
}

async function firstObjects(file: File): Promise<readonly JsonObject[]> {
  const objects: JsonObject[] = []
  for await (const { number, text } of linesOf(file)) {
    try {
      objects.push(parseObject(text))
    } catch (error) {
      throw new Error(`line ${number} is not a JSON object: ${messageOf(error)}`)
    }
    if (objects.length === previewLines) break
  }
  if (objects.length === 0) throw new Error('the file has no lines')
  return objects
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
      <strong>Drop a .jsonl file here, or choose one</strong>
      <span class="muted">Such as the output of vicinal export. Any size: it is read as it is sent.</span>
      <input
        id={id}
        type="file"
        class="visually-hidden"
        accept=".jsonl,.ndjson,.json,application/x-ndjson"
        onChange={(event) => {
          const file = event.currentTarget.files?.[0]
          if (file !== undefined) onFile(file)
        }}
      />
    </label>
  )
}

function MappingPanel({
  preview,
  mapping,
}: {
  readonly preview: Preview
  readonly mapping: Signal<Mapping>
}): JSX.Element {
  const first = preview.objects[0]!
  const names = fieldPaths(first)
  const vectors = names.filter((name) => isVector(fieldAt(first, name)))
  const texts = names.filter((name) => typeof fieldAt(first, name) === 'string')
  const change = (changed: Partial<Mapping>): void => {
    mapping.value = { ...mapping.value, ...changed }
  }
  const dimension = currentCollection.value?.dimension
  const vector = fieldAt(first, mapping.value.vector)
  const length = isVector(vector) ? vector.length : undefined
  const isWrong = dimension !== undefined && length !== undefined && length !== dimension
  return (
    <Panel title="What is what">
      <div class="fields">
        <Choice
          label="Vector"
          options={vectors}
          value={mapping.value.vector}
          none={vectors.length === 0 ? 'no field has numbers' : undefined}
          fault={isWrong ? `It has ${length} numbers; the collection needs ${dimension}.` : undefined}
          onChange={(chosen) => change({ vector: chosen })}
        />
        <Choice
          label="Content"
          options={texts}
          value={mapping.value.content}
          none="none"
          onChange={(chosen) => change({ content: chosen })}
        />
        <Field label="Content type">
          {({ id }) => (
            <select
              id={id}
              value={mapping.value.contentType}
              onChange={(event) =>
                change({ contentType: event.currentTarget.value === 'Image' ? 'Image' : 'Text' })
              }
            >
              <option value="Text">Text</option>
              <option value="Image">Image</option>
            </select>
          )}
        </Field>
        {isExtended.value && (
          <Choice
            label="Id"
            options={texts}
            value={mapping.value.id}
            none="chosen by the server"
            onChange={(chosen) => change({ id: chosen })}
          />
        )}
      </div>
      {isExtended.value && (
        <label class="check below">
          <input
            type="checkbox"
            checked={mapping.value.attributes}
            onChange={(event) => change({ attributes: event.currentTarget.checked })}
          />
          Keep the other fields as attributes
        </label>
      )}
    </Panel>
  )
}

function Choice(props: {
  readonly label: string
  readonly options: readonly string[]
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
          {props.options.map((name) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      )}
    </Field>
  )
}

const shownCharacters = 90

function PreviewPanel({
  preview,
  mapping,
}: {
  readonly preview: Preview
  readonly mapping: Mapping
}): JSX.Element {
  const names = fieldPaths(preview.objects[0]!)
  const roleOf = (name: string): string => {
    if (name === mapping.vector) return 'vector'
    if (name === mapping.content) return 'content'
    return name === mapping.id ? 'id' : ''
  }
  return (
    <Panel title={`The first ${plural(preview.objects.length, 'line')}`} class="flush titled">
      <section
        class="table-wrap"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
        tabIndex={0}
        aria-label="Preview"
      >
        <table>
          <thead>
            <tr>
              {names.map((name) => (
                <th key={name} scope="col">
                  {name} {roleOf(name) !== '' && <span class="tag matched">{roleOf(name)}</span>}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {preview.objects.map((object, row) => (
              <tr key={row}>
                {names.map((name) => (
                  <td key={name} class="preview-cell">
                    {previewText(object, name)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </section>
    </Panel>
  )
}

function previewText(object: JsonObject, name: string): string {
  const value = fieldAt(object, name)
  if (value === undefined) return ''
  if (isVector(value)) return vectorPreview(value, 3)
  const text = valueText(value)
  return text.length > shownCharacters ? `${text.slice(0, shownCharacters)}…` : text
}

const phaseTexts = {
  ready: '',
  running: 'Importing',
  paused: 'Paused',
  done: 'Imported',
  failed: 'Stopped',
} as const

function Progress(props: {
  readonly run: ImportRun
  readonly file: File
  readonly onAgain: () => void
}): JSX.Element {
  const { run, file } = props
  const phase = run.phase.value
  const share = file.size === 0 ? 1 : run.readBytes.value / file.size
  const isOver = phase === 'done' || phase === 'failed'
  return (
    <>
      <Panel
        title={`${phaseTexts[phase]} ${file.name}`}
        actions={
          <>
            {phase === 'running' && (
              <Button icon="pause" onClick={() => run.pause()}>
                Pause
              </Button>
            )}
            {phase === 'paused' && (
              <Button icon="play" onClick={() => run.resume()}>
                Go on
              </Button>
            )}
            {!isOver && (
              <Button kind="danger" onClick={() => run.stop()}>
                Stop
              </Button>
            )}
          </>
        }
      >
        <progress class="progress" max={1} value={share} aria-label="Progress" />
        <p class="progress-text" role="status">
          <strong class="number">{formatCount(run.stored.value)}</strong> points stored,{' '}
          <span class="number">{formatBytes(run.readBytes.value)}</span> of {formatBytes(file.size)}
          {run.faultCount.value > 0 && `, ${plural(run.faultCount.value, 'line')} left out`}
        </p>
        <Fault text={run.message.value} />
        {isOver && (
          <div class="actions below">
            <a class="button primary" href={hrefOf('search')}>
              Search {collectionName.value}
            </a>
            <Button onClick={props.onAgain}>Import another file</Button>
          </div>
        )}
      </Panel>
      {run.faultCount.value > 0 && (
        <Panel title="Lines that were left out">
          <ul class="line-faults">
            {run.faults.value.map(({ line, message }) => (
              <li key={line}>
                <span class="muted number">line {line}</span> {message}
              </li>
            ))}
          </ul>
          {run.faultCount.value > run.faults.value.length && (
            <p class="muted">and {formatCount(run.faultCount.value - run.faults.value.length)} more</p>
          )}
        </Panel>
      )}
    </>
  )
}
