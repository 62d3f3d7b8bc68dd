import { setTimeout as delay } from 'node:timers/promises'
import type { BudgetShare } from '../base/budgets.ts'
import { assert, cancellation, DatabaseError, lacksRoom } from '../base/errors.ts'
import type { PartitionSet } from '../base/partitions.ts'
import type { Payload } from '../base/point.ts'
import { Turn } from '../base/turns.ts'
import type { SlotAllocator } from '../points/point-table.ts'
import type { Applied, PartitionDigest } from '../storage/applied.ts'
import type { Change, Store, WriteGroup } from '../storage/store.ts'
import { ChangeDecider, type Decision } from './decide.ts'
import {
  type ChangeTarget,
  isDecided,
  type RequestSource,
  type Results,
  type WriteRequest,
} from './requests.ts'
import { type Queued, WriteQueue } from './write-queue.ts'

/**
 * The path of every change to disk and then to memory.
 *
 *   request ──> queue ──> group ──> decide ──> place ──> store ──> apply ──> answer
 *                 │                   │          │  ^      │
 *                 └ overloaded        │          │  │      ├ disk_full: see below
 *              (bounded in bytes)     │          │  │      └ internal: all requests of the group fail,
 *                                     │          │  │                  and writes stop
 *                                     │          └ memory_full
 *                                     ├ cancelled, key_reused, already_exists, precondition_failed, another dimension
 *                                     └ nothing to change, or stored before under its key: answered
 *
 * What changes and where it is stored are separate. `ChangeDecider` gives a change its id and its sequence number once,
 * and the change keeps them. Its slot is chosen again for each attempt: when a group fails, its slots are free again.
 *
 * One group commits at a time, and requests that arrive meanwhile form the next. The slower the disk, the larger the
 * groups, so requests share the cost of an fsync without waiting for a timer. A request is never split over groups, so
 * a batch is on disk as a whole or not at all. The exception is the deletion of expired points, which nobody sees. No
 * two requests of a group concern the same point (`WriteQueue`), so the whole group can be decided from the state after
 * the groups before it.
 *
 * Requests come from callers or, on a node of a cluster, from its log. There are three differences:
 *
 * - A caller's request waits in a bounded queue, and can be cancelled or refused. Records of the log are carried out in
 *   their order; none is skipped. A refusal is an answer like any other, the same on every replica.
 * - When memory or the disk is full, a caller's request fails alone: the requests of its group are tried one by one, and
 *   many deletions in parts. A node that lacks room for a record of the log waits, because other replicas have applied
 *   it.
 * - With each group of the log, its progress is stored (`LogProgress`).
 *
 * The first committed insertion fixes the dimension. Until then, all vectors of a group have the length of its first
 * insert. An insert of another length waits for the next group, and is refused there if the first was stored.
 *
 * Main thread only; the only caller of `store.commit` and of `target.apply`.
 */
export class WritePath {
  readonly #store: Store
  readonly #slots: SlotAllocator
  readonly #target: ChangeTarget
  readonly #log: LogProgress | undefined
  readonly #queue: WriteQueue
  readonly #decider: ChangeDecider
  readonly #stop = new AbortController()
  #running: Promise<void> | undefined
  /** Why new requests are refused. */
  #refusal: Error | undefined
  /** The group that is being stored or is taking effect. */
  #group: readonly Placed[] = []
  /** How far the log is applied after that group. */
  #applied: Applied | undefined
  /** The changes of that group by the ids of their points, each id once; created at the first lookup. */
  #places: ReadonlyMap<string, { readonly placed: Placed; readonly at: number }> | undefined

  constructor(options: {
    readonly store: Store
    readonly slots: SlotAllocator
    readonly target: ChangeTarget
    /** The bytes of requests that wait for the disk or are on their way to it. */
    readonly queuedBytes: BudgetShare
    /** On a node of a cluster. */
    readonly log?: LogProgress
  }) {
    const { store, slots, target, queuedBytes, log } = options
    this.#store = store
    this.#slots = slots
    this.#target = target
    this.#log = log
    this.#queue = new WriteQueue(queuedBytes)
    this.#decider = new ChangeDecider(store, target)
  }

  /**
   * Carries out a request; resolves when its changes are on disk and visible.
   *
   * @throws DatabaseError when the request is refused
   */
  submit<Kind extends WriteRequest['kind']>(
    request: WriteRequest & { readonly kind: Kind },
    source: RequestSource = {},
  ): Promise<Results[Kind]> {
    if (this.#refusal !== undefined) return Promise.reject(this.#refusal)
    const answer = this.#queue.add(request, source, this.#log === undefined)
    if (!this.#queue.isEmpty) this.#running ??= this.#run()
    // The decision has the result of the request's kind.
    return answer as Promise<Results[Kind]>
  }

  /** Whether no group is being stored or is taking effect: memory has exactly the stored points. */
  get isIdle(): boolean {
    return this.#group.length === 0
  }

  async #run(): Promise<void> {
    // Requests made in the same turn join the first group.
    await Promise.resolve()
    while (!this.#queue.isEmpty) {
      const requests = await this.#nextGroup()
      try {
        const decisions = await this.#decide(requests)
        if (this.#log === undefined) await this.#commit(decisions)
        else await this.#commitOfLog(this.#log, requests, decisions)
      } catch (error) {
        this.#stopWrites(requests, error)
      } finally {
        // Also those of a request whose decision failed halfway.
        await this.#target.expirations.endPostponements()
        this.#target.applied()
      }
    }
    this.#running = undefined
  }

  async #nextGroup(): Promise<readonly Queued[]> {
    const target = this.#target
    let waiting = target.whenIndexReady()
    if (this.#log === undefined) {
      return waiting === undefined
        ? this.#queue.takeGroup(target.dimension, target.comingBytesMax)
        : await this.#passingGroup(waiting)
    }
    for (; waiting !== undefined; waiting = target.whenIndexReady()) {
      if (this.#stop.signal.aborted || (await waiting)) break
    }
    // Which keys are evicted must not depend on how the log is cut into groups.
    const keysMax = Math.max(1, this.#store.keyedRequestRoom)
    return this.#queue.takeGroup(target.dimension, target.comingBytesMax, keysMax)
  }

  /** Takes requests without vectors while vectors wait for the index, and refuses vectors that have waited too long. */
  async #passingGroup(indexReady: Promise<boolean>): Promise<readonly Queued[]> {
    const requests = this.#queue.takePassing()
    if (requests.length > 0) return requests
    const isReady = await Promise.race([indexReady, this.#queue.nextPassing().then(() => true)])
    if (!isReady) this.#queue.refuseVectors(this.#target.isRebuilding)
    return []
  }

  /** Decides what the requests change; answers those that change nothing or are refused. */
  async #decide(requests: readonly Queued[]): Promise<Decision[]> {
    const decisions: Decision[] = []
    const turn = new Turn()
    for (const queued of requests) {
      try {
        refuseCancelled(queued)
        const decision = await this.#decider.decide(queued, turn)
        if (isStored(decision)) decisions.push(decision)
        else queued.resolve(decision.result)
      } catch (error) {
        // A node that cannot decide a record must not apply any later one.
        if (this.#log !== undefined && !isDecided(error)) throw error
        queued.reject(error)
      }
    }
    return decisions
  }

  /**
   * Makes changes of callers durable and visible; answers their requests.
   *
   * @returns for a single request, whether its changes were stored
   */
  async #commit(decisions: readonly Decision[]): Promise<boolean> {
    const placed: Placed[] = []
    const turn = new Turn()
    for (const decision of decisions) {
      try {
        // The previous attempt may have taken long.
        refuseCancelled(decision.queued)
        placed.push(await this.#place(decision, turn))
      } catch (error) {
        await this.#refuse(decision, error)
      }
    }
    if (placed.length === 0) return false
    try {
      await this.#storeGroup(placed)
    } catch (error) {
      if (placed.length > 1 && isOfOneRequest(error)) {
        // One large insert must not make the others fail. Deletions in particular must succeed.
        for (const each of placed) await this.#commit([each])
        return false
      }
      const parts = placed.length === 1 && isDiskFull(error) ? partsOf(placed[0]!) : []
      for (const part of parts) if (!(await this.#commit([part]))) return false
      if (parts.length > 0) return true
      for (const each of placed) await this.#refuse(each, error)
      return false
    }
    await this.#apply(placed)
    return true
  }

  /** Points that the request would have renewed expire before it is answered. */
  async #refuse({ queued, changes }: Decision, error: unknown): Promise<void> {
    const turn = new Turn()
    for (const { id } of changes) {
      const slot = this.#target.table.slotOf(id)
      if (slot !== -1) this.#target.expirations.endPostponement(slot)
      if (turn.isOver) await turn.next()
    }
    this.#target.applied()
    queued.reject(error)
  }

  /** Makes records of the log durable and visible, with the progress of the log; answers them. */
  async #commitOfLog(
    log: LogProgress,
    requests: readonly Queued[],
    decisions: readonly Decision[],
  ): Promise<void> {
    const step = await log.stepOver(requests, decisions)
    // Refused requests need no commit: after a restart they are decided again, with the same result.
    if (decisions.length > 0) {
      const placed = await this.#storeOfLog(log, step, decisions)
      if (placed === undefined) return
      log.begin(step)
      await this.#apply(placed)
    }
    log.end(step)
  }

  /** Tries until the changes are stored; returns undefined if they were refused. */
  async #storeOfLog(
    log: LogProgress,
    step: LogStep,
    decisions: readonly Decision[],
  ): Promise<readonly Placed[] | undefined> {
    for (;;) {
      try {
        const placed = await this.#placeAll(decisions)
        await this.#storeGroup(placed, log.recordOf(step))
        log.onStall(undefined)
        return placed
      } catch (error) {
        if (!lacksRoom(error)) throw error
        if (decisions.every(({ queued }) => queued.request.kind === 'take')) {
          // Points that are not from the log must not delay it.
          for (const { queued } of decisions) queued.reject(error)
          return undefined
        }
        log.onStall(error)
        await delay(log.retryMs, undefined, { signal: this.#stop.signal })
      }
    }
  }

  async #placeAll(decisions: readonly Decision[]): Promise<readonly Placed[]> {
    const placed: Placed[] = []
    const turn = new Turn()
    try {
      for (const decision of decisions) placed.push(await this.#place(decision, turn))
      return placed
    } catch (error) {
      this.#abandon(placed)
      throw error
    }
  }

  /**
   * Chooses the slots of a decision's changes.
   *
   * @throws DatabaseError `memory_full`
   */
  #place(decision: Decision, turn: Turn): Promise<Placed> {
    return this.#target.withMemory(() => this.#placeChanges(decision, turn))
  }

  async #placeChanges(decision: Decision, turn: Turn): Promise<Placed> {
    const { changes, dimension } = decision
    const check = this.#target.memoryCheck()
    const vectors = changes.map(vectorOf).filter((vector) => vector !== undefined)
    const length = vectors[0]?.length ?? dimension
    if (length !== undefined) this.#target.reserve(this.#slots.slotCountAfter(vectors.length), length)
    for (const change of changes) {
      const payload = payloadOf(change)
      if (payload !== undefined) {
        check.add(payload)
        const preparing = this.#target.prepare(payload)
        if (preparing !== undefined) await preparing
      }
      if (turn.isOver) await turn.next()
    }
    const slots: number[] = []
    const leaving: (number | undefined)[] = []
    for (const change of changes) {
      slots.push(vectorOf(change) === undefined ? this.#slotOf(change.id) : this.#slots.take())
      const isMoved = change.kind === 'update' && change.vector !== undefined
      leaving.push(isMoved ? this.#slotOf(change.id) : undefined)
      if (slots.length % slotsPerLook === 0 && turn.isOver) await turn.next()
    }
    return { ...decision, slots, leaving, isApplied: new Uint8Array(changes.length) }
  }

  #slotOf(id: string): number {
    const slot = this.#target.table.slotOf(id)
    assert(slot !== -1, 'a point to be changed exists')
    return slot
  }

  /** Frees the slots of changes that will not be stored in them. */
  #abandon(placed: readonly Placed[]): void {
    for (const { changes, slots } of placed) {
      for (const [at, change] of changes.entries()) {
        if (vectorOf(change) !== undefined) this.#slots.release(slots[at]!)
      }
    }
  }

  /**
   * Makes a group durable. If that fails, its slots are freed.
   *
   * @param applied on a node of a cluster: how far its log is applied after the group
   * @throws what `Store.commit` throws
   */
  async #storeGroup(placed: readonly Placed[], applied?: Applied): Promise<void> {
    this.#setGroup(placed, applied)
    try {
      await this.#store.commit(groupOf(placed, applied))
    } catch (error) {
      this.#setGroup([])
      this.#abandon(placed)
      this.#target.commitFailed()
      throw error
    }
  }

  /** Makes the stored group take effect, and answers its requests. */
  async #apply(group: readonly Placed[]): Promise<void> {
    const turn = new Turn()
    for (const placed of group) {
      const isWhole = isSmall(placed)
      for (let at = 0; at < placed.changes.length; at += 1) {
        this.#applyOne(placed, at)
        if (isWhole) continue
        this.#target.applied()
        if (turn.isOver) await turn.next()
      }
      this.#target.applied()
      if (placed.dimension !== undefined) this.#target.fixDimension()
      if (placed.refusal === undefined) placed.queued.resolve(placed.result)
      else placed.queued.reject(placed.refusal)
      if (turn.isOver) await turn.next()
    }
    this.#target.allApplied()
    this.#setGroup([])
  }

  /** Applies a change unless that is already done. */
  #applyOne(placed: Placed, at: number): void {
    if (placed.isApplied[at] === 1) return
    placed.isApplied[at] = 1
    if (this.#applied !== undefined) this.#log?.onVisible(this.#applied.position)
    this.#target.apply(placed.changes[at]!, placed.slots[at]!)
  }

  #setGroup(placed: readonly Placed[], applied?: Applied): void {
    this.#group = placed
    this.#applied = applied
    this.#places = undefined
  }

  /**
   * Makes the change of a point take effect immediately, if it is stored, together with the other changes of a small
   * request. Between the commit of a group and the last of its changes taking effect, the store is ahead of memory.
   */
  settle(id: string): void {
    this.#places ??= new Map(
      this.#group.flatMap((placed) =>
        placed.changes.map((change, at) => [change.id, { placed, at }] as const),
      ),
    )
    const place = this.#places.get(id)
    if (place === undefined || !this.#isStored(place.placed, place.at)) return
    const { placed, at } = place
    if (!isSmall(placed)) this.#applyOne(placed, at)
    else for (let each = 0; each < placed.changes.length; each += 1) this.#applyOne(placed, each)
    this.#target.applied()
  }

  #isStored({ queued: { request }, changes }: Placed, at: number): boolean {
    // Points from another node keep that node's sequence numbers, and nobody reads them yet.
    if (request.kind === 'take') return false
    const { sequence, applied } = this.#store
    if (this.#applied === undefined || request.kind === 'clear') return changes[at]!.sequence <= sequence
    // Data from another node can be ahead of this node's log, and so can its sequence numbers.
    return applied !== undefined && applied.position >= this.#applied.position
  }

  /**
   * Stops all writes after a fault of our own between disk and memory. Memory may no longer match the disk, so nothing
   * more is written on top of it. Rejecting a request twice is harmless: a settled promise does not change.
   */
  #stopWrites(requests: readonly Queued[], cause: unknown): void {
    const isEnding = this.#stop.signal.aborted
    const fault =
      this.#log === undefined
        ? new Error('writes are stopped until the server is restarted', { cause })
        : new DatabaseError('internal', 'applying the log has stopped until the server is restarted', {
            cause,
          })
    const error = isEnding ? this.#refusal! : fault
    this.#refusal ??= fault
    for (const { reject } of requests) reject(error)
    this.#queue.refuseAll(error)
    if (!isEnding) this.#log?.onStall(error)
  }

  /**
   * Refuses new requests; resolves when all running ones have ended. Waiting requests of callers are carried out; those
   * of the log are refused, and read from it again later.
   */
  async close(): Promise<void> {
    const error = new DatabaseError('shutting_down', 'the server is shutting down')
    if (this.#log !== undefined) return await this.discard(error)
    this.#refusal ??= error
    await this.#running
  }

  /** Like `close`, but also refuses all waiting requests. */
  async discard(error: DatabaseError): Promise<void> {
    this.#refusal = error
    this.#stop.abort(error)
    this.#queue.refuseAll(error)
    await this.#running
  }
}

/** The progress of a cluster's log in a collection. */
export interface LogProgress {
  /** The delay before a failed attempt to store a group is repeated. */
  readonly retryMs: number
  /** Returns the progress after a group. */
  stepOver(requests: readonly Queued[], decisions: readonly Decision[]): Promise<LogStep>
  /** Returns what is stored with the group. */
  recordOf(step: LogStep): Applied
  /** Call when the group is stored, before it takes effect. */
  begin(step: LogStep): void
  /** Call when the group has taken effect. */
  end(step: LogStep): void
  /** See `ReplicaHooks`. */
  onVisible(position: number): void
  /** See `ReplicaHooks`. */
  onStall(stall: Error | undefined): void
}

/** The progress of the log after a group. */
export interface LogStep {
  readonly position: number
  readonly clockUs: number
  /** The digest of the stored points. */
  readonly digest: PartitionDigest
  /** The partitions that the node holds from then on, if the group changes them. */
  readonly held: PartitionSet | undefined
}

/** A decision and the placement of its changes, for one attempt. */
interface Placed extends Decision {
  /** The slot of each change. */
  readonly slots: readonly number[]
  /** For each change that moves its point: the slot that the point leaves. */
  readonly leaving: readonly (number | undefined)[]
  /** 1 for each change that has taken effect. */
  readonly isApplied: Uint8Array
}

function refuseCancelled({ signal }: Queued): void {
  if (signal?.aborted) throw cancellation(signal)
}

/** Whether a decision has anything to store. */
function isStored({ queued, changes, keyedRequest, dimension }: Decision): boolean {
  const isEmpty = changes.length === 0 && keyedRequest === undefined && dimension === undefined
  return !isEmpty || queued.request.kind === 'mark'
}

function payloadOf(change: Change): Payload | undefined {
  if (change.kind === 'insert') return change.point.payload
  return change.kind === 'update' ? change.payload : undefined
}

/** Returns the vector of a change that needs a slot. */
function vectorOf(change: Change): Float32Array | undefined {
  if (change.kind === 'insert') return change.point.vector
  return change.kind === 'update' ? change.vector : undefined
}

function groupOf(placed: readonly Placed[], applied: Applied | undefined): WriteGroup {
  const group = {
    changes: placed.flatMap(({ changes }) => changes),
    slots: placed.flatMap(({ slots }) => slots),
    leaving: placed.flatMap(({ leaving }) => leaving),
    keyedRequests: placed.flatMap(({ keyedRequest }) => keyedRequest ?? []),
    applied,
    dimension: placed.find(({ dimension }) => dimension !== undefined)?.dimension,
  }
  const isEmpty = group.changes.length + group.keyedRequests.length === 0
  assert(!isEmpty || applied !== undefined, 'a group stores something')
  return group
}

/** Whether the other requests of the group may still be stored. */
function isOfOneRequest(error: unknown): boolean {
  return isDiskFull(error) || (error instanceof DatabaseError && error.reason === 'request_too_large')
}

function isDiskFull(error: unknown): boolean {
  return error instanceof DatabaseError && error.reason === 'disk_full'
}

/**
 * Returns what to store instead of many deletions for which a full disk has no room: LMDB writes new pages before it
 * frees old ones. A part that is still too large is divided again, so the parts after it grow again.
 *
 * A caller's deletions must be stored together, so only the first half of them is stored, and the answer says that there
 * are more.
 *
 * @returns nothing if the request does not delete many points, or also stores something
 */
function partsOf({ queued, changes, result }: Decision): readonly Decision[] {
  const { request } = queued
  if (changes.length <= deletedTogetherMin) return []
  const half = Math.floor(changes.length / 2)
  const first = changes.slice(0, half)
  if (request.kind === 'expire') {
    const unanswered = { ...queued, resolve: () => {} }
    return [
      { queued: unanswered, changes: first, result },
      { queued, changes: changes.slice(half), result },
    ]
  }
  if (request.kind !== 'filter' || request.change !== 'delete') return []
  return [{ queued, changes: first, result: { changed: half, more: true } }]
}

/**
 * Whether reads see all changes of a request or none. True for as many changes as take effect in a few milliseconds.
 */
function isSmall({ changes }: Placed): boolean {
  return changes.length <= changesAtOnce
}

const changesAtOnce = 128

/** Taking this many slots takes well under a millisecond. */
const slotsPerLook = 256

/** So many deletions write at most 640 KiB, a part of the space that is reserved for deletions. */
const deletedTogetherMin = 64
