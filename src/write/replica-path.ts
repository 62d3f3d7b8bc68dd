import { setTimeout as delay } from 'node:timers/promises'
import { assert } from '../base/assert.ts'
import { DatabaseError, lacksRoom } from '../base/errors.ts'
import { idBytes, idFromBytes, idsFromSeed, idToBytes } from '../base/ids.ts'
import { type PartitionSet, partitionOf } from '../base/partitions.ts'
import type { BudgetShare } from '../base/shared-budget.ts'
import { Turn } from '../base/turns.ts'
import type { SlotAllocator } from '../points/slot-allocator.ts'
import { type Applied, PartitionDigest } from '../storage/applied.ts'
import type { Store } from '../storage/store.ts'
import { ChangeDecider } from './change-decider.ts'
import type { ChangeTarget } from './change-target.ts'
import type { Decision } from './decision.ts'
import { ForeignPoints } from './foreign-points.ts'
import { GroupSteps } from './group-steps.ts'
import {
  changesPerRecord,
  type LoggedInsert,
  type LoggedRequest,
  type LoggedResult,
  type Stamp,
} from './logged-request.ts'
import type { Placed } from './placed-changes.ts'
import type { ReplicaHooks } from './replica-hooks.ts'
import { StaleRequest } from './stale-request.ts'
import { type QueueAnswer, WriteQueue } from './write-queue.ts'
import {
  keyedOf,
  loggedBytes,
  pointBytes,
  requestOverheadBytes,
  type TakenPoint,
  type WriteRequest,
} from './write-request.ts'

/**
 * The path of every change on a node of a cluster. A node without a cluster uses `WritePath`.
 *
 *   log ──> queue ──> group ──> decide ──> place ──> store, with the position ──> apply ──> answer
 *                       │          │         ^ │              │
 *                       │          │         │ └ memory_full  └ disk_full
 *                       │          │         └─ wait, try again ─┘
 *                       │          └ refused: an answer like any other, the same on every replica
 *                       └ in the order of the log; nothing is skipped or cancelled
 *
 * Every replica makes the same decision, from the points after the earlier records, the record, and its stamp. So a
 * request is decided once, and only its placement is repeated when memory or the disk is full. If another replica can
 * carry out a record and this one cannot, this one waits and never skips it.
 *
 * Main thread only.
 */
export class ReplicaPath {
  readonly #store: Store
  readonly #target: ChangeTarget
  readonly #queue: WriteQueue
  readonly #decider: ChangeDecider
  readonly #steps: GroupSteps
  readonly #hooks: ReplicaHooks
  /** Tracks points that reads do not show; undefined where every node holds all partitions. */
  readonly foreign: ForeignPoints | undefined
  readonly #base: number
  readonly #stop = new AbortController()
  #digest: PartitionDigest
  /** The progress of the log that is stored, except for the digest. */
  #position: number
  #clockUs: number
  #running: Promise<void> | undefined
  #refusal: DatabaseError | undefined

  constructor(options: {
    readonly store: Store
    readonly slots: SlotAllocator
    readonly target: ChangeTarget
    readonly queuedBytes: BudgetShare
    readonly hooks: ReplicaHooks
  }) {
    const { store, slots, target, queuedBytes, hooks } = options
    this.#store = store
    this.#target = target
    this.#hooks = hooks
    this.#queue = new WriteQueue(queuedBytes)
    this.#decider = new ChangeDecider(store, target)
    this.#steps = new GroupSteps(store, slots, target, hooks.onVisible)
    const { applied } = store
    this.#base = applied?.base ?? store.sequence
    this.#position = applied?.position ?? 0
    if (this.#position > 0) hooks.onVisible(this.#position)
    this.#clockUs = applied?.clockUs ?? 0
    this.#digest = new PartitionDigest(applied?.digest)
    this.foreign = hooks.held && new ForeignPoints(hooks.held, this.#digest)
  }

  /** The position of the last record that was decided here. Records up to it are not applied again. */
  get position(): number {
    return this.#position
  }

  /** Sequence numbers of records after a position are at least this; those of earlier records are lower. */
  numberAfter(position: number): number {
    return this.#base + (position + 1) * changesPerRecord
  }

  /** The stored progress of the log; undefined for a collection that has not applied any of it. */
  get applied(): Applied | undefined {
    return this.#store.applied
  }

  /** Counts a point that was stored before the collection became a replica. */
  addToDigest(id: Uint8Array, version: number): void {
    this.#digest.add(id, version)
  }

  /** The digest of the stored points. */
  get digest(): Uint8Array {
    return this.#digest.bytes
  }

  /**
   * Carries out a request. Calls must be in the order of the log, each position once.
   *
   * @param held the partitions that the node holds, as in the hooks; the point of a patch or a removal must be in one
   *   of them
   * @throws DatabaseError when every replica refuses the request; any other error when this replica cannot continue
   */
  apply(request: LoggedRequest, stamp: Stamp, held?: PartitionSet): Promise<LoggedResult> {
    if (request.kind === 'insert') {
      const keyed = request.identity && keyedOf(request.identity)
      return this.#submit(loggedBytes(request), (answer) => ({
        ...{ ...request, keyed, stamp, held, drawnIds: drawnIdsOf(request) },
        ...answer,
      }))
    }
    if (request.kind === 'each') {
      return this.#submit(loggedBytes(request), (answer) => ({
        ...{ kind: 'each', request, stamp, held },
        ...answer,
      }))
    }
    if (request.kind === 'expire') {
      return this.#submit(loggedBytes(request), (answer) => ({ ...request, stamp, held, ...answer }))
    }
    if (request.kind === 'put') {
      const { when } = request
      return this.#submit(loggedBytes(request), (answer) => ({ ...request, when, stamp, held, ...answer }))
    }
    if (request.kind === 'patch') {
      const { when } = request
      return this.#submit(loggedBytes(request), (answer) => ({ ...request, when, stamp, ...answer }))
    }
    return this.#submit(loggedBytes(request), (answer) => ({ ...request, stamp, ...answer }))
  }

  /**
   * Stores how far all collections have applied the log.
   *
   * @param held for the default collection: the partitions that the node holds from now on
   */
  async mark(held?: PartitionSet): Promise<void> {
    await this.#submit<void>(0, (answer) => ({ kind: 'mark', held, ...answer }))
  }

  /**
   * Adds points as another node has them, in the order in which `apply` is called. Nobody may read them yet.
   *
   * @throws DatabaseError `already_exists` when a point is already stored in another version; `disk_full`,
   *   `memory_full`
   */
  async take(points: readonly TakenPoint[]): Promise<void> {
    const held = this.#hooks.held!.now
    for (const { id } of points) {
      // Points of partitions that the node holds change only through the log.
      assert(!held.has(partitionOf(id)), `point ${id} belongs to a partition that the node holds`)
    }
    const bytes = points.reduce((sum, { point }) => sum + pointBytes(point), 0)
    await this.#submit<void>(bytes, (answer) => ({ kind: 'take', points, ...answer }))
  }

  /**
   * Removes points of partitions that the node does not hold, without the log.
   *
   * @param keeps whether the points of a partition are kept; absent: those of partitions that the node holds
   */
  async clear(
    ids: readonly string[],
    keeps: (partition: number) => boolean = (each) => this.#hooks.held!.now.has(each),
  ): Promise<void> {
    const bytes = ids.length * requestOverheadBytes
    await this.#submit<void>(bytes, (answer) => ({ kind: 'clear', ids, keeps, ...answer }))
  }

  /** Makes the change of a point take effect immediately, if it is committed. */
  settle(id: string): void {
    this.#steps.settle(id)
  }

  /** See `GroupSteps.slotsToEmpty`. */
  slotsToEmpty(): Generator<number, void> {
    return this.#steps.slotsToEmpty()
  }

  /** Finishes the group that is being stored. Waiting requests are refused, and read from the log again later. */
  async close(): Promise<void> {
    await this.discard(new DatabaseError('shutting_down', 'the server is shutting down'))
  }

  async discard(error: DatabaseError): Promise<void> {
    this.#refusal ??= error
    this.#stop.abort(error)
    this.#queue.refuseAll(error)
    await this.#running
  }

  #submit<Result>(
    bytes: number,
    requestOf: (answer: QueueAnswer<Result> & { readonly signal: undefined }) => WriteRequest,
  ): Promise<Result> {
    if (this.#refusal !== undefined) return Promise.reject(this.#refusal)
    const answer = this.#queue.add<Result>(bytes, (each) => requestOf({ ...each, signal: undefined }))
    this.#running ??= this.#run()
    return answer
  }

  async #run(): Promise<void> {
    // Requests made in the same turn join the first group.
    await Promise.resolve()
    while (!this.#queue.isEmpty) {
      await this.#hasRoom()
      const { dimension, comingBytesMax } = this.#target
      // Which keys are evicted must not depend on how the log is cut into groups.
      const keysMax = Math.max(1, this.#store.keyedRequestRoom)
      const requests = this.#queue.takeGroup(dimension, comingBytesMax, keysMax)
      try {
        await this.#carryOut(requests)
      } catch (error) {
        this.#end(requests, error)
      }
    }
    this.#running = undefined
  }

  /** Waits until the index can take more points. */
  async #hasRoom(): Promise<void> {
    for (;;) {
      const room = this.#target.room()
      if (room === undefined || this.#stop.signal.aborted || (await room)) return
    }
  }

  /** Stops the replica: if it cannot apply a record, it must not apply any later one. */
  #end(requests: readonly WriteRequest[], cause: unknown): void {
    const what = 'applying the log has stopped until the server is restarted'
    this.#refusal ??= new DatabaseError('internal', what, { cause })
    const error = this.#refusal
    for (const request of requests) request.reject(error)
    this.#queue.refuseAll(error)
    if (!this.#stop.signal.aborted) this.#hooks.onStall(error)
  }

  async #carryOut(requests: readonly WriteRequest[]): Promise<void> {
    for (let done = 0; done < requests.length; ) {
      const { decisions, count } = await this.#decide(requests.slice(done))
      const last = requests.slice(done, done + count).findLast(({ stamp }) => stamp !== undefined)?.stamp
      const position = last?.position ?? this.#position
      const clockUs = Math.max(this.#clockUs, last?.nowUs ?? 0)
      // Refused requests need no commit: after a restart they are decided again, with the same result.
      if (decisions.length > 0) await this.#commit(decisions, { position, clockUs })
      this.#position = position
      this.#clockUs = clockUs
      done += count
    }
  }

  /**
   * Decides as many of the requests as one group can store. A record whose time passes the expiry of a point that the
   * group changes starts the next group. Otherwise reads would miss that point until the group is stored, although it
   * may be there both before and after.
   */
  async #decide(
    requests: readonly WriteRequest[],
  ): Promise<{ readonly decisions: readonly Decision[]; readonly count: number }> {
    const decisions: Decision[] = []
    let expiresAtUs = Number.POSITIVE_INFINITY
    const turn = new Turn()
    for (const [count, request] of requests.entries()) {
      if (request.stamp !== undefined && request.stamp.nowUs >= expiresAtUs) return { decisions, count }
      try {
        const decision = await this.#decider.decide(request, turn)
        if (decision === undefined) continue
        decisions.push(decision)
        expiresAtUs = Math.min(expiresAtUs, await this.#firstExpiry(decision, turn))
      } catch (error) {
        if (!isDecided(error)) throw error
        request.reject(error)
      }
    }
    return { decisions, count: requests.length }
  }

  /** When the first of the points that a decision changes expires, as they are now. */
  async #firstExpiry({ changes }: Decision, turn: Turn): Promise<number> {
    let expiresAtUs = Number.POSITIVE_INFINITY
    for (const { id } of changes) {
      const slot = this.#target.find(id)
      if (slot !== -1) expiresAtUs = Math.min(expiresAtUs, this.#target.expiryOf(slot) ?? expiresAtUs)
      if (turn.isOver) await turn.next()
    }
    return expiresAtUs
  }

  async #commit(
    decisions: readonly Decision[],
    { position, clockUs }: Pick<Applied, 'position' | 'clockUs'>,
  ): Promise<void> {
    const digest = await this.#digestAfter(decisions)
    for (;;) {
      let placed: readonly Placed[] = []
      try {
        placed = await this.#place(decisions)
        const { position: floor, clockUs: floorClockUs } = this.#hooks.floor()
        const { logId } = this.#hooks
        const base = this.#base
        const held = heldAfter(decisions) ?? this.#hooks.held?.now
        await this.#steps.store(placed, {
          ...{ logId, position, clockUs, floor, floorClockUs, base },
          digest: digest.bytes,
          ...(held === undefined || held.isAll ? {} : { held: held.bytes }),
        })
      } catch (error) {
        if (!lacksRoom(error)) throw error
        if (decisions.every(({ request }) => request.kind === 'take')) {
          // Points that are not from the log must not delay it.
          for (const { request } of decisions) request.reject(error)
          return
        }
        this.#hooks.onStall(error)
        await delay(this.#hooks.retryMs ?? retryMs, undefined, { signal: this.#stop.signal })
        continue
      }
      this.#hooks.onStall(undefined)
      this.foreign?.begin(this.#digest, digest)
      this.#digest = digest
      this.#replaceHeld(heldAfter(decisions))
      await this.#steps.apply(placed)
      this.foreign?.end(digest)
      return
    }
  }

  async #place(decisions: readonly Decision[]): Promise<Placed[]> {
    const placed: Placed[] = []
    const turn = new Turn()
    try {
      for (const decision of decisions) placed.push(await this.#steps.place(decision, turn))
      return placed
    } catch (error) {
      this.#steps.abandon(placed)
      throw error
    }
  }

  #replaceHeld(held: PartitionSet | undefined): void {
    if (held !== undefined) this.#hooks.held!.now = held
  }

  async #digestAfter(decisions: readonly Decision[]): Promise<PartitionDigest> {
    const digest = new PartitionDigest(this.#digest.bytes)
    const turn = new Turn()
    for (const { changes } of decisions) {
      for (const change of changes) {
        const { id, kind, sequence } = change
        const bytes = idToBytes(id)
        const slot = this.#target.slotOf(id)
        if (slot !== -1) digest.remove(bytes, this.#target.versionOf(slot))
        if (kind === 'insert') digest.add(bytes, change.version ?? sequence)
        else if (kind === 'update') digest.add(bytes, sequence)
        if (turn.isOver) await turn.next()
      }
    }
    return digest
  }
}

/** Returns the partitions that the node holds after a group that changes them. */
function heldAfter(decisions: readonly Decision[]): PartitionSet | undefined {
  for (const { request } of decisions.toReversed()) {
    if (request.kind === 'mark' && request.held !== undefined) return request.held
  }
  return undefined
}

/** Returns the drawn id of each point of an insert; empty if all points have their own ids. */
function drawnIdsOf({ points, idSeed }: LoggedInsert): readonly string[] {
  if (points.every(({ id }) => id !== undefined)) return []
  const ids = idsFromSeed(idSeed, points.length, true)
  return points.map((_, index) => idFromBytes(ids, index * idBytes))
}

/** Whether every replica refuses the request. */
export function isDecided(error: unknown): error is DatabaseError {
  if (error instanceof StaleRequest) return true
  return error instanceof DatabaseError && decidedReasons.has(error.reason)
}

const decidedReasons: ReadonlySet<string> = new Set([
  ...['invalid_argument', 'key_reused', 'not_found', 'already_exists'],
  ...['precondition_failed', 'request_too_large'],
])

const retryMs = 1000
