import { closeSync, fstatSync, ftruncateSync, openSync, statSync } from 'node:fs'
import { type ConnectionOptions, connect, targetOf } from './connection.ts'
import { ImportRun, type RunOptions } from './import-run.ts'
import { Journal } from './journal.ts'
import { Progress } from './progress.ts'
import { type ReaderOptions, readItems } from './readers.ts'
import type { Environment } from './usage.ts'

export interface ImportOptions extends ConnectionOptions, ReaderOptions, RunOptions {
  readonly journal?: string
}

/**
 * Stores the points of a file through the public API, each exactly once however often the command is cut
 * short and called again, and says how it went.
 */
export async function importFile(
  file: string,
  options: ImportOptions,
  environment: Environment,
): Promise<void> {
  const journal = file === '-' ? undefined : openJournal(file, options, environment)
  if (options.ids !== undefined) cutIds(options.ids, journal?.idsBytes ?? 0)
  const client = connect(options, environment)
  const progress = new Progress(file === '-' ? undefined : statSync(file).size)
  if (journal !== undefined && journal.done + journal.underWay.length > 0) {
    progress.note(`going on after record ${journal.done}, as the journal says`)
  }
  const run = new ImportRun({ client, options, journal, progress })
  const startedMs = performance.now()
  try {
    await run.all(readItems(file, options))
  } catch (error) {
    if (run.stored > 0) {
      progress.note(
        `${run.stored} points are stored${journal ? '; the same command goes on behind them' : ''}`,
      )
    }
    throw error
  } finally {
    progress.stop()
    await client.close()
  }
  journal?.finish()
  console.log(summaryOf(run, (performance.now() - startedMs) / 1000))
}

function openJournal(file: string, options: ImportOptions, environment: Environment): Journal {
  const { size, mtimeMs } = statSync(file)
  const { format, dimension, scale, normalize, texts } = options
  const target = targetOf(options, environment)
  const source = { file, size, mtimeMs, target, format, dimension, scale, normalize, texts }
  return Journal.open(options.journal ?? `${file}.vicinal-import`, source)
}

/** Makes the file of ids as long as the journal knows it: what was appended behind that will be again. */
function cutIds(path: string, bytes: number): void {
  const file = openSync(path, 'a')
  try {
    const { size } = fstatSync(file)
    if (size < bytes)
      throw new Error(`${path} has ${size} bytes, the import that goes on had written ${bytes}`)
    ftruncateSync(file, bytes)
  } finally {
    closeSync(file)
  }
}

function summaryOf({ stored, skipped, vectorBytes }: ImportRun, seconds: number): string {
  const rate = Math.round(stored / seconds)
  const megabytes = (vectorBytes / 1e6 / seconds).toFixed(1)
  const bad = skipped > 0 ? `, ${skipped} bad records skipped` : ''
  return `${stored} points in ${seconds.toFixed(1)} s (${rate} points/s, ${megabytes} MB/s of vectors)${bad}`
}
