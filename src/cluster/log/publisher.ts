import { crc32 } from 'node:zlib'
import { cancellation, DatabaseError } from '../../base/errors.ts'
import { idBytes } from '../../base/ids.ts'
import { changesPerRecord, type LoggedChangeEach } from '../../write/requests.ts'
import type { ClusterTimings } from '../node-state.ts'
import { type Ended, type Outcomes, uncertain } from '../outcomes.ts'
import { attemptOf, isNoOutage, pause, unlessAborted } from '../waiting.ts'
import { type AppendOptions, type CommitLog, UncertainAppend, unstored } from './commit-log.ts'
import {
  batchBytesMax,
  encodeCommit,
  encodeRecord,
  isVoid,
  payloadBytesMax,
  type RecordKind,
} from './records.ts'
import { type ClusterRequest, encodeInTurns, encodeRequest } from './request-codec.ts'

interface PublisherOptions {
  readonly log: CommitLog
  readonly origin: string
  readonly outcomes: Outcomes
  /** The clock of this node, in microseconds since 1970. */
  readonly nowUs: () => number
  readonly timings?: (() => ClusterTimings | undefined) | undefined
  /** Maximum bytes of requests that are on their way to the log or being applied. */
  readonly bytesMax: number
  /** Maximum bytes of one request that takes several records: see `writtenBytesMax`. */
  readonly writtenBytesMax: number
  /** How long a request is tried. */
  readonly timeoutMs: number
  /** Pause between two attempts; short in tests. */
  readonly retryMs: number
}

/** How to send a request to the log. */
interface PublishOptions {
  /** The collection or alias that the request is about; empty if it is about none. */
  readonly collection: string
  readonly partition?: number | undefined
  readonly signal?: AbortSignal | undefined
}

/**
 * Sends requests to the log and waits until they are applied here.
 *
 *   encode ─> its collection's turn ─> append ─> applied, durably ─> the outcome, the same on every replica
 *                                        │ uncertain: retry with the same id
 *                                        └ still uncertain after a time: the caller gets an error that says so
 */
export class Publisher {
  readonly #options: PublisherOptions
  readonly #window = new FairWindow(windowBytes)
  readonly #closed = new AbortController()
  #bytes = 0
  #requests = 0

  constructor(options: PublisherOptions) {
    this.#options = options
  }

  /**
   * Applies a request on all replicas.
   *
   * @throws DatabaseError with which it was refused; `not_ready` when it is not known whether it was stored
   */
  async submit(
    request: ClusterRequest,
    options: PublishOptions,
  ): Promise<Ended & { readonly result: unknown }> {
    const ended = await this.send(await this.prepare(request, options), options.signal)
    if ('error' in ended) throw ended.error
    return ended
  }

  /** Encodes a request and gives it a number. All attempts of it send the same. */
  async prepare(request: ClusterRequest, options: PublishOptions): Promise<BatchToAppend> {
    const { collection, partition, signal } = options
    const changes = changesOf(request)
    if (changes > changesPerRecord) throw tooManyChanges(changes)
    const payload = await encodeInTurns({ request, timeUs: this.#options.nowUs() })
    if (signal?.aborted) throw cancellation(signal)
    this.#checkBatch(request, payload.length, options)
    return { collection, partition, payload, origin: this.#options.origin, request: this.#nextNumber() }
  }

  /**
   * Appends what `prepare` returned, here or on another node; resolves when this node has applied it.
   *
   * @throws DatabaseError `not_ready` when it is not known whether it was stored
   */
  async send(batch: BatchToAppend, signal: AbortSignal | undefined): Promise<Ended> {
    using _ = this.hold(batch.payload.length)
    using waiting = this.#options.outcomes.expect(batch)
    const started = performance.now()
    using deadline = this.#deadline(signal)
    // Its record can be read and applied before the log's own answer arrives.
    const ended = await Promise.race([
      waiting.ended,
      this.#appended(batch, waiting.ended, deadline.signal, signal),
    ])
    this.#options.timings?.()?.acknowledge((performance.now() - started) / 1000)
    return ended
  }

  /**
   * Counts the bytes of a write while it is under way.
   *
   * @throws DatabaseError `overloaded` when there are too many
   */
  hold(bytes: number): Disposable {
    const { bytesMax } = this.#options
    if (this.#bytes > 0 && this.#bytes + bytes > bytesMax) {
      throw new DatabaseError(
        'overloaded',
        `${this.#bytes} bytes of changes are on their way through the log, the maximum is ${bytesMax} (MAX_BUFFERED_BYTES): try again later`,
      )
    }
    this.#bytes += bytes
    return {
      [Symbol.dispose]: () => {
        this.#bytes -= bytes
      },
    }
  }

  /**
   * Appends a barrier.
   *
   * @returns its position
   */
  async barrier(): Promise<number> {
    const { origin, nowUs } = this.#options
    const payload = encodeRequest({ request: { kind: 'barrier' }, timeUs: nowUs() })
    using deadline = this.#deadline(undefined)
    const batch = { collection: '', partition: undefined, payload, origin, request: this.#nextNumber() }
    return await this.#append(batch, deadline.signal)
  }

  #nextNumber(): number {
    this.#requests += 1
    return this.#requests
  }

  /** The most points that one record of a change by filter can be about. */
  changesMax(collection: string, { filter, change }: Pick<LoggedChangeEach, 'filter' | 'change'>): number {
    const { origin, writtenBytesMax, nowUs } = this.#options
    const request = { kind: 'each', ids: [], filter, change } as const
    const { length } = encodeRequest({ request, timeUs: nowUs() })
    const rest = batchBytesMax(origin, collection, writtenBytesMax) - length - headBytesMax
    return Math.min(changesPerRecord, Math.floor(rest / idBytes))
  }

  /** Ends the attempts, and those of what is appended later. */
  close(): void {
    this.#closed.abort()
  }

  /** Nothing may be appended that some node could not apply. */
  #checkBatch({ kind }: ClusterRequest, bytes: number, { collection }: PublishOptions): void {
    const { origin, writtenBytesMax } = this.#options
    const most = batchBytesMax(origin, collection, writtenBytesMax)
    if (bytes <= most) return
    const advice = advices[kind] ?? 'send a smaller one'
    throw new DatabaseError(
      'request_too_large',
      `the request takes ${bytes} bytes in the log of the cluster, the maximum is ${most} (it follows from MAX_REQUEST_BYTES): ${advice}`,
    )
  }

  /** Ends after the time limit, with this publisher, or with the caller, with the error for the caller. */
  #deadline(caller: AbortSignal | undefined): ReturnType<typeof attemptOf> {
    return attemptOf(
      [this.#closed.signal, caller],
      () => (caller?.aborted ? cancellation(caller) : uncertain('the time is up')),
      this.#options.timeoutMs,
    )
  }

  async #appended(
    batch: BatchToAppend,
    outcome: Promise<Ended>,
    deadline: AbortSignal,
    caller: AbortSignal | undefined,
  ): Promise<Ended> {
    using _ = await this.#window.enter(batch, deadline).catch((reason: unknown) => {
      if (this.#closed.signal.aborted) throw unstored(reason)
      throw caller?.aborted ? cancellation(caller) : overtaken
    })
    await this.#append(batch, deadline)
    return await unlessAborted(outcome, deadline)
  }

  async #append(batch: BatchToAppend, deadline: AbortSignal): Promise<number> {
    const { log, retryMs, timings } = this.#options
    const startMs = performance.now()
    const append: CommitLog['append'] = (record, options) =>
      appendRecord(log, record, options, deadline, retryMs)
    try {
      const position = await appendBatch({ append }, batch)
      timings?.()?.append((performance.now() - startMs) / 1000)
      return position
    } catch (error) {
      if (!(error instanceof UncertainAppend)) throw error
      deadline.throwIfAborted()
      throw uncertain(error)
    }
  }
}

/**
 * Appends a record, and tries again under the same id until it is stored, its servers are full or away, or the signal
 * aborts.
 *
 * @throws the errors of `CommitLog.append`
 */
export async function appendRecord(
  log: Pick<CommitLog, 'append' | 'isAway'>,
  record: Uint8Array,
  options: AppendOptions,
  signal: AbortSignal,
  retryMs: number,
): Promise<number> {
  let unknown: UncertainAppend | undefined
  for (;;) {
    if (signal.aborted) throw unknown ?? unstored()
    try {
      return await log.append(record, options)
    } catch (error) {
      if (error instanceof UncertainAppend) unknown = error
      // Once an attempt is uncertain, a later refusal says nothing about that one.
      else if (unknown === undefined && isNoOutage(error)) throw error
      if (signal.aborted || log.isAway) throw unknown ?? error
      await pause(retryMs, signal)
    }
  }
}

/** Why a request ends whose turn did not come in time. */
const overtaken = new DatabaseError(
  'overloaded',
  'the log of the cluster does not keep up with the writes: nothing was stored, try again later',
)

/**
 * Lets a number of bytes be on their way through the log, and the collections that wait take turns. In the log no record
 * overtakes another, so a large backlog of one collection would hold up all others.
 */
class FairWindow {
  readonly #bytesMax: number
  /** By collection, the one whose turn comes next first. */
  readonly #waiting = new Map<string, { readonly bytes: number; readonly enter: () => void }[]>()
  #bytes = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  /**
   * Resolves when a batch may be appended; it leaves the window when that is disposed.
   *
   * @throws the signal's reason when it aborts first
   */
  async enter(
    { collection, payload: { length: bytes } }: BatchToAppend,
    signal: AbortSignal,
  ): Promise<Disposable> {
    await new Promise<void>((resolve, reject) => {
      const queue = this.#waiting.get(collection) ?? []
      const onAbort = (): void => {
        queue.splice(queue.indexOf(entry), 1)
        if (queue.length === 0) this.#waiting.delete(collection)
        reject(signal.reason)
      }
      const enter = (): void => {
        signal.removeEventListener('abort', onAbort)
        this.#bytes += bytes
        resolve()
      }
      const entry = { bytes, enter }
      queue.push(entry)
      this.#waiting.set(collection, queue)
      signal.addEventListener('abort', onAbort)
      if (signal.aborted) onAbort()
      else this.#admit()
    })
    return {
      [Symbol.dispose]: () => {
        this.#bytes -= bytes
        this.#admit()
      },
    }
  }

  #admit(): void {
    for (const [collection, queue] of this.#waiting) {
      // A batch that is larger than the window enters when nothing else is under way.
      if (this.#bytes > 0 && this.#bytes + queue[0]!.bytes > this.#bytesMax) return
      queue.shift()!.enter()
      this.#waiting.delete(collection)
      if (queue.length > 0) this.#waiting.set(collection, queue)
    }
  }
}

/** Several times what the servers and a node take in while one record is stored. */
const windowBytes = 4 * 1024 * 1024

/** The heads of the ids and of their message, which are longer with ids. */
const headBytesMax = 16

/** How to make a request smaller, by its kind. */
const advices: Partial<Readonly<Record<ClusterRequest['kind'], string>>> = {
  insert: 'send fewer points at a time',
  each: 'use a shorter filter or patch',
}

function changesOf(request: ClusterRequest): number {
  if (request.kind === 'insert') return request.points.length
  return 'ids' in request ? request.ids.length : 1
}

function tooManyChanges(changes: number): DatabaseError {
  return new DatabaseError(
    'request_too_large',
    `the request changes ${changes} points, a cluster takes at most ${changesPerRecord} at a time`,
  )
}

/** A batch of changes that all replicas apply together. Its payload is opaque here. */
export interface BatchToAppend {
  readonly collection: string
  /** The node's name and a value unique to its run; unique forever together with `request`. */
  readonly origin: string
  readonly request: number
  readonly payload: Uint8Array
  readonly partition: number | undefined
}

type Appending = Pick<CommitLog, 'append'>

/**
 * Appends a batch as one record, or as chunks and a commit.
 *
 * @returns the position at which all replicas apply it
 * @throws the errors of `CommitLog.append`; `not_ready` or `disk_full` when the commit was certainly not attempted
 */
export async function appendBatch(log: Appending, batch: BatchToAppend): Promise<number> {
  const largest = payloadBytesMax(batch.origin, batch.collection)
  if (batch.payload.length <= largest) return await append(log, batch, 'whole', batch.payload, '')
  return await appendInChunks(log, batch, largest)
}

async function appendInChunks(log: Appending, batch: BatchToAppend, largest: number): Promise<number> {
  const { payload } = batch
  const chunks: { readonly position: number; readonly crc: number }[] = []
  for (let start = 0; start < payload.length; start += largest * chunksInFlight) {
    const pieces = piecesOf(payload.subarray(start, start + largest * chunksInFlight), largest)
    const positions = await allOf(
      pieces.map((piece, index) => append(log, batch, 'chunk', piece, `-${chunks.length + index}`)),
    )
    positions.forEach((position, index) => {
      chunks.push({ position, crc: crc32(pieces[index]!) })
    })
  }
  const commit = encodeCommit({ batchBytes: payload.length, batchCrc: crc32(payload), chunks })
  const position = await append(log, batch, 'commit', commit, '-commit')
  if (isVoid(position, chunks)) {
    throw new DatabaseError(
      'not_ready',
      'too many other writes came between the chunks of this one: try again',
    )
  }
  return position
}

function append(
  log: Appending,
  { collection, origin, request, partition }: BatchToAppend,
  kind: RecordKind,
  payload: Uint8Array,
  part: string,
): Promise<number> {
  const record = encodeRecord({ kind, collection, origin, request, payload })
  const id = `${origin}-${request}${part}`
  return log.append(record, { id, partition })
}

function piecesOf(bytes: Uint8Array, largest: number): Uint8Array[] {
  const count = Math.ceil(bytes.length / largest)
  return Array.from({ length: count }, (_, index) => bytes.subarray(index * largest, (index + 1) * largest))
}

/** Like Promise.all, but waits for the others when one fails, so that nothing is appended after the answer. */
async function allOf(promises: readonly Promise<number>[]): Promise<number[]> {
  const outcomes = await Promise.allSettled(promises)
  const failed = outcomes.find((outcome) => outcome.status === 'rejected')
  if (failed !== undefined) throw chunkFailure(failed.reason)
  return outcomes.map((outcome) => (outcome as PromiseFulfilledResult<number>).value)
}

/** An uncertain chunk does not make the batch uncertain: without its commit, a chunk has no effect. */
function chunkFailure(cause: unknown): unknown {
  if (cause instanceof DatabaseError) return cause
  return new DatabaseError('not_ready', 'the log of the cluster did not accept the write', { cause })
}

/** Chunks in flight per batch. The limit keeps one large batch from monopolizing the log. */
const chunksInFlight = 4
