import { cancellation, DatabaseError } from '../base/errors.ts'
import type { NewPoint, Patch, Precondition } from '../base/point.ts'
import type { BudgetShare } from '../base/shared-budget.ts'
import { Turn } from '../base/turns.ts'
import type { ChangeByFilter, Inserted, InsertOptions } from '../points/database.ts'
import type { SlotAllocator } from '../points/slot-allocator.ts'
import type { Store } from '../storage/store.ts'
import { ChangeDecider } from './change-decider.ts'
import type { ChangeTarget } from './change-target.ts'
import type { Decision } from './decision.ts'
import { GroupSteps } from './group-steps.ts'
import type { Placed } from './placed-changes.ts'
import { type QueueAnswer, WriteQueue } from './write-queue.ts'
import {
  keyedOf,
  type PutRequest,
  patchBytes,
  pointBytes,
  requestOverheadBytes,
  type WriteRequest,
} from './write-request.ts'

/**
 * The path of every change to disk and then to memory.
 *
 *   request ──> queue ──> group ──> decide ──> place ──> store.commit ──> apply ──> acknowledge
 *                 │                   │          ^  │           │
 *                 └ overloaded        │          │  │           ├ disk_full: retry its requests singly,
 *              (bounded in bytes)     │          │  │           │            many deletions in parts ──────┐
 *                                     │          │  │           └ internal: all requests of the group fail │
 *                                     │          │  └ memory_full                                         │
 *                                     │          └────────────────────────────────────────────────────────┘
 *                                     ├ cancelled, key_reused, already_exists, precondition_failed, another dimension
 *                                     └ stored before under its key: the same answer again
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
 * The first committed insertion fixes the dimension. Until then, all vectors of a group have the length of its first
 * insert. An insert of another length waits for the next group, and is refused there if the first was stored.
 *
 * Main thread only.
 */
export class WritePath {
  readonly #target: ChangeTarget
  readonly #queue: WriteQueue
  readonly #decider: ChangeDecider
  readonly #steps: GroupSteps
  #running: Promise<void> | undefined
  #refusal: DatabaseError | undefined
  #fault: Error | undefined

  constructor(options: {
    readonly store: Store
    readonly slots: SlotAllocator
    readonly target: ChangeTarget
    /** The bytes of requests that wait for the disk or are on their way to it. */
    readonly queuedBytes: BudgetShare
  }) {
    const { store, slots, target, queuedBytes } = options
    this.#target = target
    this.#queue = new WriteQueue(queuedBytes)
    this.#decider = new ChangeDecider(store, target)
    this.#steps = new GroupSteps(store, slots, target)
  }

  /** See `Database.insert`. */
  insert(points: readonly NewPoint[], { onError, identity, signal }: InsertOptions = {}): Promise<Inserted> {
    const bytes = points.reduce((sum, point) => sum + pointBytes(point), 0)
    const keyed = identity && keyedOf(identity)
    return this.#submit<Inserted>(bytes, (answer) => ({
      ...{ kind: 'insert', points, onError: onError ?? 'abort', keyed, signal },
      ...answer,
    }))
  }

  /** See `Database.put`. */
  put(
    id: string,
    point: PutRequest['point'],
    when?: Precondition,
    signal?: AbortSignal,
  ): Promise<{ readonly version: number; readonly created: boolean }> {
    return this.#submit(pointBytes(point), (answer) => ({ kind: 'put', id, point, when, signal, ...answer }))
  }

  /** See `Database.patch`. */
  patch(
    id: string,
    patch: Patch,
    when?: Precondition,
    signal?: AbortSignal,
  ): Promise<{ readonly version: number }> {
    return this.#submit(patchBytes(patch), (answer) => ({
      kind: 'patch',
      id,
      patch,
      when,
      signal,
      ...answer,
    }))
  }

  /** See `Database.remove`. */
  remove(id: string, signal?: AbortSignal): Promise<boolean> {
    return this.#submit(requestOverheadBytes, (answer) => ({ kind: 'remove', id, signal, ...answer }))
  }

  /** See `Database.changeByFilter`. */
  changeByFilter(
    request: ChangeByFilter,
    signal?: AbortSignal,
  ): Promise<{ readonly changed: number; readonly more: boolean }> {
    const bytes = request.change === 'delete' ? requestOverheadBytes : patchBytes(request.change)
    return this.#submit(bytes, (answer) => ({ kind: 'filter', request, signal, ...answer }))
  }

  /** Deletes some of the expired points; resolves when that is durable. */
  deleteExpired(): Promise<void> {
    return this.#submit(0, (answer) => ({ kind: 'expiry', signal: undefined, ...answer }))
  }

  /** Makes the change of a point take effect immediately, if it is committed. */
  settle(id: string): void {
    this.#steps.settle(id)
  }

  /** Refuses new changes; resolves when all queued and running ones have ended. */
  async close(): Promise<void> {
    this.#refusal ??= new DatabaseError('shutting_down', 'the server is shutting down')
    await this.#running
  }

  /** Like `close`, but also refuses queued changes. */
  async discard(error: DatabaseError): Promise<void> {
    this.#refusal = error
    this.#queue.refuseAll(error)
    await this.#running
  }

  #submit<Result>(bytes: number, requestOf: (answer: QueueAnswer<Result>) => WriteRequest): Promise<Result> {
    const refusal = this.#refusal ?? this.#fault ?? this.#queue.refusal(bytes)
    if (refusal !== undefined) return Promise.reject(refusal)
    const answer = this.#queue.add(bytes, requestOf)
    this.#running ??= this.#run()
    return answer
  }

  async #run(): Promise<void> {
    // Requests made in the same turn join the first group.
    await Promise.resolve()
    while (!this.#queue.isEmpty) {
      const room = this.#target.room()
      const { dimension, comingBytesMax } = this.#target
      const requests =
        room === undefined ? this.#queue.takeGroup(dimension, comingBytesMax) : await this.#passing(room)
      try {
        await this.#commit(await this.#decide(requests))
      } catch (error) {
        this.#stop(requests, error)
      } finally {
        // Also those of a request whose decision failed halfway.
        await this.#target.endPostponements()
      }
    }
    this.#running = undefined
  }

  /** Takes requests without vectors while vectors wait for room, and refuses vectors that have waited too long. */
  async #passing(room: Promise<boolean>): Promise<WriteRequest[]> {
    const requests = this.#queue.takePassing()
    if (requests.length > 0) return requests
    const hasRoom = await Promise.race([room, this.#queue.nextPassing().then(() => true)])
    if (!hasRoom) this.#queue.refuseVectors(this.#target.isRebuilding)
    return []
  }

  /**
   * Stops all writes after a fault of our own between disk and memory. Memory may no longer match the disk, so nothing
   * more is written on top of it. Rejecting a request twice is harmless: a settled promise does not change.
   */
  #stop(requests: readonly WriteRequest[], cause: unknown): void {
    this.#fault ??= new Error('writes are stopped until the server is restarted', { cause })
    for (const request of requests) request.reject(this.#fault)
  }

  /** Decides what the requests change; answers those that change nothing or are refused. */
  async #decide(requests: readonly WriteRequest[]): Promise<Decision[]> {
    const decisions: Decision[] = []
    const turn = new Turn()
    for (const request of requests) {
      try {
        refuseCancelled(request)
        const decision = await this.#decider.decide(request, turn)
        if (decision !== undefined) decisions.push(decision)
      } catch (error) {
        request.reject(error)
      }
    }
    return decisions
  }

  /**
   * Makes the changes durable and visible; answers their requests.
   *
   * @returns for a single request, whether its changes were stored
   */
  async #commit(decisions: readonly Decision[]): Promise<boolean> {
    const placed = await this.#place(decisions)
    if (placed.length === 0) return false
    try {
      await this.#steps.store(placed)
    } catch (error) {
      if (placed.length > 1 && isOfOneRequest(error)) {
        // One large insert must not make the others fail. Deletions in particular must succeed.
        for (const each of placed) await this.#commit([each])
        return false
      }
      const parts = placed.length === 1 && isDiskFull(error) ? partsOf(placed[0]!) : []
      if (parts.length > 0) return await this.#commitInTurn(parts)
      for (const each of placed) await this.#refuse(each, error)
      return false
    }
    await this.#steps.apply(placed)
    return true
  }

  /** Commits the parts of a request until one fails. */
  async #commitInTurn(parts: readonly Decision[]): Promise<boolean> {
    for (const part of parts) if (!(await this.#commit([part]))) return false
    return true
  }

  /** Points that the request would have renewed expire before it is answered. */
  async #refuse({ request, changes }: Decision, error: unknown): Promise<void> {
    const turn = new Turn()
    for (const { id } of changes) {
      const slot = this.#target.slotOf(id)
      if (slot !== -1) this.#target.endPostponement(slot)
      if (turn.isOver) await turn.next()
    }
    request.reject(error)
  }

  /** Chooses the slots of the changes; rejects requests for which there is no room. */
  async #place(decisions: readonly Decision[]): Promise<Placed[]> {
    const placed: Placed[] = []
    const turn = new Turn()
    for (const decision of decisions) {
      const { request } = decision
      try {
        // The previous attempt may have taken long.
        refuseCancelled(request)
        placed.push(await this.#steps.place(decision, turn))
      } catch (error) {
        await this.#refuse(decision, error)
      }
    }
    return placed
  }
}

function refuseCancelled({ signal }: WriteRequest): void {
  if (signal?.aborted) throw cancellation(signal)
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
function partsOf(decision: Decision): readonly Decision[] {
  const { request, changes, acknowledge } = decision
  if (changes.length <= deletedTogetherMin) return []
  const half = Math.floor(changes.length / 2)
  const first = changes.slice(0, half)
  if (request.kind === 'expiry') {
    return [
      { request, changes: first, acknowledge: () => {} },
      { request, changes: changes.slice(half), acknowledge },
    ]
  }
  if (request.kind !== 'filter' || request.request.change !== 'delete') return []
  const answer = { changed: half, more: true }
  return [{ request, changes: first, acknowledge: () => request.resolve(answer) }]
}

/** So many deletions write at most 640 KiB, a part of the space that is reserved for deletions. */
const deletedTogetherMin = 64
