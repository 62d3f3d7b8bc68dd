import { assert } from '../base/assert.ts'
import { applyPatch } from '../base/attribute-patch.ts'
import { DatabaseError } from '../base/errors.ts'
import { partitionOf } from '../base/partitions.ts'
import type { NewPoint, Patch, Payload } from '../base/point.ts'
import type { Turn } from '../base/turns.ts'
import { wrongDimension } from '../base/wrong-dimension.ts'
import type { Change, Insertion, Store, Update } from '../storage/store.ts'
import { type CurrentPoints, type Decision, newDimension } from './decision.ts'
import { patchedPayload, walkMatching, writtenBytes } from './filter-walk.ts'
import { InsertDecider } from './insert-decider.ts'
import { type ChangedByPartition, changesPerRecord, type Stamp } from './logged-request.ts'
import { checkPrecondition } from './precondition.ts'
import {
  type ClearRequest,
  dimensionOf,
  type EachRequest,
  type ExpireRequest,
  type ExpiryRequest,
  type FilterRequest,
  type PatchRequest,
  type PutRequest,
  type RemoveRequest,
  type TakeRequest,
  type WriteRequest,
} from './write-request.ts'

/**
 * Turns requests into changes: decides what changes, and assigns ids to new points and sequence numbers to changes. A
 * number is used once. If its change is refused later because memory or the disk is full, the number stays unused. Main
 * thread only.
 */
export class ChangeDecider {
  readonly #stored: Pick<Store, 'sequence'>
  readonly #points: CurrentPoints
  readonly #inserts: InsertDecider
  /** The last number assigned. */
  #sequence: number
  /** On a node of a cluster: the changes of the log have numbers above this one. */
  readonly #base: number
  /** Whether the request comes from a log. */
  #isLogged = false
  /** The last number that a request of a log can get. */
  #sequenceMax = 0

  constructor(store: Store, points: CurrentPoints) {
    this.#stored = store
    this.#points = points
    this.#sequence = store.sequence
    this.#base = store.applied?.base ?? store.sequence
    this.#inserts = new InsertDecider({
      store,
      points,
      changeTo: (id, point, index, isNew) => {
        this.#numberFrom(index)
        if (isNew) return { kind: 'insert', id, sequence: this.#nextSequence(), point }
        return this.#store(id, point)
      },
    })
  }

  /**
   * Decides what a request changes; returns undefined when it changes nothing and has been answered.
   *
   * @throws DatabaseError when the request is refused
   */
  async decide(request: WriteRequest, turn: Turn): Promise<Decision | undefined> {
    this.#begin(request.stamp)
    await this.#points.hideDue()
    this.#checkDimension(request)
    switch (request.kind) {
      case 'insert':
        return await this.#inserts.decide(request, turn)
      case 'put':
        return this.#decidePut(request)
      case 'patch':
        return this.#decidePatch(request)
      case 'remove':
        return this.#decideRemove(request)
      case 'filter':
        return await this.#decideByFilter(request, turn)
      case 'expiry':
        return await this.#decideExpiry(request, turn)
      case 'each':
        return await this.#decideEach(request, turn)
      case 'expire':
        return await this.#decideExpire(request, turn)
      case 'mark':
        return { request, changes: [], acknowledge: request.resolve }
      case 'take':
        return await this.#decideTake(request, turn)
      case 'clear':
        return await this.#decideClear(request, turn)
    }
  }

  #begin(stamp: Stamp | undefined): void {
    this.#isLogged = stamp !== undefined
    if (stamp === undefined) return
    this.#points.advanceTo(stamp)
    // Numbers of the log: the same on every replica, however it groups the request, and if it is decided again.
    this.#sequence = this.#base + stamp.position * changesPerRecord - 1
    this.#sequenceMax = this.#sequence + changesPerRecord
  }

  /**
   * Sets the number of a change of the log from the index of its item in the request. It must not depend on the earlier
   * items: a node may lack the points that decide about them.
   */
  #numberFrom(index: number): void {
    if (this.#isLogged) this.#sequence = this.#sequenceMax - changesPerRecord + index
  }

  #checkDimension(request: WriteRequest): void {
    const length = dimensionOf(request)
    const { dimension = length } = this.#points
    if (length === undefined || length === dimension) return
    const isBatch = request.kind === 'insert' && request.points.length > 1
    throw wrongDimension(isBatch ? 'vectors[0].vector' : 'vector', length, dimension!)
  }

  #decidePut(request: PutRequest): Decision {
    const { id, point, when, held } = request
    const slot = this.#find(id)
    if (when !== undefined) checkPrecondition(when, this.#points, slot)
    const change = this.#store(id, point, slot)
    const answer = { version: change.sequence, created: slot === -1 }
    const isHeld = held === undefined || held.has(partitionOf(id))
    return {
      ...{ request, changes: isHeld ? [change] : [], dimension: newDimension(this.#points, request) },
      acknowledge: () => request.resolve(answer),
    }
  }

  #decidePatch(request: PatchRequest): Decision {
    const { id, patch, when } = request
    const slot = this.#find(id)
    if (slot === -1) throw new DatabaseError('not_found', 'Point not found')
    if (when !== undefined) checkPrecondition(when, this.#points, slot)
    const payload = applyPatch(this.#points.record(slot, id).payload, patch)
    const change = this.#update(id, slot, payload, patch.vector)
    return { request, changes: [change], acknowledge: () => request.resolve({ version: change.sequence }) }
  }

  #decideRemove(request: RemoveRequest): Decision | undefined {
    const { id } = request
    if (this.#find(id) === -1) {
      request.resolve(false)
      return undefined
    }
    return { request, changes: [this.#delete(id)], acknowledge: () => request.resolve(true) }
  }

  async #decideByFilter(request: FilterRequest, turn: Turn): Promise<Decision | undefined> {
    const { filter, change, limit = changesMax, dryRun } = request.request
    const count = Math.min(limit, changesMax)
    const matching = await this.#points.matching(filter)
    if (dryRun) {
      request.resolve({ changed: Math.min(count, matching.count), more: matching.count > count })
      return undefined
    }
    const { results: changes, more } = await walkMatching(
      matching,
      count,
      turn,
      // The point can have expired since it matched.
      ({ slot }) => (this.#isThere(slot) ? this.#changeOf(slot, change) : undefined),
      (made) => (made.kind === 'update' ? writtenBytes(made.payload, made.vector) : 0),
    )
    const answer = { changed: changes.length, more }
    if (changes.length > 0) return { request, changes, acknowledge: () => request.resolve(answer) }
    request.resolve(answer)
    return undefined
  }

  #changeOf(slot: number, change: Patch | 'delete'): Change | undefined {
    const id = this.#points.idOf(slot)
    if (change === 'delete') return this.#delete(id)
    const after = patchedPayload(id, this.#points.record(slot, id).payload, change)
    return after && this.#update(id, slot, after, change.vector)
  }

  async #decideExpiry(request: ExpiryRequest, turn: Turn): Promise<Decision | undefined> {
    const points = this.#points
    const changes: Change[] = []
    for (const slot of points.takeExpired(expiredPerGroup)) {
      assert(points.hasExpired(slot), 'a hidden point has expired: a renewal would have postponed that')
      changes.push(this.#delete(points.idOf(slot)))
      if (turn.isOver) await turn.next()
    }
    if (changes.length > 0) return { request, changes, acknowledge: request.resolve }
    request.resolve()
    return undefined
  }

  /** Changes the points that still match. As in `walkMatching`, points that stay as they are do not count. */
  async #decideEach(request: EachRequest, turn: Turn): Promise<Decision | undefined> {
    const { held } = request
    const { ids, filter, change } = request.request
    const changes: Change[] = []
    const changed = new Set<string>()
    for (const [index, id] of ids.entries()) {
      const isHeld = held === undefined || held.has(partitionOf(id))
      const slot = isHeld && !changed.has(id) ? this.#find(id) : -1
      this.#numberFrom(index)
      const made =
        slot !== -1 && this.#points.matches(slot, filter) ? this.#changeIfPossible(slot, change) : undefined
      // A group changes a point once.
      if (made !== undefined) changed.add(id)
      if (made !== undefined) changes.push(made)
      if (turn.isOver) await turn.next()
    }
    const counts = byPartition(changes)
    if (changes.length > 0) return { request, changes, acknowledge: () => request.resolve(counts) }
    request.resolve(counts)
    return undefined
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

  async #decideExpire(request: ExpireRequest, turn: Turn): Promise<Decision | undefined> {
    const changes: Change[] = []
    const { held } = request
    for (const [index, id] of request.ids.entries()) {
      const slot = held === undefined || held.has(partitionOf(id)) ? this.#points.slotOf(id) : -1
      this.#numberFrom(index)
      if (slot !== -1 && this.#points.hasExpired(slot)) changes.push(this.#delete(id))
      if (turn.isOver) await turn.next()
    }
    if (changes.length > 0) return { request, changes, acknowledge: () => request.resolve(changes.length) }
    request.resolve(0)
    return undefined
  }

  /** Adds the points that are not stored yet. */
  async #decideTake(request: TakeRequest, turn: Turn): Promise<Decision | undefined> {
    const changes: Change[] = []
    for (const point of request.points) {
      const { id, version } = point
      const slot = this.#points.slotOf(id)
      if (slot === -1) changes.push({ kind: 'insert', ...point })
      else if (this.#points.versionOf(slot) !== version) {
        throw new DatabaseError('already_exists', `point ${id} is already stored in another version`)
      }
      if (turn.isOver) await turn.next()
    }
    return decisionOf(request, changes)
  }

  async #decideClear(request: ClearRequest, turn: Turn): Promise<Decision | undefined> {
    const changes: Change[] = []
    // The log's numbers are reserved for changes of the log. This number only shows that the removal is stored.
    const sequence = this.#stored.sequence + 1
    for (const id of request.ids) {
      const isRemoved = this.#points.slotOf(id) !== -1 && !request.keeps(partitionOf(id))
      if (isRemoved) changes.push({ kind: 'delete', id, sequence })
      if (turn.isOver) await turn.next()
    }
    return decisionOf(request, changes)
  }

  /** Stores a point under an id, in place of any point that has it. */
  #store(id: string, point: NewPoint, current: number = this.#find(id)): Insertion | Update {
    const slot = this.#points.slotOf(id)
    const sequence = this.#nextSequence()
    if (slot === -1) return { kind: 'insert', id, sequence, point }
    const { vector, payload } = point
    // If the slot holds an expired point that is still on disk, the point is a new one.
    const order = current === -1 ? sequence : this.#points.orderOf(slot)
    if (current !== -1) this.#postpone(slot, payload)
    return { kind: 'update', id, sequence, order, payload, vector }
  }

  #update(id: string, slot: number, payload: Payload, vector: Float32Array | undefined): Update {
    const order = this.#points.orderOf(slot)
    const moved = vector ?? (this.#expiresSoon(slot) ? this.#points.vector(slot) : undefined)
    this.#postpone(slot, payload)
    return { kind: 'update', id, sequence: this.#nextSequence(), order, payload, vector: moved }
  }

  /**
   * Returns the slot of a visible point, or -1. A point can expire while a group is decided; reads do not show it from
   * then on, and it must not come back.
   */
  #find(id: string): number {
    const slot = this.#points.find(id)
    return slot !== -1 && this.#isThere(slot) ? slot : -1
  }

  #isThere(slot: number): boolean {
    return this.#points.isVisible(slot) && !this.#points.hasExpired(slot)
  }

  /** A path of a log does without: it stores renewals before it decides a record whose time passes the expiry. */
  #postpone(slot: number, { expiresAtUs }: Payload): void {
    if (!this.#isLogged) this.#points.postponeExpiry(slot, expiresAtUs)
  }

  /**
   * Whether a point may expire before a change from a log takes effect. The changed point then gets another slot,
   * because an expiring point is taken out of the index immediately.
   */
  #expiresSoon(slot: number): boolean {
    if (!this.#isLogged) return false
    const expiresAtUs = this.#points.expiryOf(slot)
    return expiresAtUs !== undefined && expiresAtUs - this.#points.nowUs < soonUs
  }

  #delete(id: string): Change {
    return { kind: 'delete', id, sequence: this.#nextSequence() }
  }

  #nextSequence(): number {
    this.#sequence += 1
    if (this.#isLogged && this.#sequence > this.#sequenceMax) throw tooManyChanges()
    return this.#sequence
  }
}

function decisionOf(request: TakeRequest | ClearRequest, changes: readonly Change[]): Decision | undefined {
  if (changes.length > 0) return { request, changes, acknowledge: request.resolve }
  request.resolve()
  return undefined
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
export const changesMax = 100_000

/** A few milliseconds of deletions. */
const expiredPerGroup = 4096

/** Committing a group takes less than a minute, unless the disk hangs. */
const soonUs = 60_000_000
