import { randomBytes } from 'node:crypto'
import { applyPatch } from '../base/attribute-patch.ts'
import { DatabaseError, wrongDimension } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import { idBytes, idFromBytes, idToBytes } from '../base/ids.ts'
import { refused } from '../base/key-filter.ts'
import { idSeedBytes, idsFromSeed, newId, type PartitionSet, partitionOf } from '../base/partitions.ts'
import { canBeRefused, type NewPoint, type Patch, type Payload, type Precondition } from '../base/point.ts'
import { idempotencyKeyLifeMs } from '../base/request-headers.ts'
import type { Turn } from '../base/turns.ts'
import type { Inserted, ItemError, RequestIdentity } from '../points/database.ts'
import { encodeRefusals } from '../storage/keyed-requests.ts'
import type { Change, Insertion, KeyedRequest, Store, Update } from '../storage/store.ts'
import { patchedPayload, walkMatching, writtenBytes } from './by-filter.ts'
import {
  type ChangedByPartition,
  type CurrentPoints,
  changesPerRecord,
  type InsertRequest,
  type Results,
  type Stamp,
  type WriteRequest,
} from './requests.ts'
import type { Queued } from './write-queue.ts'

/** What a request changes. A decision is reused whenever its changes are tried again. */
export interface Decision {
  readonly queued: Queued
  /** In the order of their sequence numbers. */
  readonly changes: readonly Change[]
  readonly keyedRequest?: KeyedRequest | undefined
  /** The dimension of the collection from this request on; set only if the request is the first with vectors. */
  readonly dimension?: number | undefined
  /** The answer to the request when its changes have taken effect. */
  readonly result: Results[keyof Results]
  /** The answer in place of a result: what is stored of the request is that it was refused. */
  readonly refusal?: DatabaseError | undefined
}

type RequestOf<Kind extends WriteRequest['kind']> = Extract<WriteRequest, { readonly kind: Kind }>
type Decided = Omit<Decision, 'queued'>

/**
 * Turns requests into changes: decides what changes, and assigns ids to new points and sequence numbers to changes. A
 * number is used once. If its change is refused later because memory or the disk is full, the number stays unused.
 *
 * A request of a cluster's log gets the numbers of its record, and concerns only points of partitions that the node
 * holds. Main thread only.
 */
export class ChangeDecider {
  readonly #store: Store
  readonly #points: CurrentPoints
  /** The last number assigned. */
  #sequence: number
  /** On a node of a cluster: the changes of the log have numbers above this one. */
  readonly #base: number
  /** The stamp of the request, if it comes from a log. */
  #stamp: Stamp | undefined
  /** The last number that a request of a log can get. */
  #sequenceMax = 0
  /** The partitions to which the request is restricted. */
  #held: PartitionSet | undefined

  constructor(store: Store, points: CurrentPoints) {
    this.#store = store
    this.#points = points
    this.#sequence = store.sequence
    this.#base = store.applied?.base ?? store.sequence
  }

  /**
   * Decides what a request changes, which may be nothing.
   *
   * @throws DatabaseError when the request is refused
   */
  async decide(queued: Queued, turn: Turn): Promise<Decision> {
    this.#begin(queued)
    const filter = filterOf(queued)
    if (filter !== undefined) await this.#points.prepareFilter(filter)
    await this.#points.expirations.hideDue()
    this.#checkDimension(queued)
    return { queued, ...(await this.#decide(queued, turn)) }
  }

  #decide(queued: Queued, turn: Turn): Decided | Promise<Decided> {
    const { request } = queued
    switch (request.kind) {
      case 'insert':
        return this.#decideInsert(queued, request, turn)
      case 'put':
        return this.#decidePut(queued, request)
      case 'patch':
        return this.#decidePatch(request)
      case 'remove':
        return this.#decideRemove(request)
      case 'filter':
        return this.#decideByFilter(request, turn)
      case 'each':
        return this.#decideEach(request, turn)
      case 'expire':
        return this.#decideExpire(request, turn)
      case 'mark':
        return { changes: [], result: undefined }
      case 'take':
        return this.#decideTake(request, turn)
      case 'clear':
        return this.#decideClear(request, turn)
    }
  }

  #begin({ stamp, held }: Queued): void {
    this.#stamp = stamp
    this.#held = held
    if (stamp === undefined) return
    this.#points.advanceTo(stamp)
    // Numbers of the log: the same on every replica, however it groups the request, and if it is decided again.
    this.#sequence = this.#base + stamp.position * changesPerRecord - 1
    this.#sequenceMax = this.#sequence + changesPerRecord
  }

  #checkDimension({ request, dimension: length }: Queued): void {
    const { dimension = length } = this.#points
    if (length === undefined || length === dimension) return
    const isBatch = request.kind === 'insert' && request.points.length > 1
    throw wrongDimension(isBatch ? 'vectors[0].vector' : 'vector', length, dimension!)
  }

  /** Decides each point: its id, whether it replaces a point, and whether it is refused. */
  async #decideInsert(queued: Queued, request: InsertRequest, turn: Turn): Promise<Decided> {
    const { identity, points, onError } = request
    const { drawnIds } = queued
    // Uses the log's time for a request from a log, so that all replicas expire a key at the same record.
    const nowMs = this.#stamp === undefined ? Date.now() : this.#stamp.nowUs / 1000
    if (identity !== undefined) {
      const before = keptRequest(this.#store, identity, nowMs)
      if (before !== undefined) return { changes: [], result: await this.#repeated(request, before, turn) }
    }
    const idSeed = request.idSeed ?? (identity && seedFor(points.length))
    const isDrawnHere = drawnIds === undefined && request.idSeed === undefined
    const drawn = drawnIds === undefined ? idSeed && drawIds(idSeed, points.length, false) : undefined
    // A node that lacks a point does not know that it is refused, and would come to the next fault.
    if (this.#stamp !== undefined && onError === 'abort') await checkEachOnce(points, turn)
    const given = new Map<string, number>()
    const changes: Change[] = []
    const ids: (string | null)[] = []
    const errors: ItemError[] = []
    let refusal: DatabaseError | undefined
    for (const [index, point] of points.entries()) {
      try {
        checkOnce(points, index, given)
        const id =
          point.id ??
          drawnIds?.[index] ??
          (drawn === undefined ? newId() : idFromBytes(drawn, index * idBytes))
        // Other nodes decide about points that are not held here, and the caller gets the answer from them.
        if (this.#isHeld(id) && !this.#isSkipped(request, index)) {
          this.#numberFrom(index)
          const isNew = isDrawnHere && point.id === undefined
          changes.push(
            isNew ? { kind: 'insert', id, sequence: this.#nextSequence(), point } : this.#put(id, point),
          )
        }
        ids.push(id)
      } catch (error) {
        if (!(error instanceof DatabaseError)) throw error
        if (onError === 'abort') {
          if (!this.#keepsRefusal(identity, error)) throw error
          refusal = error
          break
        }
        ids.push(null)
        errors.push({ index, error })
      }
      if (turn.isOver) await turn.next()
    }
    const keyedRequest = identity && {
      ...identity,
      idSeed: idSeed!,
      points: points.length,
      acceptedMs: nowMs,
      ...this.#answerKept(errors),
    }
    const result = { ids, errors }
    if (refusal !== undefined) return { changes: [], keyedRequest, result, refusal }
    return { changes, keyedRequest, dimension: this.#newDimension(queued), result }
  }

  /**
   * Whether a refusal uses up the key of a request. From a log it does if only owners of a point know of it: all nodes
   * keep the same keys.
   */
  #keepsRefusal(identity: RequestIdentity | undefined, { reason }: DatabaseError): boolean {
    return identity !== undefined && this.#stamp !== undefined && reason === 'already_exists'
  }

  /**
   * What is kept of the answer to a request with a key. From a log, it is only which changes the request has made: most
   * nodes do not know which points were refused.
   */
  #answerKept(errors: readonly ItemError[]): Pick<KeyedRequest, 'firstSequence' | 'refused'> {
    if (this.#stamp !== undefined)
      return { firstSequence: this.#sequenceMax - changesPerRecord + 1, refused: [] }
    const refused = errors.map(({ index, error: { reason, message } }) => ({ index, reason, message }))
    // Refuses a request whose answer is too large before anything is stored.
    encodeRefusals(refused)
    return { firstSequence: undefined, refused }
  }

  /**
   * The answer to a request that was carried out before: nothing is stored again.
   *
   * @throws DatabaseError if it was refused
   */
  async #repeated(request: InsertRequest, before: KeyedRequest, turn: Turn): Promise<Inserted> {
    const { points, onError } = request
    const drawn = drawIds(before.idSeed, before.points, before.firstSequence !== undefined)
    const refused = new Map(
      before.refused.map(({ index, reason, message }) => [index, new DatabaseError(reason, message)]),
    )
    const given = new Map<string, number>()
    const ids: (string | null)[] = []
    const errors: ItemError[] = []
    for (const [index, { id }] of points.entries()) {
      const error =
        before.firstSequence === undefined
          ? refused.get(index)
          : this.#refusedBefore(points, index, given, before.firstSequence)
      if (error !== undefined && onError === 'abort') throw error
      if (error !== undefined) errors.push({ index, error })
      ids.push(error === undefined ? (id ?? idFromBytes(drawn, index * idBytes)) : null)
      if (turn.isOver) await turn.next()
    }
    return { ids, errors }
  }

  /**
   * Why a point of a request from the log was refused before, as far as its place in the order of insertion tells: that
   * of a point that the request has stored is the number of its change, as long as it exists.
   */
  #refusedBefore(
    points: readonly NewPoint[],
    index: number,
    given: Map<string, number>,
    firstSequence: number,
  ): DatabaseError | undefined {
    const point = points[index]!
    const { id } = point
    if (id !== undefined && given.has(id)) return givenTwice(points, index, given.get(id)!)
    if (id !== undefined) given.set(id, index)
    if (id === undefined || !canBeRefused(point) || !this.#isHeld(id)) return undefined
    const slot = this.#find(id)
    if (slot === -1) return goneSince(points, index)
    return this.#points.table.orderOf(slot) === firstSequence + index ? undefined : existing(points, index)
  }

  /**
   * Whether the point is skipped because its id exists.
   *
   * @throws DatabaseError `already_exists`
   */
  #isSkipped({ points, keyFilter }: InsertRequest, index: number): boolean {
    const { id, onConflict = 'error' } = points[index]!
    if (id === undefined) return false
    const slot = this.#points.table.find(id)
    this.#checkFree(slot, keyFilter)
    if (slot === -1 || onConflict === 'replace') return false
    if (onConflict === 'skip') return true
    throw existing(points, index)
  }

  #decidePut(queued: Queued, { id, point, when, keyFilter }: RequestOf<'put'>): Decided {
    const slot = this.#find(id)
    if (when === undefined || when.kind === 'absent') this.#checkFree(slot, keyFilter)
    this.#check(when, this.#seen(slot, keyFilter))
    const change = this.#put(id, point, slot)
    return {
      changes: this.#isHeld(id) ? [change] : [],
      dimension: this.#newDimension(queued),
      result: { version: change.sequence, created: slot === -1 },
    }
  }

  #decidePatch({ id, patch, when, keyFilter }: RequestOf<'patch'>): Decided {
    const slot = this.#seen(this.#find(id), keyFilter)
    if (slot === -1) throw new DatabaseError('not_found', 'Point not found')
    this.#check(when, slot)
    const payload = applyPatch(this.#points.record(slot, id).payload, patch)
    const change = this.#update(id, slot, payload, patch.vector)
    return { changes: [change], result: { version: change.sequence } }
  }

  #decideRemove({ id, keyFilter }: RequestOf<'remove'>): Decided {
    const exists = this.#seen(this.#find(id), keyFilter) !== -1
    return { changes: exists ? [this.#delete(id)] : [], result: exists }
  }

  async #decideByFilter(request: RequestOf<'filter'>, turn: Turn): Promise<Decided> {
    const { filter, change, limit = changesMax, dryRun } = request
    const count = Math.min(limit, changesMax)
    const matching = await this.#points.matching(filter)
    if (dryRun) {
      return {
        changes: [],
        result: { changed: Math.min(count, matching.count), more: matching.count > count },
      }
    }
    const { results: changes, more } = await walkMatching(
      matching,
      count,
      turn,
      // The point can have expired since it matched.
      ({ slot }) => (this.#isThere(slot) ? this.#changeOf(slot, change) : undefined),
      (made) => (made.kind === 'update' ? writtenBytes(made.payload, made.vector) : 0),
    )
    return { changes, result: { changed: changes.length, more } }
  }

  /** Changes the points that still match. As in `walkMatching`, points that stay as they are do not count. */
  async #decideEach({ ids, filter, change }: RequestOf<'each'>, turn: Turn): Promise<Decided> {
    const changed = new Set<string>()
    const changes = await this.#changesOf(ids, turn, (id) => {
      // A group changes a point once.
      const slot = this.#isHeld(id) && !changed.has(id) ? this.#find(id) : -1
      if (slot === -1 || !this.#points.matches(slot, filter)) return undefined
      const made = this.#changeIfPossible(slot, change)
      if (made !== undefined) changed.add(id)
      return made
    })
    return { changes, result: byPartition(changes) }
  }

  /**
   * Returns undefined if the patch can no longer be applied to the point. Like a point that no longer matches, it then
   * stays as it is: the result for one point must not depend on others, which another node may not have.
   */
  #changeIfPossible(slot: number, change: Patch | 'delete'): Change | undefined {
    try {
      return this.#changeOf(slot, change)
    } catch (error) {
      if (error instanceof DatabaseError && error.reason === 'invalid_argument') return undefined
      throw error
    }
  }

  #changeOf(slot: number, change: Patch | 'delete'): Change | undefined {
    const id = this.#points.table.idOf(slot)
    if (change === 'delete') return this.#delete(id)
    const after = patchedPayload(id, this.#points.record(slot, id).payload, change)
    return after && this.#update(id, slot, after, change.vector)
  }

  async #decideExpire({ ids }: RequestOf<'expire'>, turn: Turn): Promise<Decided> {
    const changes = await this.#changesOf(ids, turn, (id) => {
      const slot = this.#isHeld(id) ? this.#points.table.slotOf(id) : -1
      return slot !== -1 && this.#points.expirations.hasExpired(slot) ? this.#delete(id) : undefined
    })
    return { changes, result: changes.length }
  }

  /** Adds the points that are not stored yet. */
  async #decideTake({ points }: RequestOf<'take'>, turn: Turn): Promise<Decided> {
    const changes = await this.#changesOf(points, turn, (point) => {
      const { id, version } = point
      const slot = this.#points.table.slotOf(id)
      if (slot === -1) return { kind: 'insert', ...point }
      if (this.#points.table.versionOf(slot) === version) return undefined
      throw new DatabaseError('already_exists', `point ${id} is already stored in another version`)
    })
    return { changes, result: undefined }
  }

  async #decideClear({ ids, keeps }: RequestOf<'clear'>, turn: Turn): Promise<Decided> {
    // The log's numbers are reserved for changes of the log. This number only shows that the removal is stored.
    const sequence = this.#store.sequence + 1
    const changes = await this.#changesOf(ids, turn, (id) =>
      this.#points.table.slotOf(id) !== -1 && !keeps(partitionOf(id))
        ? { kind: 'delete', id, sequence }
        : undefined,
    )
    return { changes, result: undefined }
  }

  /** Returns the changes of those items that have one. */
  async #changesOf<Item>(
    items: readonly Item[],
    turn: Turn,
    changeOf: (item: Item) => Change | undefined,
  ): Promise<Change[]> {
    const changes: Change[] = []
    for (const [index, item] of items.entries()) {
      this.#numberFrom(index)
      const change = changeOf(item)
      if (change !== undefined) changes.push(change)
      if (turn.isOver) await turn.next()
    }
    return changes
  }

  /** Stores a point under an id, in place of any point that has it. */
  #put(id: string, point: NewPoint, current: number = this.#find(id)): Insertion | Update {
    const slot = this.#points.table.slotOf(id)
    const sequence = this.#nextSequence()
    if (slot === -1) return { kind: 'insert', id, sequence, point }
    const { vector, payload } = point
    // If the slot holds an expired point that is still on disk, the point is a new one.
    const order = current === -1 ? sequence : this.#points.table.orderOf(slot)
    if (current !== -1) this.#points.expirations.postpone(slot, payload.expiresAtUs)
    return { kind: 'update', id, sequence, order, payload, vector }
  }

  #update(id: string, slot: number, payload: Payload, vector: Float32Array | undefined): Update {
    const order = this.#points.table.orderOf(slot)
    this.#points.expirations.postpone(slot, payload.expiresAtUs)
    return { kind: 'update', id, sequence: this.#nextSequence(), order, payload, vector }
  }

  #delete(id: string): Change {
    return { kind: 'delete', id, sequence: this.#nextSequence() }
  }

  #isHeld(id: string): boolean {
    return this.#held === undefined || this.#held.has(partitionOf(id))
  }

  /**
   * Returns the slot of a visible point, or -1. A point can expire while a group is decided; reads do not show it from
   * then on, and it must not come back.
   */
  #find(id: string): number {
    const slot = this.#points.table.find(id)
    return slot !== -1 && this.#isThere(slot) ? slot : -1
  }

  /** The slot of a point, or -1 if it is hidden from the caller. */
  #seen(slot: number, keyFilter: Filter | undefined): number {
    return slot === -1 || keyFilter === undefined || this.#points.matches(slot, keyFilter) ? slot : -1
  }

  /**
   * Says no more than it must about the point that has the id.
   *
   * @throws DatabaseError `permission_denied` if a point that is hidden from the caller has the id
   */
  #checkFree(slot: number, keyFilter: Filter | undefined): void {
    if (this.#seen(slot, keyFilter) === slot) return
    throw refused('the filter of the key does not allow to store a point under this id')
  }

  #isThere(slot: number): boolean {
    return this.#points.table.isVisible(slot) && !this.#points.expirations.hasExpired(slot)
  }

  /**
   * @param slot the slot of the point, or -1 if the point does not exist
   * @throws DatabaseError `precondition_failed`
   */
  #check(when: Precondition | undefined, slot: number): void {
    const failure = when && this.#failureOf(when, slot)
    if (failure !== undefined) throw new DatabaseError('precondition_failed', failure)
  }

  #failureOf(when: Precondition, slot: number): string | undefined {
    if (when.kind === 'absent') return slot === -1 ? undefined : 'when.absent: a point with this id exists'
    if (slot === -1) return `when.${when.kind}: there is no point with this id`
    if (when.kind === 'filter') {
      return this.#points.matches(slot, when.filter) ? undefined : 'when.filter: the point does not match'
    }
    const version = this.#points.table.versionOf(slot)
    return version === when.version
      ? undefined
      : `when.version is ${when.version}, the point has version ${version}`
  }

  /** Returns the dimension that the request fixes for the collection. */
  #newDimension({ dimension }: Queued): number | undefined {
    return this.#points.dimension === undefined ? dimension : undefined
  }

  /**
   * Sets the number of a change of the log from the index of its item in the request. It must not depend on the earlier
   * items: a node may lack the points that decide about them.
   */
  #numberFrom(index: number): void {
    if (this.#stamp !== undefined) this.#sequence = this.#sequenceMax - changesPerRecord + index
  }

  #nextSequence(): number {
    this.#sequence += 1
    if (this.#stamp !== undefined && this.#sequence > this.#sequenceMax) throw tooManyChanges()
    return this.#sequence
  }
}

/** The filter that a decision tests points with, one by one. */
function filterOf({ request }: Queued): Filter | undefined {
  if (request.kind === 'each') return request.filter
  const when = request.kind === 'put' || request.kind === 'patch' ? request.when : undefined
  return when?.kind === 'filter' ? when.filter : undefined
}

/** Refuses an id that an earlier point of the request has. */
function checkOnce(points: readonly NewPoint[], index: number, given: Map<string, number>): void {
  const { id } = points[index]!
  if (id === undefined) return
  const first = given.get(id)
  if (first !== undefined) throw givenTwice(points, index, first)
  given.set(id, index)
}

/** Refuses an id that several points of the request have. */
async function checkEachOnce(points: readonly NewPoint[], turn: Turn): Promise<void> {
  const given = new Map<string, number>()
  for (const index of points.keys()) {
    checkOnce(points, index, given)
    if (turn.isOver) await turn.next()
  }
}

function givenTwice(points: readonly NewPoint[], index: number, first: number): DatabaseError {
  return new DatabaseError(
    'invalid_argument',
    `${idPath(points, index)} equals ${idPath(points, first)}: the ids of a request must differ`,
  )
}

function existing(points: readonly NewPoint[], index: number): DatabaseError {
  return new DatabaseError(
    'already_exists',
    `${idPath(points, index)}: there is a point with the id ${points[index]!.id} already`,
  )
}

function goneSince(points: readonly NewPoint[], index: number): DatabaseError {
  return new DatabaseError(
    'precondition_failed',
    `${idPath(points, index)}: the request was decided before under this idempotency key, and stored no point with the id ${points[index]!.id}, or it has been deleted since`,
  )
}

function idPath(points: readonly NewPoint[], index: number): string {
  return points.length === 1 ? 'id' : `vectors[${index}].id`
}

function byPartition(changes: readonly Change[]): ChangedByPartition {
  const changed = new Map<number, number>()
  for (const { id } of changes) {
    const partition = partitionOf(id)
    changed.set(partition, (changed.get(partition) ?? 0) + 1)
  }
  return changed
}

function tooManyChanges(): DatabaseError {
  return new DatabaseError(
    'request_too_large',
    `a request to a cluster changes at most ${changesPerRecord} points: send fewer at a time`,
  )
}

/** The most changes of one request by filter. */
const changesMax = 100_000

/** Inserts with an idempotency key: what is stored of them, and how a repetition is answered. */

/**
 * Returns a request that was carried out before; undefined when the request is new.
 *
 * @throws DatabaseError `key_reused`
 */
export function keptRequest(
  store: Store,
  identity: RequestIdentity,
  nowMs: number,
): KeyedRequest | undefined {
  const stored = store.keyedRequest(identity.keyHash)
  if (stored === undefined || nowMs - stored.acceptedMs >= idempotencyKeyLifeMs) return undefined
  if (Buffer.compare(stored.bodyHash, identity.bodyHash) !== 0) throw keyReused()
  return stored
}

/** Returns a seed for `drawIds`. */
function seedFor(points: number): Uint8Array {
  return points === 1 ? idToBytes(newId()) : randomBytes(idSeedBytes)
}

/**
 * Returns the ids of points without their own, 16 bytes each: those of `idsFromSeed`. Outside of clusters, the seed of a
 * single point is its id, because deriving it would take longer than the rest.
 */
function drawIds(seed: Uint8Array, points: number, isPartitioned: boolean): Uint8Array {
  return points === 1 && !isPartitioned ? seed : idsFromSeed(seed, points, isPartitioned)
}

function keyReused(): DatabaseError {
  return new DatabaseError(
    'key_reused',
    'another request was stored under this idempotency key: repeat a request unchanged, or give this one a different key',
  )
}
