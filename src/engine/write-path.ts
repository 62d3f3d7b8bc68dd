import { randomBytes } from 'node:crypto'
import { assert } from '../base/assert.ts'
import { cancellation, DatabaseError } from '../base/errors.ts'
import { idempotencyKeyLifeMs } from '../base/idempotency-key.ts'
import { idBytes, idFromBytes, idSeedBytes, idsFromSeed, newId } from '../base/ids.ts'
import type { NewPoint } from '../base/point.ts'
import { Turn } from '../base/turns.ts'
import { wrongDimension } from '../base/wrong-dimension.ts'
import type { Deletion, Insertion, KeyedRequest, Store, WriteGroup } from '../storage/store.ts'
import type { RequestIdentity } from './database.ts'
import type { BudgetShare } from './shared-budget.ts'
import type { SlotAllocator } from './slot-allocator.ts'

/**
 * The way of every change to the disk and then to memory.
 *
 *   insert, remove ──> queue (bounded in bytes) ──> group ──> store.commit ──> apply ──> acknowledge
 *                         │                           │            │
 *                         └ overloaded                │            └ disk_full: its changes one by one;
 *                                                     │              internal: every one of the group
 *                                                     ├ cancelled, memory_full, key_reused, another dimension
 *                                                     └ stored before under its key: its ids again
 *
 * One group commits at a time, and what arrives meanwhile forms the next: the slower the disk, the larger
 * the groups, so the price of an fsync is shared without anybody waiting for a timer. A request is never
 * split over groups, so a batch is on disk whole or not at all.
 *
 * The first insertion that is committed fixes the dimension. Until then a group has vectors of one length, that of the
 * insert that came first; one of another length waits for the next group, and is refused there if the first was stored.
 *
 * Main thread only; the only caller of `store.commit` and, after recovery, of `target.apply`.
 */
export class WritePath {
  readonly #store: Store
  readonly #slots: SlotAllocator
  readonly #target: ChangeTarget
  readonly #queuedBytes: BudgetShare
  readonly #keyLifeMs: number
  #queue: Request[] = []
  #sequence: number
  #running: Promise<void> | undefined
  /** Resolves when a removal comes, while inserts wait for room. */
  #removal: PromiseWithResolvers<void> | undefined
  #refusal: DatabaseError | undefined
  #fault: Error | undefined

  constructor(options: {
    readonly store: Store
    readonly slots: SlotAllocator
    readonly target: ChangeTarget
    /** Bytes of requests that wait for the disk or are on their way to it. */
    readonly queuedBytes: BudgetShare
    /** How long a repeated request is recognized by its key. */
    readonly keyLifeMs?: number | undefined
  }) {
    this.#store = options.store
    this.#slots = options.slots
    this.#target = options.target
    this.#queuedBytes = options.queuedBytes
    this.#keyLifeMs = options.keyLifeMs ?? idempotencyKeyLifeMs
    this.#sequence = options.store.sequence
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
    for (const request of this.#queue.splice(0)) request.reject(error)
    await this.#running
  }

  #submit<Result>(bytes: number, requestOf: (answer: Answer<Result>) => Request): Promise<Result> {
    const refusal = this.#refusal ?? this.#fault ?? this.#queuedBytes.refusal(bytes)
    if (refusal !== undefined) return Promise.reject(refusal)
    const { promise, resolve, reject } = Promise.withResolvers<Result>()
    // Before anybody else hears of the answer, so that whoever goes on with the next request finds room.
    const release = (): void => {
      this.#queuedBytes.release(bytes)
    }
    promise.then(release, release)
    const request = requestOf({ bytes, resolve, reject })
    this.#queue.push(request)
    this.#queuedBytes.hold(bytes)
    if (request.kind === 'remove') this.#removal?.resolve()
    this.#running ??= this.#run()
    return promise
  }

  async #run(): Promise<void> {
    // What is asked for in the same breath joins the first group.
    await Promise.resolve()
    while (this.#queue.length > 0) {
      const room = this.#target.room()
      const requests = room === undefined ? this.#takeGroup() : await this.#removalsBefore(room)
      try {
        await this.#commit(requests)
      } catch (error) {
        this.#stop(requests, error)
      }
    }
    this.#running = undefined
  }

  /** While inserts wait for room, removals go on; inserts that have waited too long are refused. */
  async #removalsBefore(room: Promise<boolean>): Promise<Request[]> {
    const removals = this.#takeRemovals()
    if (removals.length > 0) return removals
    this.#removal = Promise.withResolvers()
    const hasRoom = await Promise.race([room, this.#removal.promise.then(() => true)])
    this.#removal = undefined
    if (!hasRoom) this.#refuseInserts()
    return []
  }

  /** All removals that wait, but one of each point. */
  #takeRemovals(): Request[] {
    const removals = new Map<string, Request>()
    for (const request of this.#queue) {
      if (request.kind === 'remove' && !removals.has(request.id)) removals.set(request.id, request)
    }
    const taken = new Set(removals.values())
    if (taken.size > 0) this.#queue = this.#queue.filter((request) => !taken.has(request))
    return [...taken]
  }

  #refuseInserts(): void {
    const refused = this.#queue.filter(({ kind }) => kind === 'insert')
    this.#queue = this.#queue.filter(({ kind }) => kind !== 'insert')
    for (const request of refused) {
      request.reject(
        new DatabaseError(
          'overloaded',
          'points come faster than they can be put into the index: try again later',
        ),
      )
    }
  }

  /**
   * As many requests as a group holds and the index takes at once, in order. A second removal of the same point, or a
   * second insert under the same key, starts the next group: what it has to answer depends on whether the first one
   * succeeds. So does an insert that brings another dimension than those before it to an empty collection.
   */
  #takeGroup(): Request[] {
    const names = new Set<string>()
    let bytes = 0
    let count = 0
    let { dimension } = this.#target
    const isOpen = dimension === undefined
    const bytesMax = Math.min(groupBytes, this.#target.comingBytesMax)
    for (const request of this.#queue) {
      const name = request.kind === 'remove' ? request.id : request.keyed?.name
      if (bytes >= bytesMax || (name !== undefined && names.has(name))) break
      if (isOpen && request.kind === 'insert') {
        dimension ??= dimensionOf(request)
        if (dimensionOf(request) !== dimension) break
      }
      if (name !== undefined) names.add(name)
      bytes += request.bytes
      count += 1
    }
    return this.#queue.splice(0, count)
  }

  /**
   * A fault of ours between disk and memory: what is in memory may no longer be what is on disk, so nothing
   * more is written on top of it. Answering twice is harmless, a settled promise stays as it is.
   */
  #stop(requests: readonly Request[], cause: unknown): void {
    this.#fault ??= new Error('writes are stopped until the server is restarted', { cause })
    for (const request of requests) request.reject(this.#fault)
  }

  async #commit(requests: readonly Request[]): Promise<void> {
    const prepared = await this.#prepare(requests)
    if (prepared.length === 0) return
    try {
      await this.#store.commit(groupOf(prepared))
    } catch (error) {
      for (const request of prepared) this.#abandon(request)
      this.#target.commitFailed()
      if (prepared.length > 1 && error instanceof DatabaseError && error.reason === 'disk_full') {
        // One large insert must not take the others with it: deletions above all have to go on.
        for (const { request } of prepared) await this.#commit([request])
        return
      }
      for (const { request } of prepared) request.reject(error)
      return
    }
    const turn = new Turn()
    for (const request of prepared) await this.#apply(request, turn)
  }

  /** Gives the requests that can go to the disk their slots, ids and sequence numbers; answers the others. */
  async #prepare(requests: readonly Request[]): Promise<Prepared[]> {
    const prepared: Prepared[] = []
    const turn = new Turn()
    for (const request of requests) {
      try {
        if (request.signal?.aborted) throw cancellation(request.signal)
        const ready =
          request.kind === 'insert' ? await this.#prepareInsert(request, turn) : this.#prepareRemove(request)
        if (ready !== undefined) prepared.push(ready)
      } catch (error) {
        request.reject(error)
      }
    }
    return prepared
  }

  async #prepareInsert(request: InsertRequest, turn: Turn): Promise<Prepared | undefined> {
    const { points, keyed } = request
    if (keyed !== undefined) {
      const ids = await this.#idsGivenBefore(keyed, turn)
      if (ids !== undefined) {
        request.resolve(ids)
        return undefined
      }
    }
    const length = dimensionOf(request)
    const { dimension = length } = this.#target
    if (length !== dimension) {
      throw wrongDimension(points.length === 1 ? 'vector' : 'vectors[0].vector', length, dimension)
    }
    this.#target.reserve(this.#slots.slotCountAfter(points.length), dimension)
    const idSeed = keyed && randomBytes(idSeedBytes)
    const ids = idSeed && idsFromSeed(idSeed, points.length)
    const insertions: Insertion[] = []
    for (const [index, point] of points.entries()) {
      this.#sequence += 1
      const id = ids === undefined ? newId() : idFromBytes(ids, index * idBytes)
      insertions.push({ slot: this.#slots.take(), id, sequence: this.#sequence, point })
      if (turn.isOver) await turn.next()
    }
    if (keyed === undefined) return { request, insertions, deletions: [] }
    const { keyHash, bodyHash } = keyed.identity
    const keyedRequest = { keyHash, bodyHash, idSeed: idSeed!, points: points.length, acceptedMs: Date.now() }
    return { request, insertions, deletions: [], keyedRequests: [keyedRequest] }
  }

  /**
   * The ids of a request that is stored already; undefined when it is new.
   *
   * @throws DatabaseError `key_reused`
   */
  async #idsGivenBefore({ identity }: Keyed, turn: Turn): Promise<readonly string[] | undefined> {
    const stored = this.#store.keyedRequest(identity.keyHash)
    if (stored === undefined || Date.now() - stored.acceptedMs >= this.#keyLifeMs) return undefined
    if (Buffer.compare(stored.bodyHash, identity.bodyHash) !== 0) throw keyReused()
    const bytes = idsFromSeed(stored.idSeed, stored.points)
    const ids: string[] = []
    for (let index = 0; index < stored.points; index += 1) {
      ids.push(idFromBytes(bytes, index * idBytes))
      if (turn.isOver) await turn.next()
    }
    return ids
  }

  #prepareRemove(request: RemoveRequest): Prepared | undefined {
    const slot = this.#target.find(request.id)
    if (slot === -1) {
      request.resolve(false)
      return undefined
    }
    this.#sequence += 1
    return { request, insertions: [], deletions: [{ slot, id: request.id, sequence: this.#sequence }] }
  }

  #abandon(prepared: Prepared): void {
    for (const { slot } of prepared.insertions) this.#slots.release(slot)
  }

  async #apply({ request, insertions, deletions }: Prepared, turn: Turn): Promise<void> {
    for (const insertion of insertions) {
      this.#target.applyInsertion(insertion)
      if (turn.isOver) await turn.next()
    }
    for (const deletion of deletions) {
      this.#target.applyDeletion(deletion)
    }
    if (request.kind === 'insert') request.resolve(insertions.map(({ id }) => id))
    else request.resolve(true)
  }
}

/** Where committed changes take effect, and what the write path asks of the state it changes. */
export interface ChangeTarget {
  /** The slot of a live point, or -1. */
  find(id: string): number
  /** Fixed by the first insertion that took effect; undefined before. */
  readonly dimension: number | undefined
  /** Makes sure that vectors of this dimension up to this slot count fit in memory, or throws `memory_full`. */
  reserve(slotCount: number, dimension: number): void
  /** Nothing of what memory was reserved for last is stored. */
  commitFailed(): void
  applyInsertion(insertion: Insertion): void
  /** The slot is handed back to the allocator when nothing leads to it any more. */
  applyDeletion(deletion: Deletion): void
  /** Bytes after which a group is closed, so that not too much comes to the index at once. */
  readonly comingBytesMax: number
  /** Resolves with whether the index can take more points after all, when that is known; undefined when it can now. */
  room(): Promise<boolean> | undefined
}

/** A request's claim on the queue, and how it is answered. */
interface Answer<Result> {
  readonly bytes: number
  readonly resolve: (result: Result) => void
  readonly reject: (error: unknown) => void
}

interface InsertRequest extends Answer<readonly string[]> {
  readonly kind: 'insert'
  readonly points: readonly NewPoint[]
  readonly keyed: Keyed | undefined
  readonly signal: AbortSignal | undefined
}

/** The points of a request have vectors of one length. */
function dimensionOf({ points }: InsertRequest): number {
  return points[0]!.vector.length
}

interface Keyed {
  readonly identity: RequestIdentity
  /** Tells it from other requests of its group. */
  readonly name: string
}

function keyedOf(identity: RequestIdentity): Keyed {
  return { identity, name: Buffer.from(identity.keyHash).toString('base64') }
}

interface RemoveRequest extends Answer<boolean> {
  readonly kind: 'remove'
  readonly id: string
  readonly signal: AbortSignal | undefined
}

type Request = InsertRequest | RemoveRequest

interface Prepared extends WriteGroup {
  readonly request: Request
}

/** What a waiting request costs besides its vectors and contents. */
const requestOverheadBytes = 256

/** A group stops growing here: about 10 ms of a disk that writes 1.6 GB/s, so that no group waits long. */
const groupBytes = 16 * 1024 * 1024

function pointBytes(point: NewPoint): number {
  return point.vector.byteLength + point.payload.content.length * 2 + requestOverheadBytes
}

function keyReused(): DatabaseError {
  return new DatabaseError(
    'key_reused',
    'another request was stored under this idempotency key: repeat a request unchanged, or give this one a key of its own',
  )
}

function groupOf(prepared: readonly Prepared[]): WriteGroup {
  const keyedRequests: readonly KeyedRequest[] = prepared.flatMap((each) => each.keyedRequests ?? [])
  const group = {
    insertions: prepared.flatMap(({ insertions }) => insertions),
    deletions: prepared.flatMap(({ deletions }) => deletions),
    keyedRequests,
  }
  assert(group.insertions.length + group.deletions.length > 0, 'a group has changes')
  return group
}
