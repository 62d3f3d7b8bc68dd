import type { JsonObject } from '../api/types.ts'
import { openRows } from './formats.ts'
import { importFile } from './import-file.ts'
import type { FromWorker, Job, RowFault, ToWorker } from './messages.ts'
import type { RowSource } from './rows.ts'

/**
 * Reads a file, converts its rows to points and sends them. It runs in a worker, so that the page stays responsive.
 * Each file has its own worker.
 */

/** The number of rows from which columns and their types are guessed. */
const inspectedRows = 100
/** Vectors are long, so inspection also stops after this many numbers. */
const inspectedNumbers = 1_000_000
const reportMs = 100

let source: RowSource | undefined
let isPaused = false
let resume: (() => void) | undefined
const stop = new AbortController()

addEventListener('message', ({ data }: MessageEvent<ToWorker>) => {
  if (data.kind === 'inspect') inspect(data.file)
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
    source = await openRows(file)
    const { format, unit, isTyped } = source
    const records = await firstRecords(source)
    tell({ kind: 'inspected', inspection: { format, unit, isTyped, records } })
  } catch (error) {
    tell({ kind: 'refused', message: messageOf(error) })
  }
}

/** The first rows that can be read. The import itself reports rows that cannot be read. */
async function firstRecords(opened: RowSource): Promise<readonly JsonObject[]> {
  const records: JsonObject[] = []
  let firstFault: string | undefined
  let tried = 0
  let numbers = 0
  for await (const row of opened.rows()) {
    if ('record' in row) {
      records.push(row.record)
      for (const value of Object.values(row.record)) numbers += Array.isArray(value) ? value.length : 1
    } else firstFault ??= `${opened.unit} ${row.place}: ${row.fault}`
    tried++
    if (tried === inspectedRows || numbers > inspectedNumbers) break
  }
  if (records.length > 0) return records
  throw new Error(firstFault === undefined ? 'The file has no rows.' : `No row can be read. ${firstFault}`)
}

async function run(job: Job): Promise<void> {
  let stored = 0
  let readBytes = 0
  let place = job.after
  let faults: RowFault[] = []
  let faultCount = 0
  let waiting: string | undefined
  let reportedMs = 0
  const report = (): void => {
    reportedMs = performance.now()
    tell({ kind: 'progress', progress: { stored, readBytes, place, faults, faultCount, waiting } })
    faults = []
  }
  try {
    await importFile(
      source!,
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
          readBytes = done.endBytes
          place = done.place
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
    tell({ kind: 'done' })
  } catch (error) {
    report()
    tell({ kind: 'failed', message: messageOf(error), isStopped: stop.signal.aborted })
  }
}

/** Further faults are only counted. */
const keptFaults = 200

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
