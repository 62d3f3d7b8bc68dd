import { appendFileSync, statSync, writeFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { SingleBar } from 'cli-progress'
import { DatabaseError } from '../base/errors.ts'
import type { PointToInsert, VectorClient } from '../client/client.ts'
import { type ConnectionOptions, connect, targetOf } from './connection.ts'
import { Journal } from './journal.ts'
import { type Item, type ReaderOptions, readItems } from './readers.ts'
import type { Environment } from './usage.ts'

export interface ImportOptions extends ConnectionOptions, ReaderOptions {
  readonly batchSize: number
  readonly concurrency: number
  readonly ids?: string
  readonly journal?: string
  readonly skipInvalid?: boolean
}

/** Stores the points of a file through the public API, and says how it went. */
export async function importFile(
  file: string,
  options: ImportOptions,
  environment: Environment,
): Promise<void> {
  const client = connect(options, environment)
  const journal =
    file === '-'
      ? undefined
      : Journal.open(options.journal ?? `${file}.vicinal-import`, file, targetOf(options, environment))
  const resumedAt = journal?.done ?? 0
  if (resumedAt > 0) console.error(`going on after record ${resumedAt}, as the journal says`)
  if (options.ids !== undefined && resumedAt === 0) writeFileSync(options.ids, '')
  const bar = progressBar(file === '-' ? 0 : statSync(file).size)
  const run = new ImportRun(client, options, journal, bar)
  const started = performance.now()
  try {
    await run.all(readItems(file, options))
  } finally {
    bar?.stop()
    await client.close()
  }
  journal?.finish()
  const seconds = (performance.now() - started) / 1000
  const rate = Math.round(run.stored / seconds)
  const megabytes = (run.vectorBytes / 1e6 / seconds).toFixed(1)
  console.error(
    `${run.stored} points in ${seconds.toFixed(1)} s (${rate} points/s, ${megabytes} MB/s of vectors)${run.invalid > 0 ? `, ${run.invalid} bad records skipped` : ''}`,
  )
}

interface Batch {
  readonly points: PointToInsert[]
  /** Records of the file up to the end of this batch. */
  end: number
  bytes: number
  ids?: readonly string[]
}

/** One pass over a file: a window of batches under way, acknowledged in any order, journalled in file order. */
class ImportRun {
  readonly #client: VectorClient
  readonly #options: ImportOptions
  readonly #journal: Journal | undefined
  readonly #bar: SingleBar | undefined
  /** Batches in file order, of which the first is not acknowledged yet. */
  readonly #window: Batch[] = []
  #failure: unknown
  stored = 0
  invalid = 0
  vectorBytes = 0

  constructor(
    client: VectorClient,
    options: ImportOptions,
    journal: Journal | undefined,
    bar: SingleBar | undefined,
  ) {
    this.#client = client
    this.#options = options
    this.#journal = journal
    this.#bar = bar
  }

  async all(items: AsyncIterable<Item>): Promise<void> {
    const underWay = new Set<Promise<void>>()
    const start = (batch: Batch): void => {
      this.#window.push(batch)
      const sending = this.#send(batch).finally(() => underWay.delete(sending))
      underWay.add(sending)
    }
    const skip = this.#journal?.done ?? 0
    let record = 0
    let batch: Batch = { points: [], end: 0, bytes: 0 }
    for await (const item of items) {
      record += 1
      if (record <= skip) continue
      batch.end = record
      this.#add(batch, item)
      if (batch.points.length < this.#options.batchSize && batch.bytes < batchBytesMax) continue
      start(batch)
      batch = { points: [], end: record, bytes: 0 }
      while (underWay.size >= this.#options.concurrency) await Promise.race(underWay)
      if (this.#failure !== undefined) break
    }
    if (batch.points.length > 0 && this.#failure === undefined) start(batch)
    await Promise.all(underWay)
    if (this.#failure !== undefined) throw this.#failure
  }

  #add(batch: Batch, { where, point, fault }: Item): void {
    if (point !== undefined) {
      batch.points.push(point)
      batch.bytes += point.vector.length * 4 + Buffer.byteLength(point.payload.content)
      return
    }
    if (!this.#options.skipInvalid)
      throw new Error(`${where}: ${fault} (--skip-invalid passes over such records)`)
    this.invalid += 1
    console.error(`${where}: ${fault}`)
  }

  /** Never rejects: the first failure stops the run, after what is under way has ended. */
  async #send(batch: Batch): Promise<void> {
    try {
      batch.ids = await this.#insertPatiently(batch.points)
      this.#settle()
    } catch (error) {
      this.#failure ??= error
    }
  }

  async #insertPatiently(points: readonly PointToInsert[]): Promise<readonly string[]> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.#client.insertBatch(points)
      } catch (error) {
        const isBusy = error instanceof DatabaseError && busyReasons.has(error.reason)
        if (!isBusy || attempt === attemptsMax || this.#failure !== undefined) throw error
        await delay(Math.min(100 * 2 ** attempt, 5000))
      }
    }
  }

  #settle(): void {
    while (this.#window[0]?.ids !== undefined) {
      const { ids, points, end } = this.#window.shift()!
      this.stored += points.length
      this.vectorBytes += points.reduce((sum, { vector }) => sum + vector.length * 4, 0)
      if (this.#options.ids !== undefined) appendFileSync(this.#options.ids, `${ids!.join('\n')}\n`)
      this.#journal?.advance(end)
      this.#bar?.increment(points.length)
    }
  }
}

/** Well below the server's default MAX_REQUEST_BYTES, whichever way the numbers are written. */
const batchBytesMax = 8 * 1024 * 1024
const attemptsMax = 10
const busyReasons: ReadonlySet<string> = new Set(['overloaded', 'not_ready'])

function progressBar(bytes: number): SingleBar | undefined {
  if (!process.stderr.isTTY || bytes === 0) return undefined
  const bar = new SingleBar({ format: '{value} points, {duration} s', stream: process.stderr })
  bar.start(0, 0)
  return bar
}
