import { setTimeout as delay } from 'node:timers/promises'
import { DatabaseError, damageIn, lacksRoom } from '../../base/errors.ts'
import type { Logger } from '../../base/log.ts'
import { PartitionSet } from '../../base/partitions.ts'
import type { Collection } from '../../collections/collection.ts'
import type { CollectionSet } from '../../collections/collection-set.ts'
import type { CollectionLease } from '../../collections/open-collections.ts'
import { isDecided, type LoggedRequest, type Stamp } from '../../write/requests.ts'
import type { ClusterTimings } from '../node-state.ts'
import type { Outcome, Outcomes } from '../outcomes.ts'
import { isNoOutage, pause, Waiters } from '../waiting.ts'
import { type CommitLog, type LogEntry, LogGap, LogLost, lostIn, lostLogMessage } from './commit-log.ts'
import { type LogPlace, NeedsReplica } from './founding.ts'
import { type Batch, DamagedRecord, RecordAssembler, UnknownRecord } from './records.ts'
import {
  type ClusterRequest,
  concerns,
  decodeInTurns,
  type NodeDigest,
  type SnapshotCut,
} from './request-codec.ts'

interface ApplierOptions {
  readonly log: CommitLog
  readonly main: Collection
  readonly set: CollectionSet
  readonly outcomes: Outcomes
  /** The place up to which everything is already applied. */
  readonly from: LogPlace
  /** No further record is begun while those being applied have more bytes than this; a single one can be larger. */
  readonly bytesInFlightMax: number
  /** Maximum bytes of chunks that are kept for their commit; others are fetched again. */
  readonly chunkCacheBytesMax: number
  /** Pause before reading is retried; short in tests. */
  readonly retryMs: number
  readonly logger: Logger
  readonly timings?: (() => ClusterTimings | undefined) | undefined
  /** Called when the log does not have the next position. */
  readonly onGap?: (() => void) | undefined
  /** The partitions that this node holds; undefined: all. Records about other partitions only are skipped. */
  readonly held?: (() => PartitionSet | undefined) | undefined
  /** Called at an audit record with the digest of its collection: see `PartitionDigest`. */
  readonly onAudit: (collection: string, position: number, digest: Uint8Array) => void
  /** Called at the record of a cut with its collection, which has applied everything before it. Closes the lease. */
  readonly onCut: (collection: string, cut: SnapshotCut, lease: CollectionLease) => void
  /** Called with what a node has held of a collection. */
  readonly onDigest: (collection: string, found: NodeDigest) => void
  /** Whether another node that others can copy from has applied the record at a position. */
  readonly isAppliedElsewhere: (position: number) => Promise<boolean>
  /** Called when the node cannot continue without outside help. */
  readonly onFailure: (error: Error) => void
}

/**
 * Applies the log to the collections of a node: each record once, in order.
 *
 *   log ─> next position? ─> batch ─> clock ─> its collection, several at a time ─> answer ─> done, in order ─> barriers
 *            └ no: read again        (chunks)
 *
 * The cluster's clock is the highest timestamp of any record so far. Records of one collection are written to disk in
 * groups, and different collections in parallel. A write is answered when its own collection has applied it. `applied` is
 * the position up to which all records are done. A restart resumes after it. Reads of `session` and `latest` wait for it,
 * so a node that has acknowledged a write also shows it.
 *
 * A change of collections or aliases waits for all earlier records, and for `mark`, which makes their position
 * durable. Otherwise, after a restart, an earlier record could be applied to another collection that now has its
 * collection's name.
 */
export class Applier {
  readonly #options: ApplierOptions
  readonly #assembler: RecordAssembler
  readonly #waiters = new Waiters()
  readonly #stop = new AbortController()
  /** Records that are being applied, in order. */
  readonly #flight: Flight[] = []
  #flightBytes = 0
  #applied: LogPlace
  #visible: number
  /** The place of the last record read. */
  #read: LogPlace
  #failure: Error | undefined
  #running: Promise<void> | undefined
  /** No record beyond the position of any of these is started. */
  readonly #holds = new Set<LogHold>()
  /** Position of the last record that passed the holds. */
  #admitted: number
  /** Why the next record cannot be read, although the log answers. */
  #obstacle: Obstacle | undefined

  constructor(options: ApplierOptions) {
    this.#options = options
    const { log, from, chunkCacheBytesMax, main } = options
    this.#assembler = new RecordAssembler(log, { cacheBytesMax: chunkCacheBytesMax })
    this.#applied = from
    this.#visible = Math.max(from.position, main.replica.position)
    this.#read = from
    this.#admitted = from.position
  }

  /** All collections have applied all records up to here. */
  get applied(): LogPlace {
    return this.#applied
  }

  /**
   * The highest position of a record of which reads may see some effects. A record takes effect in its collection, even
   * while an earlier record of another collection is still being applied.
   */
  get visible(): number {
    return Math.max(this.#applied.position, this.#visible)
  }

  /** Call before a record takes effect. */
  show(position: number): void {
    this.#visible = Math.max(this.#visible, position)
  }

  get failure(): Error | undefined {
    return this.#failure
  }

  /** Why no record has been read for a while, although the log answers; undefined while records are read. */
  get obstacle(): string | undefined {
    if (this.#obstacle === undefined) return undefined
    const { error, sinceMs } = this.#obstacle
    if (performance.now() - sinceMs < pausesOfObstacle * this.#options.retryMs) return undefined
    return `this node cannot read the log after position ${this.#read.position}: ${error.message}`
  }

  /** Starts no further records until the hold ends: see `LogHold`. */
  hold(): LogHold {
    const hold: LogHold = {
      position: this.#admitted,
      reached: async (position, signal, timeoutMs) => {
        // A lost log does not bring this node any further: a snapshot shows what it has.
        if (lostIn(this.#failure) !== undefined) return
        hold.position = Math.max(hold.position, position)
        this.#waiters.wakeAll()
        await this.waitFor(hold.position, signal, timeoutMs)
      },
      [Symbol.dispose]: () => {
        this.#holds.delete(hold)
        this.#waiters.wakeAll()
      },
    }
    this.#holds.add(hold)
    return hold
  }

  start(): void {
    this.#running = this.#run()
  }

  /**
   * Resolves when everything up to a position is applied.
   *
   * @param timeoutMs absent: without a limit
   * @throws the signal's reason when that aborts first; the applier's failure; DatabaseError `not_ready` when it takes
   *   too long
   */
  async waitFor(position: number, signal: AbortSignal, timeoutMs?: number): Promise<void> {
    if (this.#applied.position >= position) return
    const late = timeoutMs === undefined ? [] : [AbortSignal.timeout(timeoutMs)]
    const any = AbortSignal.any([signal, this.#stop.signal, ...late])
    while (this.#applied.position < position) {
      if (this.#failure !== undefined) throw this.#failure
      if (late[0]?.aborted) throw notReached(this.#applied.position, position)
      any.throwIfAborted()
      await this.#waiters.wait(any)
    }
  }

  async close(): Promise<void> {
    this.#stop.abort(new DatabaseError('shutting_down', 'the server is shutting down'))
    await this.#running
    this.#waiters.wakeAll()
  }

  async #run(): Promise<void> {
    const { log, logger, retryMs } = this.#options
    const { signal } = this.#stop
    while (!signal.aborted && this.#failure === undefined) {
      try {
        for await (const entry of log.read(this.#read.position + 1, signal)) {
          await this.#take(entry)
          this.#obstacle = undefined
          if (signal.aborted || this.#failure !== undefined) return
        }
      } catch (error) {
        if (signal.aborted) return
        if (error instanceof LogGap) this.#options.onGap?.()
        const end = await this.#endOf(error)
        if (end !== undefined) return this.fail(end)
        if (this.#obstacle === undefined)
          logger.warn({ err: error }, 'reading the log of the cluster failed: retrying')
        this.#noteObstacle(error)
        await pause(retryMs, signal)
      }
    }
  }

  #noteObstacle(error: unknown): void {
    // Log servers that do not answer are no obstacle: reads continue, as of the last record.
    const { attempts, sinceMs } = this.#obstacle ?? { attempts: 0, sinceMs: performance.now() }
    this.#obstacle = isNoOutage(error)
      ? { error: error as Error, attempts: attempts + 1, sinceMs }
      : undefined
  }

  /** The error that no retry can fix; undefined when a retry may help. */
  async #endOf(error: unknown): Promise<Error | undefined> {
    if (error instanceof LogLost || error instanceof UnknownRecord || this.#failure !== undefined)
      return error as Error
    if (damageIn(error) !== undefined) return error as Error
    const isGap = error instanceof LogGap
    if (!isGap && !(error instanceof DamagedRecord)) return undefined
    const bounds = await this.#options.log.bounds().catch(() => undefined)
    if (bounds === undefined) return undefined
    const { position } = this.#read
    if (isGap && error.wanted < bounds.first) {
      return new NeedsReplica(
        `the log begins at ${bounds.first} and this node has applied it up to ${position}`,
      )
    }
    const attempts = this.#obstacle?.attempts ?? 0
    if (attempts < (isGap ? gapAttempts : damageAttempts)) return undefined
    if (isGap && !(await this.#isGone(error.wanted))) return undefined
    const isElsewhere = await this.#options.isAppliedElsewhere(position + 1).catch(() => false)
    if (!isElsewhere) return undefined
    return new NeedsReplica(
      `the log has lost a record after position ${position}, which other nodes have applied`,
    )
  }

  /** Whether the log has no record at a position; false while it does not answer. */
  async #isGone(position: number): Promise<boolean> {
    const { log } = this.#options
    return await log.get(position).then(
      (entry) => entry === undefined,
      () => false,
    )
  }

  async #take(entry: LogEntry): Promise<void> {
    const wanted = this.#read.position + 1
    if (entry.position !== wanted) throw new LogGap(wanted, entry.position)
    await this.#passHolds(wanted)
    const batch = await this.#assembler.accept(entry)
    if (batch === undefined) {
      this.#read = { ...this.#read, position: wanted }
      this.#track(this.#read, 0, undefined, Promise.resolve({ result: undefined }))
      return
    }
    const { request, timeUs } = await decodeInTurns(batch.payload)
    // A node whose clock is far ahead must not pull the cluster's clock forward.
    const clockUs = Math.max(this.#read.clockUs, Math.min(timeUs, (batch.appendedMs + aheadMsMax) * 1000))
    await this.#waitForRoom()
    const place = { position: wanted, clockUs }
    const outcome = await this.#begin(batch, request, place)
    this.#read = place
    this.#track(place, batch.payload.length, batch, outcome())
  }

  async #passHolds(position: number): Promise<void> {
    while (this.#isHeld(position)) {
      this.#stop.signal.throwIfAborted()
      await this.#waiters.wait(this.#stop.signal)
    }
    this.#admitted = position
  }

  #isHeld(position: number): boolean {
    for (const hold of this.#holds) if (hold.position < position) return true
    return false
  }

  async #waitForRoom(): Promise<void> {
    while (this.#flightBytes > this.#options.bytesInFlightMax && this.#failure === undefined) {
      this.#stop.signal.throwIfAborted()
      await this.#waiters.wait(this.#stop.signal)
    }
  }

  /** Does the work that must finish before the next record is looked at; returns a function that does the rest. */
  async #begin(batch: Batch, request: ClusterRequest, place: LogPlace): Promise<() => Promise<Outcome>> {
    switch (request.kind) {
      case 'barrier':
        return async () => ({ result: undefined })
      case 'audit':
        return await this.#between(batch.collection, place.position, (lease) => {
          using _ = lease
          this.#options.onAudit(batch.collection, place.position, lease.database.replica.digest)
        })
      case 'cut':
        return await this.#between(batch.collection, place.position, (lease) =>
          this.#options.onCut(batch.collection, request, lease),
        )
      case 'digest':
        this.#options.onDigest(batch.collection, request)
        return async () => ({ result: undefined })
      case 'create':
      case 'drop':
      case 'aliases': {
        await this.waitFor(place.position - 1, this.#stop.signal)
        await this.#options.main.replica.mark()
        this.show(place.position)
        const outcome = await this.#changeCollections(request)
        return async () => outcome
      }
      default:
        return await this.#change(batch.collection, request, {
          position: place.position,
          nowUs: place.clockUs,
        })
    }
  }

  async #change(name: string, request: LoggedRequest, stamp: Stamp): Promise<() => Promise<Outcome>> {
    const held = this.#options.held?.()
    const isOurs = held === undefined || concerns(request, held)
    if (!isOurs && !this.#mayFixDimension(name, request)) return async () => ({ result: undefined, held })
    const leased = await outcomeOf(async () => await this.#options.set.lease(name))
    if ('error' in leased) return async () => leased
    const lease = leased.result
    const { replica } = lease.database
    // Applied before the last restart: the outcome is no longer known, and nobody waits for it.
    if (replica.position >= stamp.position) {
      lease[Symbol.dispose]()
      return async () => ({ result: undefined, held: noPartitions })
    }
    const applied = replica.apply(request, stamp, held)
    return async () => {
      try {
        const outcome = await outcomeOf(() => applied)
        // Only the owners know the points that the outcome depends on.
        return isOurs ? { ...outcome, held } : { result: undefined, held }
      } finally {
        lease[Symbol.dispose]()
      }
    }
  }

  /**
   * A collection without a dimension has no points on any node. So every node can decide about the record that sets
   * the dimension, whichever partitions that record is about.
   */
  #mayFixDimension(name: string, { kind }: LoggedRequest): boolean {
    return (kind === 'insert' || kind === 'put') && this.#options.set.lacksDimension(name)
  }

  /**
   * Looks at a collection between two records: everything before is applied, and no later record starts meanwhile.
   *
   * @param look closes the lease
   */
  async #between(
    name: string,
    position: number,
    look: (lease: CollectionLease) => void,
  ): Promise<() => Promise<Outcome>> {
    await this.waitFor(position - 1, this.#stop.signal)
    const leased = await outcomeOf(async () => await this.#options.set.lease(name))
    if ('error' in leased) return async () => leased
    // After a restart a collection can be ahead: it is then not that of this position.
    if (leased.result.database.replica.position < position) look(leased.result)
    else leased.result[Symbol.dispose]()
    return async () => ({ result: undefined })
  }

  async #changeCollections(
    request: Extract<ClusterRequest, { readonly kind: 'create' | 'drop' | 'aliases' }>,
  ): Promise<Outcome> {
    const { set, retryMs, logger } = this.#options
    for (;;) {
      try {
        return await outcomeOf(async () => {
          if (request.kind === 'create') {
            const { created } = await set.put(request.name, request.settings)
            return { created }
          }
          if (request.kind === 'drop') await set.drop(request.name)
          else await set.setAliases(request.set, request.remove)
          return undefined
        })
      } catch (error) {
        if (!lacksRoom(error)) throw error
        logger.warn({ err: error }, 'a change of collections waits for free disk space or open files')
        await delay(retryMs, undefined, { signal: this.#stop.signal })
      }
    }
  }

  #track(place: LogPlace, bytes: number, batch: Batch | undefined, outcome: Promise<Outcome>): void {
    const flight: Flight = { place, bytes, isDone: false, readMs: performance.now() }
    this.#flight.push(flight)
    this.#flightBytes += bytes
    outcome.then(
      (ended) => {
        if (this.#failure !== undefined) return
        // Earlier records of other collections may still be under way: their callers wait, not this one's.
        if (batch !== undefined) this.#options.outcomes.settle(batch, { ...ended, position: place.position })
        flight.isDone = true
        this.#land()
      },
      (error: unknown) => this.fail(error),
    )
  }

  /** Removes finished records from the front of the queue, in log order. */
  #land(): void {
    const { timings } = this.#options
    for (let first = this.#flight[0]; first?.isDone; first = this.#flight[0]) {
      this.#flight.shift()
      this.#flightBytes -= first.bytes
      this.#applied = first.place
      timings?.()?.apply((performance.now() - first.readMs) / 1000)
    }
    this.#waiters.wakeAll()
  }

  /** Stops applying for good. */
  fail(cause: unknown): void {
    if (this.#failure !== undefined || this.#stop.signal.aborted) return
    const lost = lostIn(cause)
    const what =
      lost === undefined ? 'this node can no longer apply the log of the cluster' : lostLogMessage(lost)
    this.#failure = new DatabaseError('not_ready', what, { cause })
    this.#options.onFailure(this.#failure)
    this.#waiters.wakeAll()
  }
}

/** Keeps this node from applying the log beyond a position, until it is disposed. */
interface LogHold extends Disposable {
  /** Records up to here are still applied. */
  position: number
  /**
   * Raises the hold to `position` if that is higher; resolves when everything up to there is applied.
   *
   * @throws see `Applier.waitFor`
   */
  reached(position: number, signal: AbortSignal, timeoutMs?: number): Promise<void>
}

function notReached(applied: number, position: number): DatabaseError {
  return new DatabaseError(
    'not_ready',
    `this node has applied the log up to ${applied}, and the request asks for ${position}: try again, or ask another node`,
  )
}

/** What keeps the applier from reading the next record. */
interface Obstacle {
  readonly error: Error
  /** Failed attempts in succession. */
  readonly attempts: number
  /** When the first of them failed, by `performance.now()`. */
  readonly sinceMs: number
}

/** A record that is being applied. */
interface Flight {
  readonly place: LogPlace
  readonly bytes: number
  isDone: boolean
  readonly readMs: number
}

/**
 * Returns the result, or an error that every replica gets alike.
 *
 * @throws any other error
 */
async function outcomeOf<Result>(
  work: () => Promise<Result>,
): Promise<{ readonly result: Result } | { readonly error: unknown }> {
  try {
    return { result: await work() }
  } catch (error) {
    const isShared = error instanceof DatabaseError && catalogReasons.has(error.reason)
    if (isShared || isDecided(error)) return { error }
    throw error
  }
}

/** Reasons of errors that every replica gets alike when collections change. `isDecided` knows those of points. */
const catalogReasons: ReadonlySet<string> = new Set(['collection_not_found', 'overloaded'])

/** The partitions whose outcome is known for a record that was applied before the last restart: none. */
const noPartitions = new PartitionSet()

/** After so many pauses it is no passing trouble: usually 5 s. */
const pausesOfObstacle = 25
/** A reader reports a gap only after it has asked several servers. */
const gapAttempts = 2
/** Each attempt may ask another server, which may have an intact copy. */
const damageAttempts = 15

/** How far the time in a record may be ahead of the log's clock. */
const aheadMsMax = 10_000
