import { columnsOf } from '../../../src/import/columns.ts'
import { placeText, type Row, type Table } from '../../../src/import/file.ts'
import type { Mapping } from '../../../src/import/mapping.ts'
import { openTable } from '../../../src/import/open.ts'
import { notStoredWords, PointMaker, type SampledPoint } from '../../../src/import/points.ts'
import type { NewPoint } from '../api/types.ts'
import { blobFile } from './blob-file.ts'
import { importFile } from './import-file.ts'
import {
  type FromWorker,
  type Job,
  keptFaults,
  type PreviewRow,
  type RowFault,
  type ToWorker,
} from './messages.ts'
import { pointJson } from './point-json.ts'

/**
 * Reads a file, converts its rows to points and sends them. It runs in a worker, so that the page stays responsive.
 * Each file has its own worker.
 */

/** The number of rows that are shown before the import. */
const previewRows = 5
/** If none of these can be read, the file is refused. */
const triedRows = 100
const reportMs = 100

let table: Table | undefined
let firstRows: readonly Row[] = []
let isPaused = false
let resume: (() => void) | undefined
const stop = new AbortController()

addEventListener('message', ({ data }: MessageEvent<ToWorker>) => {
  if (data.kind === 'inspect') inspect(data.file)
  else if (data.kind === 'preview')
    tell({ kind: 'preview', rows: firstRows.map((row) => previewOf(row, data.mapping)) })
  else if (data.kind === 'start') run(data.job)
  else if (data.kind === 'pause') isPaused = true
  else {
    if (data.kind === 'stop') stop.abort()
    isPaused = false
    resume?.()
  }
})

function tell(message: FromWorker): void {
  postMessage(message)
}

async function inspect(file: File): Promise<void> {
  try {
    if (file.size === 0) throw new Error('the file is empty')
    table = await openTable(blobFile(file))
    firstRows = await readFirst(table)
    const { format, unit, isText } = table
    tell({ kind: 'inspected', inspection: { format, unit, isText, columns: await columnsOf(table) } })
  } catch (error) {
    tell({ kind: 'refused', message: messageOf(error) })
  }
}

/** The first rows that can be read. The import itself reports rows that cannot be read. */
async function readFirst({ rows, unit }: Table): Promise<readonly Row[]> {
  const found: Row[] = []
  let firstFault: string | undefined
  let tried = 0
  for await (const row of rows('sample')) {
    if (row.fault === undefined) found.push(row)
    else firstFault ??= `${placeText(unit, row.place)}: ${row.fault}`
    tried++
    if (found.length === previewRows || tried === triedRows) break
  }
  if (found.length > 0) return found
  throw new Error(firstFault === undefined ? 'the file has no rows' : `no row can be read. ${firstFault}`)
}

function previewOf(row: Row, mapping: Mapping): PreviewRow {
  if (mapping.vector.length === 0) return { fault: 'No column is selected as the vector.' }
  const maker = new PointMaker(mapping, { isText: table!.isText, startedMs: Date.now() }, new Map())
  const { point, fault } = maker.make(row)
  return point === undefined ? { fault } : { point: JSON.parse(pointJson(point)) as NewPoint }
}

async function run(job: Job): Promise<void> {
  let stored = 0
  let readBytes = 0
  let last: SampledPoint | undefined
  let place = job.after
  let faults: RowFault[] = []
  let faultCount = 0
  let faultCountToPlace = 0
  let waiting: string | undefined
  let reportedMs = 0
  const report = (): void => {
    reportedMs = performance.now()
    const counts = { stored, readBytes, place, last, faultCount, faultCountToPlace }
    tell({ kind: 'progress', progress: { ...counts, faults, waiting } })
    faults = []
  }
  try {
    const notStored = await importFile(
      table!,
      job,
      {
        onFault: (fault) => {
          faultCount++
          if (faultCount <= keptFaults) faults.push(fault)
          if (performance.now() - reportedMs > reportMs) report()
        },
        onWaiting: (reason) => {
          waiting = reason
          report()
        },
        onStored: (done) => {
          stored += done.stored
          last = done.last ?? last
          readBytes = done.endBytes
          place = done.place
          faultCountToPlace = done.faultCount
          // Report every batch: an interrupted import resumes from the last report.
          report()
        },
        whilePaused: async () => {
          while (isPaused) {
            await new Promise<void>((resolve) => {
              resume = resolve
            })
          }
        },
      },
      stop.signal,
    )
    report()
    tell({ kind: 'done', notStored: notStoredWords(notStored) })
  } catch (error) {
    report()
    tell({ kind: 'failed', message: messageOf(error), isStopped: stop.signal.aborted })
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
