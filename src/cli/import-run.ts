import { appendFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { DatabaseError } from '../base/errors.ts'
import type { PointToInsert, VectorClient } from '../client/client.ts'
import type { Journal } from './journal.ts'
import type { Progress } from './progress.ts'
import type { Item } from './readers.ts'
import { findStored } from './stored.ts'

/** How the points of a file are sent. */
export interface RunOptions {
  /** Points a request. */
  readonly batchSize: number
  /** Requests under way at once. */
  readonly concurrency: number
  /** File that the new ids are appended to, in input order. */
  readonly ids?: string
  readonly skipInvalid?: boolean
}

interface FileRecord {
  readonly where: string
  readonly point: PointToInsert
}

interface Batch {
  readonly records: FileRecord[]
  /** Records of the file up to the end of this batch. */
  end: number
  /** About what the request takes. */
  bytes: number
  /** What the batch takes in the file. */
  fileBytes: number
  /** Whether it was sent before, and the answer was lost. */
  uncertain: boolean
  ids?: readonly string[]
}

/**
 * One pass over a file: a window of batches under way, acknowledged in any order, journalled in file order.
 * The window is what bounds memory, and what slows reading down to the pace of the service.
 */
export class ImportRun {
  readonly #client: VectorClient
  readonly #options: RunOptions
  readonly #journal: Journal | undefined
  readonly #progress: Progress
  /** Batches in file order, of which the first is not acknowledged yet. */
  readonly #window: Batch[] = []
  /** Ends of the batches that an earlier run sent and had no answer to. */
  readonly #uncertainEnds: number[]
  #idsBytes: number
  #lastStoredMs: number = performance.now()
  #failure: unknown
  stored = 0
  skipped = 0
  vectorBytes = 0

  constructor(parts: {
    readonly client: VectorClient
    readonly options: RunOptions
    readonly journal: Journal | undefined
    readonly progress: Progress
  }) {
    this.#client = parts.client
    this.#options = parts.options
    this.#journal = parts.journal
    this.#progress = parts.progress
    this.#uncertainEnds = [...(parts.journal?.underWay ?? [])]
    this.#idsBytes = parts.journal?.idsBytes ?? 0
  }

  async all(items: AsyncIterable<Item>): Promise<void> {
    const underWay = new Set<Promise<void>>()
    const start = (batch: Batch): void => {
      this.#journal?.begin(batch.end)
      this.#window.push(batch)
      const sending = this.#send(batch).finally(() => underWay.delete(sending))
      underWay.add(sending)
    }
    const skip = this.#journal?.done ?? 0
    let record = 0
    let batch = emptyBatch()
    try {
      for await (const item of items) {
        record += 1
        batch.fileBytes += item.bytes
        if (record <= skip) continue
        batch.end = record
        this.#add(batch, item)
        if (!this.#isComplete(batch)) continue
        start(batch)
        batch = emptyBatch()
        // Waiting for the first of the window too: others may have overtaken it, and they are kept for it.
        while (this.#window.length >= this.#options.concurrency && underWay.size > 0) {
          await Promise.race(underWay)
        }
        if (this.#failure !== undefined) break
      }
      if (batch.records.length > 0 && this.#failure === undefined) start(batch)
    } finally {
      // Also when reading has failed: what is under way is stored, and to be counted.
      await Promise.all(underWay)
    }
    if (this.#failure !== undefined) throw this.#failure
  }

  #add(batch: Batch, { where, point, fault }: Item): void {
    if (point !== undefined) {
      batch.records.push({ where, point })
      batch.bytes += point.vector.length * 4 + Buffer.byteLength(point.payload.content)
    } else this.#skip(`${where}: ${fault}`)
  }

  #skip(message: string): void {
    if (!this.#options.skipInvalid) throw new Error(`${message} (--skip-invalid passes over such records)`)
    this.skipped += 1
    this.#progress.note(message)
  }

  /** A batch that was sent before is made again as it was; only then can it be found. */
  #isComplete(batch: Batch): boolean {
    const [end] = this.#uncertainEnds
    if (end === undefined) {
      return batch.records.length >= this.#options.batchSize || batch.bytes >= batchBytesMax
    }
    if (batch.end < end) return false
    this.#uncertainEnds.shift()
    batch.uncertain = true
    return true
  }

  /** Never rejects: the first failure stops the run, after what is under way has ended. */
  async #send(batch: Batch): Promise<void> {
    try {
      batch.ids = await this.#storePatiently(batch)
      this.#lastStoredMs = performance.now()
      this.#settle()
    } catch (error) {
      this.#failure ??= error
    }
  }

  async #storePatiently(batch: Batch): Promise<readonly string[]> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        const points = batch.records.map(({ point }) => point)
        const stored = batch.uncertain ? await findStored(this.#client, points) : undefined
        return stored ?? (await this.#insert(batch))
      } catch (error) {
        if (!this.#isWorthWaiting(error) || this.#failure !== undefined) throw error
        // Without an answer nobody knows whether the batch was stored before the service went away.
        batch.uncertain ||= error.reason === 'not_ready'
        // At random, lest all that were refused together come back together.
        await delay(Math.random() * Math.min(50 * 2 ** attempt, 2000))
      }
    }
  }

  /** A service that has answered before may be restarting; one that never did is not there. */
  #isWorthWaiting(error: unknown): error is DatabaseError {
    if (!(error instanceof DatabaseError) || performance.now() - this.#lastStoredMs > patienceMs) return false
    return error.reason === 'overloaded' || (error.reason === 'not_ready' && this.stored > 0)
  }

  /** Sends a batch; records that the service refuses are named by where they stand, and maybe left out. */
  async #insert(batch: Batch): Promise<readonly string[]> {
    const { records } = batch
    while (records.length > 0) {
      try {
        return await this.#client.insertBatch(records.map(({ point }) => point))
      } catch (error) {
        const refused = refusedIndex(error)
        if (refused === undefined || records[refused] === undefined) throw error
        const [{ where }] = records.splice(refused, 1) as [FileRecord]
        this.#skip(`${where}: ${(error as Error).message.replace(refusedPlace, '')}`)
      }
    }
    return []
  }

  #settle(): void {
    while (this.#window[0]?.ids !== undefined) {
      const { ids, records, end, fileBytes } = this.#window.shift()!
      this.stored += ids!.length
      for (const { point } of records) this.vectorBytes += point.vector.length * 4
      if (this.#options.ids !== undefined) {
        const text = ids!.map((id) => `${id}\n`).join('')
        appendFileSync(this.#options.ids, text)
        this.#idsBytes += Buffer.byteLength(text)
      }
      this.#journal?.advance(end, this.#idsBytes)
      this.#progress.advance(ids!.length, fileBytes)
    }
  }
}

function emptyBatch(): Batch {
  return { records: [], end: 0, bytes: 0, fileBytes: 0, uncertain: false }
}

/** How the service begins what it says of one item of a batch. */
const refusedPlace = /^vectors\[(\d+)\]\.?/

function refusedIndex(error: unknown): number | undefined {
  if (!(error instanceof DatabaseError) || error.reason !== 'invalid_argument') return undefined
  const index = refusedPlace.exec(error.message)?.[1]
  return index === undefined ? undefined : Number(index)
}

/** Well below the server's default MAX_REQUEST_BYTES, whichever way the numbers are written. */
const batchBytesMax = 8 * 1024 * 1024
/** How long an import goes on asking a service that stores nothing. */
const patienceMs = 30_000
