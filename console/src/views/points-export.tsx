import { useSignal } from '@preact/signals'
import type { JSX } from 'preact'
import { useRef } from 'preact/hooks'
import { type SavedFile, saveStream } from '../api/download.ts'
import { listPoints } from '../api/points.ts'
import type { JsonObject, Point } from '../api/types.ts'
import { CsvText, type ExportFormat, jsonLine } from '../lib/export-text.ts'
import { isEmptyFilter } from '../lib/filters.ts'
import { formatCount, plural } from '../lib/format.ts'
import { Button, Fault, Segments } from '../parts/basics.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { useRun } from '../parts/use-run.ts'
import { collectionName } from '../state/route.ts'

const formats: readonly (readonly [ExportFormat, string])[] = [
  ['jsonl', 'JSON lines'],
  ['csv', 'CSV'],
]

const hints: Readonly<Record<ExportFormat, string>> = {
  jsonl: 'Holds everything. The import, here and on the command line, reads it.',
  csv: 'A table with a column for each attribute, for spreadsheets. Lists and maps are JSON.',
}

/** Saves the points that match a filter to a file, page by page. */
export function ExportDialog(props: {
  readonly filter: JsonObject
  readonly count: number
  readonly onClose: () => void
}): JSX.Element {
  const { filter, count } = props
  const format = useSignal<ExportFormat>('jsonl')
  const withVectors = useSignal(true)
  const done = useSignal(0)
  const saved = useSignal<SavedFile | undefined>(undefined)
  const dialog = useRef<HTMLDialogElement>(null)
  const { run, stop, isRunning, fault } = useRun(async (signal) => {
    saved.value = undefined
    done.value = 0
    let cause: unknown
    const query = {
      collection: collectionName.value,
      filter,
      format: format.value,
      withVectors: withVectors.value,
      signal,
    }
    try {
      const suggestedName = `${query.collection}.${format.value}`
      saved.value = await saveStream({ suggestedName, signal }, async () => ({
        body: streamOf(
          textOf(query, (points) => {
            done.value += points
          }),
          (error) => {
            cause = error
          },
        ),
      }))
    } catch (error) {
      // A browser may report a failed stream by an error of its own.
      throw cause ?? error
    }
  })
  return (
    <Dialog title="Export points" element={dialog} onClose={props.onClose}>
      <div class="form">
        <p>
          {isEmptyFilter(filter) ? 'All ' : ''}
          {plural(count, 'point')} of {collectionName.value}
          {isEmptyFilter(filter) ? '' : ` that ${count === 1 ? 'matches' : 'match'} the filter`}. Changes
          during the export may or may not be included.
        </p>
        <div class="field">
          <div>
            <Segments
              label="Format"
              options={formats}
              value={format.value}
              onChange={(chosen) => {
                format.value = chosen
              }}
            />
          </div>
          <p class="hint">{hints[format.value]}</p>
        </div>
        <label class="check">
          <input
            type="checkbox"
            checked={withVectors.value}
            onChange={(event) => {
              withVectors.value = event.currentTarget.checked
            }}
          />
          With vectors
        </label>
        <div role="status">
          {isRunning && (
            <>
              <progress class="progress" max={Math.max(1, count)} value={done.value} aria-label="Exported" />
              <p class="muted">{formatCount(done.value)} exported</p>
            </>
          )}
          {saved.value !== undefined && (
            <p>
              Saved {plural(done.value, 'point')} to {saved.value.name}.
            </p>
          )}
        </div>
        <Fault text={fault} />
        <div class="dialog-foot">
          {isRunning ? (
            <Button onClick={stop}>Stop</Button>
          ) : (
            <Button onClick={() => dialog.current?.close()}>Close</Button>
          )}
          <Button kind="primary" icon="download" disabled={isRunning} onClick={() => run()}>
            Export
          </Button>
        </div>
      </div>
    </Dialog>
  )
}

interface ExportQuery {
  readonly collection: string
  readonly filter: JsonObject
  readonly format: ExportFormat
  readonly withVectors: boolean
  readonly signal: AbortSignal
}

/** The text of a file, in pieces of a page each. */
async function* textOf(
  query: ExportQuery,
  onPoints: (count: number) => void,
): AsyncGenerator<string, void, undefined> {
  if (query.format === 'jsonl') {
    for await (const page of pagesOf(query, query.withVectors)) {
      yield page.map(jsonLine).join('')
      onPoints(page.length)
    }
    return
  }
  const csv = new CsvText(await attributeNames(query), query.withVectors)
  yield csv.header()
  for await (const page of pagesOf(query, query.withVectors)) {
    yield page.map((point) => csv.row(point)).join('')
    onPoints(page.length)
  }
}

/** The columns of a table come first, so all points are read once for the names of their attributes. */
async function attributeNames(query: ExportQuery): Promise<readonly string[]> {
  const names = new Set<string>()
  for await (const page of pagesOf(query, false)) {
    for (const { payload } of page) for (const name of Object.keys(payload.attributes ?? {})) names.add(name)
  }
  return [...names].sort()
}

async function* pagesOf(
  { collection, filter, signal }: ExportQuery,
  withVectors: boolean,
): AsyncGenerator<readonly Point[], void, undefined> {
  let cursor: string | undefined
  do {
    const page = await listPoints(collection, { filter, limit: pagePoints, cursor, withVectors }, signal)
    yield page.points
    cursor = page.next_cursor
  } while (cursor !== undefined)
}

/** As many as a page has by default, so that no limit of the server is smaller. */
const pagePoints = 100

/** A stream that reads as fast as it is written to the file. */
function streamOf(
  texts: AsyncGenerator<string, void, undefined>,
  onFault: (error: unknown) => void,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  const encoder = new TextEncoder()
  return new ReadableStream({
    async pull(controller) {
      try {
        const { done, value } = await texts.next()
        if (done === true) controller.close()
        else controller.enqueue(encoder.encode(value))
      } catch (error) {
        onFault(error)
        throw error
      }
    },
  })
}
