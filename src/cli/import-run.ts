import { createHash, type Hash } from 'node:crypto'
import { appendFileSync } from 'node:fs'
import { MultiBar, type SingleBar } from 'cli-progress'
import { DateTime } from '../base/attributes.ts'
import { DatabaseError, type Reason } from '../base/errors.ts'
import { canBeRefused, type NewPoint, payloadBytes } from '../base/point.ts'
import { hashPoint } from '../base/point-hash.ts'
import { idempotencyKeyLifeMs } from '../base/request-headers.ts'
import { backoffMs, retried } from '../base/retry.ts'
import { type BatchInsert, batchBytesMax, isUndecidable } from '../client/bulk-insert.ts'
import { passingReasons } from '../client/calls.ts'
import type { InsertReport } from '../client/client.ts'
import type { CheckedPoint } from '../client/input.ts'
import { type SampledPoint, sampleWith } from '../import/points.ts'
import type { Journal, SentBatch, StoredRecord } from './journal.ts'
import type { Item } from './readers.ts'

/** Options for sending the points of a file. */
export interface RunOptions {
  /** Points per request. */
  readonly batchSize: number
  /** Requests in progress at a time. */
  readonly concurrency: number
  /** File that the new ids are appended to, in input order. */
  readonly ids?: string
  readonly skipInvalid?: boolean
  /** Sends batches again if it is no longer known whether they are stored. */
  readonly resendUncertain?: boolean
}

interface FileRecord {
  readonly where: string
  readonly point: NewPoint
  /** The id under which it is stored. */
  storedAs?: string | undefined
}

interface Batch {
  /** Records of the file before this batch, and up to its end. */
  readonly after: number
  end: number
  readonly records: FileRecord[]
  readonly hash: Hash
  /** Hash of all records up to its end. */
  doneDigest: string
  /** Approximate size of the request. */
  bytes: number
  /** Size of the batch in the file. */
  fileBytes: number
  key: string
  /** Whether it is sent with `on_error: continue`. */
  inParts: boolean
  /** Whether it was sent, but its outcome is unknown. */
  isUncertain: boolean
  ids?: readonly string[]
}

/**
 * One pass over a file. A window of batches is in progress; they are acknowledged in any order, and journalled in file
 * order. The window bounds memory, and slows reading down to the pace of the service.
 */
export class ImportRun {
  readonly #insertChecked: BatchInsert['insertChecked']
  readonly #options: RunOptions
  readonly #journal: Journal | undefined
  readonly #importId: string
  readonly #progress: Progress
  /** Hash of all records that have been read. */
  readonly #readHash = createHash('sha256')
  /** Batches in file order. The first is not acknowledged yet. */
  readonly #window: Batch[] = []
  /** Batches that an earlier run sent without getting an answer. */
  readonly #uncertain: SentBatch[]
  /** The end of the last uncertain batch, until all of them are stored. */
  #uncertainEnd: number | undefined
  /** The ids of records that are stored, although their batches were refused, by the hash of the record. */
  readonly #partlyStored = new Map<string, string[]>()
  /** Whether the service is a cluster that does not take batches of all or nothing with these ids. */
  #isCluster = false
  #points: number
  #idsBytes: number
  #sample: readonly SampledPoint[]
  #lastStoredMs: number = performance.now()
  #isWaiting = false
  #failure: unknown
  stored = 0
  skipped = 0
  vectorBytes = 0

  /** @param parts.importId the start of the idempotency keys of all batches */
  constructor(parts: {
    readonly insertChecked: BatchInsert['insertChecked']
    readonly options: RunOptions
    readonly journal: Journal | undefined
    readonly importId: string
    readonly progress: Progress
  }) {
    this.#insertChecked = parts.insertChecked
    this.#options = parts.options
    this.#journal = parts.journal
    this.#importId = parts.importId
    this.#progress = parts.progress
    this.#uncertain = [...(parts.journal?.sent ?? [])]
    this.#uncertainEnd = this.#uncertain.at(-1)?.end
    for (const { digest, id } of parts.journal?.partlyStored ?? []) {
      this.#partlyStored.set(digest, [...(this.#partlyStored.get(digest) ?? []), id])
    }
    this.#points = parts.journal?.done.points ?? 0
    this.#idsBytes = parts.journal?.done.idsBytes ?? 0
    this.#sample = parts.journal?.done.sample ?? []
  }

  /**
   * @throws Error if it is no longer known whether batches are stored, and the options do not say to send them again
   */
  async all(items: AsyncIterable<Item>): Promise<void> {
    this.#checkAge()
    const inProgress = new Set<Promise<void>>()
    const start = (batch: Batch): void => {
      this.#begin(batch)
      this.#window.push(batch)
      const sending = this.#send(batch).finally(() => inProgress.delete(sending))
      inProgress.add(sending)
    }
    const skip = this.#journal?.done.records ?? 0
    let record = 0
    let batch = emptyBatch(skip)
    try {
      for await (const item of items) {
        record += 1
        batch.fileBytes += item.bytes
        hashItem(this.#readHash, item)
        if (record === skip) this.#checkDone()
        if (record <= skip) continue
        batch.end = record
        this.#add(batch, item)
        if (!this.#isComplete(batch)) continue
        start(batch)
        batch = emptyBatch(record)
        // Also wait for the first batch of the window: batches that overtook it must stay until it is acknowledged.
        while (this.#window.length >= this.#options.concurrency && inProgress.size > 0) {
          await Promise.race(inProgress)
        }
        if (this.#failure !== undefined) break
      }
      if (this.#failure === undefined) {
        if (record < skip) throw changedBefore(`has only ${record} of the ${skip} records that were imported`)
        const isEmpty = batch.records.length === 0
        const missing = this.#uncertain.find(({ after }) => isEmpty || after !== batch.after)
        if (missing !== undefined) this.#doubt(`the file ends at record ${record}`, missing)
        if (!isEmpty) start(batch)
      }
    } finally {
      // Also if reading has failed: batches in progress are stored, and must be counted.
      await Promise.all(inProgress)
    }
    if (this.#failure !== undefined) throw this.#failure
  }

  /** Checks the age of uncertain batches: the service deletes a key after its life, and no longer knows its batch. */
  #checkAge(): void {
    const before = Date.now() - idempotencyKeyLifeMs + clockDifferenceMs
    const old = this.#uncertain.filter(({ sentMs }) => sentMs < before)
    if (old.length === 0) return
    const records = old.reduce((sum, { after, end }) => sum + end - after, 0)
    const what = `${old.length} batches with ${records} records (${old.map(spelled).slice(0, 10).join(', ')}${old.length > 10 ? ', …' : ''}) were sent about a day ago or earlier and not answered`
    if (this.#options.resendUncertain) {
      this.#progress.note(`WARNING: ${what}: they are sent again, and may be stored twice`)
      return
    }
    throw new Error(
      `${what}. The service keeps the keys by which it recognizes them for a day, so it is no longer known whether they are stored. Check which of their points are stored; --resend-uncertain sends them again, and points that were stored are then stored twice`,
    )
  }

  /** Compares the stored part of the file with the journal. The rest of the file may have been corrected. */
  #checkDone(): void {
    if (this.#readHash.copy().digest('hex') === this.#journal!.done.digest) return
    throw changedBefore(
      'has changed in the part that is stored (in CSV, a later value can change the type of its column)',
    )
  }

  /** Handles an uncertain batch whose records have changed: the service cannot recognize it. */
  #doubt(change: string, sent: SentBatch): void {
    const what = `${spelled(sent)} were sent before and not answered, but ${change}`
    if (!this.#options.resendUncertain) {
      throw new Error(
        `${what}: it is unknown whether the old records are stored. Restore the old records to continue; --resend-uncertain sends the new ones, and old ones that were stored stay stored too`,
      )
    }
    this.#progress.note(`WARNING: ${what}: the new records are sent, and the old ones may be stored too`)
  }

  /** Sets the key of a complete batch, and notes in the journal that the batch is about to be sent. */
  #begin(batch: Batch): void {
    const { after, end } = batch
    const digest = batch.hash.digest('hex')
    batch.doneDigest = this.#readHash.copy().digest('hex')
    const [sent] = this.#uncertain
    if (sent?.after === after) {
      this.#uncertain.shift()
      batch.isUncertain = true
      if (sent.digest !== digest) this.#doubt('they have changed', sent)
    }
    const mayBeInParts = (this.#isCluster || this.#options.skipInvalid) ?? false
    const inParts = mayBeInParts && batch.records.some(({ point }) => canBeRefused(point))
    const begun = this.#journal?.begin({ after, end, digest, inParts })
    batch.inParts = begun === undefined ? inParts : (begun.inParts ?? false)
    const { refusals = 0 } = begun ?? {}
    batch.key = `${this.#importId}/${after + 1}-${end}/${digest.slice(0, 32)}${refusals === 0 ? '' : `/${refusals}`}`
  }

  #add(batch: Batch, item: Item): void {
    const { where, point, fault } = item
    hashItem(batch.hash, item)
    if (point !== undefined) {
      batch.records.push({ where, point, storedAs: this.#idOfStored(point) })
      batch.bytes += point.vector.byteLength + payloadBytes(point.payload)
    } else this.#skip(`${where}: ${fault}`)
  }

  /** The id of a record that an earlier run has stored. */
  #idOfStored(point: NewPoint): string | undefined {
    return this.#partlyStored.size === 0 ? undefined : this.#partlyStored.get(digestOf(point))?.shift()
  }

  #skip(message: string): void {
    if (!this.#options.skipInvalid) throw new Error(`${message} (--skip-invalid skips such records)`)
    this.skipped += 1
    this.#progress.note(message)
  }

  /** Whether a batch is complete. A batch that was sent before must have the same bounds again, to be recognized. */
  #isComplete({ after, end, records, bytes }: Batch): boolean {
    const [sent] = this.#uncertain
    if (sent?.after === after) return end === sent.end
    return records.length >= this.#options.batchSize || bytes >= batchBytesMax || end === sent?.after
  }

  /** Sends a batch. Never rejects: the first failure stops the run after the batches in progress have ended. */
  async #send(batch: Batch): Promise<void> {
    try {
      batch.ids = await this.#storePatiently(batch)
      this.#lastStoredMs = performance.now()
      this.#isWaiting = false
      this.#settle()
    } catch (error) {
      this.#failure ??= error
      if (!batch.isUncertain) this.#journal?.withdraw(batch.after, batch.records.flatMap(storedRecord))
    }
  }

  async #storePatiently(batch: Batch): Promise<readonly string[]> {
    return await retried(
      () => this.#insert(batch),
      (error, retries) => {
        if (!this.#isWorthWaiting(error) || this.#failure !== undefined) return undefined
        if (error.reason !== 'overloaded' && !this.#isWaiting) {
          this.#isWaiting = true
          this.#progress.note(
            `the service does not answer: trying for ${patienceMs / 1000} s, with the same idempotency keys`,
          )
        }
        return backoffMs(retries, 100, 2000)
      },
    )
  }

  /** Whether to retry: a service that has answered before may be restarting; one that never did is not running. */
  #isWorthWaiting(error: unknown): error is DatabaseError {
    if (!(error instanceof DatabaseError) || performance.now() - this.#lastStoredMs > patienceMs) return false
    return error.reason === 'overloaded' || (passingReasons.has(error.reason) && this.stored > 0)
  }

  /** Sends a batch. Reports records that the service refuses by their place in the file, and skips them if allowed. */
  async #insert(batch: Batch): Promise<readonly string[]> {
    const { records, key: idempotencyKey } = batch
    for (;;) {
      const toSend = records.filter(({ storedAs }) => storedAs === undefined)
      if (toSend.length === 0) return records.map(({ storedAs }) => storedAs!)
      const points = toSend.map(({ point }) => pointToSend(point))
      const onError = batch.inParts ? 'continue' : undefined
      let refused: InsertReport['errors']
      try {
        const report = await this.#insertChecked(points, { idempotencyKey }, onError)
        batch.isUncertain = false
        for (const [index, id] of report.ids.entries()) toSend[index]!.storedAs = id ?? undefined
        refused = report.errors
      } catch (error) {
        batch.isUncertain ||= leavesDoubt(error)
        if (isUndecidable(error)) {
          this.#sendInParts(batch)
          continue
        }
        const index = refusedIndex(error, points.length)
        if (index === undefined) throw error
        const { reason, message } = error as DatabaseError
        refused = [{ index, reason, message }]
      }
      for (const { index, message } of refused) this.#skipRefused(batch, toSend[index]!, message)
    }
  }

  #sendInParts(batch: Batch): void {
    this.#isCluster = true
    batch.inParts = true
    this.#journal?.sendInParts(batch.after)
  }

  #skipRefused({ records }: Batch, record: FileRecord, message: string): void {
    records.splice(records.indexOf(record), 1)
    this.#skip(`${record.where}: ${message.replace(refusedPlace, '')}`)
  }

  #settle(): void {
    while (this.#window[0]?.ids !== undefined) {
      const { ids, records, end, fileBytes, doneDigest } = this.#window.shift()!
      this.stored += ids!.length
      this.#points += ids!.length
      for (const { point } of records) this.vectorBytes += point.vector.length * 4
      const id = ids!.at(-1)
      const expiresAtUs = records.at(-1)?.point.payload.expiresAtUs
      this.#sample = sampleWith(this.#sample, id === undefined ? undefined : { id, expiresAtUs })
      if (this.#options.ids !== undefined) {
        const text = ids!.map((id) => `${id}\n`).join('')
        appendFileSync(this.#options.ids, text)
        this.#idsBytes += Buffer.byteLength(text)
      }
      const done = {
        records: end,
        digest: doneDigest,
        points: this.#points,
        idsBytes: this.#idsBytes,
        sample: this.#sample,
      }
      this.#journal?.advance(done, ids!)
      this.#progress.advance(ids!.length, fileBytes)
      if (this.#uncertainEnd !== undefined && end >= this.#uncertainEnd) {
        this.#uncertainEnd = undefined
        this.#progress.note('the batches without an answer are now stored, each once')
      }
    }
  }
}

function emptyBatch(after: number): Batch {
  const hash = createHash('sha256')
  return {
    after,
    end: after,
    records: [],
    hash,
    doneDigest: '',
    bytes: 0,
    fileBytes: 0,
    key: '',
    inParts: false,
    isUncertain: false,
  }
}

/**
 * Converts a point for the client, which has its own type for dates. It is not checked again: in a file, 9e15 is an
 * exact number, but as a value of JavaScript it may be a rounded one, which a client refuses.
 */
function pointToSend({ vector, payload, id, onConflict }: NewPoint): CheckedPoint {
  const { expiresAtUs, contentType, content, attributes } = payload
  const expiresAt = expiresAtUs === undefined ? undefined : new DateTime(expiresAtUs)
  return {
    id,
    onConflict,
    vector: vector.length === 0 ? undefined : vector,
    payload: { contentType, content, attributes, expiresAt },
  }
}

function hashItem(hash: Hash, { point }: Item): void {
  if (point === undefined) hash.update('not a point')
  else hashPoint(hash, point)
}

function digestOf(point: NewPoint): string {
  const hash = createHash('sha256')
  hashPoint(hash, point)
  return hash.digest('hex')
}

function storedRecord({ point, storedAs }: FileRecord): StoredRecord[] {
  if (storedAs === undefined) return []
  return [{ digest: digestOf(point), id: storedAs, expiresAtUs: point.payload.expiresAtUs }]
}

/** The records of a batch, counted from 1. */
function spelled({ after, end }: SentBatch): string {
  return `records ${after + 1} to ${end}`
}

function changedBefore(change: string): Error {
  return new Error(
    `the file ${change}, or its --texts have: restore that part to continue, or import the new records as a separate file`,
  )
}

/**
 * Whether the outcome of the request is unknown after this error. It is known if the service answered with a refusal,
 * or if there was no connection, so that nothing was sent.
 */
function leavesDoubt(error: unknown): boolean {
  if (!(error instanceof DatabaseError)) return true
  const doubtful: readonly Reason[] = [
    'not_ready',
    'shutting_down',
    'internal',
    'cancelled',
    'deadline_exceeded',
  ]
  const isAnswer = !doubtful.includes(error.reason)
  return !isAnswer && !noConnection.test(error.message)
}

/** The messages of the clients when there was no connection. */
const noConnection =
  /^no gRPC service answers at |^no HTTP service answers at \S+: (?:connect |getaddrinfo |ECONNREFUSED)/

/** The start of the service's message about one item of a batch. */
const refusedPlace = /^vectors\[(\d+)\]\.?/

/** Which of so many points the service has refused. */
function refusedIndex(error: unknown, count: number): number | undefined {
  if (!(error instanceof DatabaseError)) return undefined
  const isOfExisting = error.reason === 'already_exists'
  if (!isOfExisting && error.reason !== 'invalid_argument') return undefined
  // If a batch has one point, the error of an existing id names no place.
  const index = Number(refusedPlace.exec(error.message)?.[1] ?? (isOfExisting ? 0 : Number.NaN))
  return index < count ? index : undefined
}

/** The clocks of the service and of this machine may differ, and sending takes time. */
const clockDifferenceMs = 3_600_000
/** How long an import retries while the service stores nothing. */
const patienceMs = 30_000

/** Shows the progress of an import: a bar on a terminal, nothing elsewhere, so that logs stay readable. */
export class Progress {
  /** Holds the bar, because it can write lines above it. */
  readonly #bars: MultiBar | undefined
  readonly #bar: SingleBar | undefined
  readonly #stream: NodeJS.WriteStream
  readonly #totalBytes: number | undefined
  readonly #startedMs: number = performance.now()
  #points = 0
  #bytes = 0

  /** @param totalBytes size of the input; undefined if it is unknown */
  constructor(totalBytes: number | undefined, stream: NodeJS.WriteStream = process.stderr) {
    this.#stream = stream
    this.#totalBytes = totalBytes
    if (!stream.isTTY) return
    const format =
      totalBytes === undefined
        ? '{points} points | {rate} points/s | {duration_formatted}'
        : '{bar} {percentage}% | {points} points | {rate} points/s | {eta_formatted} left'
    this.#bars = new MultiBar({
      format,
      stream,
      barsize: 30,
      barCompleteChar: '█',
      barIncompleteChar: '░',
      hideCursor: true,
      forceRedraw: true,
    })
    this.#bar = this.#bars.create(totalBytes ?? 0, 0, this.#figures())
    this.#bars.update()
  }

  /** Counts stored points, and the bytes of the input that they came from. */
  advance(points: number, bytes: number): void {
    this.#points += points
    this.#bytes += bytes
    const value = Math.min(this.#bytes, this.#totalBytes ?? 0)
    this.#bar?.update(value, this.#figures())
  }

  /** Writes a line for people, above the bar. */
  note(text: string): void {
    if (!this.#bars?.isActive) {
      this.#stream.write(`${text}\n`)
      return
    }
    this.#bars.log(`${text}\n`)
    this.#bars.update()
  }

  /** Leaves the last state of the bar on its own line, and restores the terminal. Idempotent. */
  stop(): void {
    if (this.#bars?.isActive) this.#bars.stop()
  }

  #figures(): { points: number; rate: number } {
    const seconds = (performance.now() - this.#startedMs) / 1000
    return { points: this.#points, rate: Math.round(this.#points / Math.max(seconds, 0.001)) }
  }
}
