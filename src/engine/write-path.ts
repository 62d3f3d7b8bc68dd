import { assert } from '../base/assert.ts'
import { cancellation, DatabaseError } from '../base/errors.ts'
import type { NewPoint } from '../base/point.ts'
import { Turn } from '../base/turns.ts'
import type { Change, Store, WriteGroup } from '../storage/store.ts'
import { ChangeDecider, type CurrentPoints, type Decision } from './change-decider.ts'
import type { RequestIdentity } from './database.ts'
import type { BudgetShare } from './shared-budget.ts'
import type { SlotAllocator } from './slot-allocator.ts'
import { WriteQueue } from './write-queue.ts'
import {
  type Answer,
  dimensionOf,
  keyedOf,
  pointBytes,
  requestOverheadBytes,
  type WriteRequest,
} from './write-request.ts'

/**
 * The way of every change to the disk and then to memory.
 *
 *   insert, remove ──> queue ──> group ──> decide ──> place ──> store.commit ──> apply ──> acknowledge
 *                        │                   │          ^  │           │
 *                        └ overloaded        │          │  │           ├ disk_full: its requests one by one ─┐
 *                     (bounded in bytes)     │          │  │           └ internal: every one of the group    │
 *                                            │          │  └ memory_full                                     │
 *                                            │          └────────────────────────────────────────────────────┘
 *                                            ├ cancelled, key_reused, another dimension
 *                                            └ stored before under its key: its ids again
 *
 * What changes and where it is kept are two things. A change has its id and its sequence number from `ChangeDecider`,
 * once, and keeps them. Its slot is chosen each time it is tried: when a group fails, its slots are free again.
 *
 * One group commits at a time, and what arrives meanwhile forms the next: the slower the disk, the larger
 * the groups, so the price of an fsync is shared without anybody waiting for a timer. A request is never
 * split over groups, so a batch is on disk whole or not at all.
 *
 * The first insertion that is committed fixes the dimension. Until then a group has vectors of one length, that of the
 * insert that came first; one of another length waits for the next group, and is refused there if the first was stored.
 *
 * Main thread only; the only caller of `store.commit` and of `target.apply`.
 */
export class WritePath {
  readonly #store: Store
  readonly #slots: SlotAllocator
  readonly #target: ChangeTarget
  readonly #queue: WriteQueue
  readonly #decider: ChangeDecider
  #running: Promise<void> | undefined
  #refusal: DatabaseError | undefined
  #fault: Error | undefined

  constructor(options: {
    readonly store: Store
    readonly slots: SlotAllocator
    readonly target: ChangeTarget
    /** Bytes of requests that wait for the disk or are on their way to it. */
    readonly queuedBytes: BudgetShare
  }) {
    const { store, slots, target, queuedBytes } = options
    this.#store = store
    this.#slots = slots
    this.#target = target
    this.#queue = new WriteQueue(queuedBytes)
    this.#decider = new ChangeDecider(store, target)
  }

  /**
   * Stores all points or none; resolves with their ids, in order, when they are durable and visible. With an
   * `identity`, once: see `Database.insert`.
   */
  insert(
    points: readonly NewPoint[],
    signal?: AbortSignal,
    identity?: RequestIdentity,
  ): Promise<readonly string[]> {
    const bytes = points.reduce((sum, point) => sum + pointBytes(point), 0)
    const request = { kind: 'insert', points, signal, keyed: identity && keyedOf(identity) } as const
    return this.#submit<readonly string[]>(bytes, (answer) => ({ ...request, ...answer }))
  }

  /** Removes a point; resolves with whether there was one, when its removal is durable and visible. */
  remove(id: string, signal?: AbortSignal): Promise<boolean> {
    const bytes = requestOverheadBytes
    return this.#submit<boolean>(bytes, (answer) => ({ kind: 'remove', id, signal, ...answer }))
  }

  /** Refuses new changes and resolves when those under way have ended, one way or the other. */
  async close(): Promise<void> {
    this.#refusal ??= new DatabaseError('shutting_down', 'the server is shutting down')
    await this.#running
  }

  /** The same, but refuses what waits too. */
  async discard(error: DatabaseError): Promise<void> {
    this.#refusal = error
    this.#queue.refuseAll(error)
    await this.#running
  }

  #submit<Result>(bytes: number, requestOf: (answer: Answer<Result>) => WriteRequest): Promise<Result> {
    const refusal = this.#refusal ?? this.#fault ?? this.#queue.refusal(bytes)
    if (refusal !== undefined) return Promise.reject(refusal)
    const answer = this.#queue.add(bytes, requestOf)
    this.#running ??= this.#run()
    return answer
  }

  async #run(): Promise<void> {
    // What is asked for in the same breath joins the first group.
    await Promise.resolve()
    while (!this.#queue.isEmpty) {
      const room = this.#target.room()
      const { dimension, comingBytesMax } = this.#target
      const requests =
        room === undefined
          ? this.#queue.takeGroup(dimension, comingBytesMax)
          : await this.#removalsBefore(room)
      try {
        await this.#commit(await this.#decide(requests))
      } catch (error) {
        this.#stop(requests, error)
      }
    }
    this.#running = undefined
  }

  /** While inserts wait for room, removals go on; inserts that have waited too long are refused. */
  async #removalsBefore(room: Promise<boolean>): Promise<WriteRequest[]> {
    const removals = this.#queue.takeRemovals()
    if (removals.length > 0) return removals
    const hasRoom = await Promise.race([room, this.#queue.nextRemoval().then(() => true)])
    if (!hasRoom) this.#queue.refuseInserts()
    return []
  }

  /**
   * A fault of ours between disk and memory: what is in memory may no longer be what is on disk, so nothing
   * more is written on top of it. Answering twice is harmless, a settled promise stays as it is.
   */
  #stop(requests: readonly WriteRequest[], cause: unknown): void {
    this.#fault ??= new Error('writes are stopped until the server is restarted', { cause })
    for (const request of requests) request.reject(this.#fault)
  }

  /** Decides what the requests change; answers those that change nothing. */
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

  /** Makes the changes durable and visible; answers their requests. */
  async #commit(decisions: readonly Decision[]): Promise<void> {
    const placed = await this.#place(decisions)
    if (placed.length === 0) return
    try {
      await this.#store.commit(groupOf(placed))
    } catch (error) {
      for (const each of placed) this.#abandon(each)
      this.#target.commitFailed()
      if (placed.length > 1 && error instanceof DatabaseError && error.reason === 'disk_full') {
        // One large insert must not take the others with it: deletions above all have to go on.
        for (const each of placed) await this.#commit([each])
        return
      }
      for (const { request } of placed) request.reject(error)
      return
    }
    const turn = new Turn()
    for (const each of placed) await this.#apply(each, turn)
  }

  /** Chooses the slots of the changes; answers requests for which there is no room. */
  async #place(decisions: readonly Decision[]): Promise<Placed[]> {
    const placed: Placed[] = []
    const turn = new Turn()
    for (const decision of decisions) {
      const { request, changes } = decision
      try {
        // The attempt before this one may have taken long.
        refuseCancelled(request)
        const slots =
          request.kind === 'insert'
            ? await this.#takeSlots(changes.length, dimensionOf(request), turn)
            : [this.#slotOf(request.id)]
        placed.push({ ...decision, slots })
      } catch (error) {
        request.reject(error)
      }
    }
    return placed
  }

  async #takeSlots(count: number, dimension: number, turn: Turn): Promise<number[]> {
    this.#target.reserve(this.#slots.slotCountAfter(count), dimension)
    const slots: number[] = []
    while (slots.length < count) {
      slots.push(this.#slots.take())
      if (slots.length % slotsPerLook === 0 && turn.isOver) await turn.next()
    }
    return slots
  }

  #slotOf(id: string): number {
    const slot = this.#target.find(id)
    assert(slot !== -1, 'a point that is to be removed is there')
    return slot
  }

  #abandon({ request, slots }: Placed): void {
    if (request.kind === 'insert') for (const slot of slots) this.#slots.release(slot)
  }

  async #apply({ request, changes, slots }: Placed, turn: Turn): Promise<void> {
    for (let at = 0; at < changes.length; at += 1) {
      this.#target.apply(changes[at]!, slots[at]!)
      if (turn.isOver) await turn.next()
    }
    if (request.kind === 'insert') request.resolve(changes.map(({ id }) => id))
    else request.resolve(true)
  }
}

/** Where committed changes take effect, and what the write path asks of the state it changes. */
export interface ChangeTarget extends CurrentPoints {
  /** Makes sure that vectors of this dimension up to this slot count fit in memory, or throws `memory_full`. */
  reserve(slotCount: number, dimension: number): void
  /** Nothing of what memory was reserved for last is stored. */
  commitFailed(): void
  /**
   * Carries out a change that is on the disk, its point in `slot`. The slot of a deleted point is handed back to the
   * allocator when nothing leads to it any more.
   */
  apply(change: Change, slot: number): void
  /** Bytes after which a group is closed, so that not too much comes to the index at once. */
  readonly comingBytesMax: number
  /** Resolves with whether the index can take more points after all, when that is known; undefined when it can now. */
  room(): Promise<boolean> | undefined
}

/** A decision and the placement of its changes, for one attempt. */
interface Placed extends Decision {
  /** By change. */
  readonly slots: readonly number[]
}

function refuseCancelled({ signal }: WriteRequest): void {
  if (signal?.aborted) throw cancellation(signal)
}

function groupOf(placed: readonly Placed[]): WriteGroup {
  const group = {
    changes: placed.flatMap(({ changes }) => changes),
    slots: placed.flatMap(({ slots }) => slots),
    keyedRequests: placed.flatMap(({ keyedRequest }) => keyedRequest ?? []),
  }
  assert(group.changes.length > 0, 'a group has changes')
  return group
}

/** Taking so many takes well under a millisecond. */
const slotsPerLook = 256
