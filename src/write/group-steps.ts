import { assert } from '../base/assert.ts'
import { Turn } from '../base/turns.ts'
import type { SlotAllocator } from '../points/slot-allocator.ts'
import type { Applied } from '../storage/applied.ts'
import type { Change, Store } from '../storage/store.ts'
import type { ChangeTarget } from './change-target.ts'
import type { Decision } from './decision.ts'
import { groupOf, type Place, type Placed, placesOf, vectorOf } from './placed-changes.ts'

/**
 * Takes a group from decided changes to stored and visible ones:
 *
 *   place, each decision ──> store ──> apply: each is acknowledged
 *                              └ fails: the slots are free again, and nothing of the group is stored
 *
 * Handles one group at a time. Main thread only; the only caller of `store.commit` and of `target.apply`.
 */
export class GroupSteps {
  readonly #store: Store
  readonly #slots: SlotAllocator
  readonly #target: ChangeTarget
  readonly #onVisible: ((position: number) => void) | undefined
  /** The group that is being committed or is taking effect. */
  #group: readonly Placed[] = []
  /** How far the log is applied after the group. */
  #applied: Applied | undefined
  /** The group's changes by id; created at the first lookup. */
  #places: ReadonlyMap<string, Place> | undefined

  /** @param onVisible see `ReplicaHooks.onVisible` */
  constructor(
    store: Store,
    slots: SlotAllocator,
    target: ChangeTarget,
    onVisible?: (position: number) => void,
  ) {
    this.#store = store
    this.#slots = slots
    this.#target = target
    this.#onVisible = onVisible
  }

  /**
   * Makes the change of a point take effect immediately, if it is committed, together with the other changes of a small
   * request. Between the commit of a group and the last of its changes taking effect, the store is ahead of memory.
   */
  settle(id: string): void {
    this.#places ??= placesOf(this.#group)
    const place = this.#places.get(id)
    if (place === undefined) return
    const { placed, at } = place
    if (!this.#isStored(placed, at)) return
    if (isSmall(placed)) this.#applyWhole(placed)
    else this.#applyOne(placed, at)
  }

  /** The slots that points will leave by changes that are stored but have not taken effect. */
  *slotsToEmpty(): Generator<number, void> {
    for (const placed of this.#group) {
      const { changes, slots, leaving, isApplied } = placed
      for (const [at, { kind }] of changes.entries()) {
        const slot = kind === 'delete' ? slots[at] : leaving[at]
        if (slot !== undefined && isApplied[at] !== 1 && this.#isStored(placed, at)) yield slot
      }
    }
  }

  #isStored({ request, changes }: Placed, at: number): boolean {
    // Points from another node keep that node's sequence numbers, and nobody reads them yet.
    if (request.kind === 'take') return false
    const { sequence, applied } = this.#store
    if (this.#applied === undefined || request.kind === 'clear') return changes[at]!.sequence <= sequence
    // Data from another node can be ahead of this node's log, and so can its sequence numbers.
    return applied !== undefined && applied.position >= this.#applied.position
  }

  /**
   * Chooses the slots of a decision's changes.
   *
   * @throws DatabaseError `memory_full`
   */
  place(decision: Decision, turn: Turn): Promise<Placed> {
    return this.#target.withRoom(() => this.#place(decision, turn))
  }

  async #place(decision: Decision, turn: Turn): Promise<Placed> {
    const { changes, dimension } = decision
    if (dimension !== undefined) this.#target.reserve(this.#slots.slotCountAfter(0), dimension)
    const placement = await this.#placement(changes, turn)
    return { ...decision, ...placement, isApplied: new Uint8Array(changes.length) }
  }

  async #placement(changes: readonly Change[], turn: Turn): Promise<Pick<Placed, 'slots' | 'leaving'>> {
    const room = this.#target.roomCheck()
    const vectors = changes.map(vectorOf).filter((vector) => vector !== undefined)
    if (vectors.length > 0) {
      this.#target.reserve(this.#slots.slotCountAfter(vectors.length), vectors[0]!.length)
    }
    const slots: number[] = []
    const leaving: (number | undefined)[] = []
    for (const change of changes) {
      if (change.kind === 'insert') room.add(change.point.payload)
      else if (change.kind === 'update') room.add(change.payload)
      if (turn.isOver) await turn.next()
    }
    for (const change of changes) {
      slots.push(vectorOf(change) === undefined ? this.#slotOf(change.id) : this.#slots.take())
      const isMoved = change.kind === 'update' && change.vector !== undefined
      leaving.push(isMoved ? this.#slotOf(change.id) : undefined)
      if (slots.length % slotsPerLook === 0 && turn.isOver) await turn.next()
    }
    return { slots, leaving }
  }

  #slotOf(id: string): number {
    const slot = this.#target.slotOf(id)
    assert(slot !== -1, 'a point to be changed exists')
    return slot
  }

  /** Frees the slots of changes that will not be stored in them. */
  abandon(placed: readonly Placed[]): void {
    for (const { changes, slots } of placed) {
      for (const [at, change] of changes.entries()) {
        if (vectorOf(change) !== undefined) this.#slots.release(slots[at]!)
      }
    }
  }

  /**
   * Makes a group durable. If that fails, its slots are freed.
   *
   * @param applied on a node of a cluster: how far the log is applied after the group
   * @throws what `Store.commit` throws
   */
  async store(placed: readonly Placed[], applied?: Applied): Promise<void> {
    this.#setGroup(placed, applied)
    try {
      await this.#store.commit(groupOf(placed, applied))
    } catch (error) {
      this.#setGroup([])
      this.abandon(placed)
      this.#target.commitFailed()
      throw error
    }
  }

  /** Makes the stored group take effect, and answers its requests. */
  async apply(placed: readonly Placed[]): Promise<void> {
    const turn = new Turn()
    for (const each of placed) {
      const isWhole = isSmall(each)
      for (let at = 0; at < each.changes.length; at += 1) {
        this.#applyOne(each, at)
        if (turn.isOver && !isWhole) await turn.next()
      }
      if (each.dimension !== undefined) this.#target.fixDimension()
      each.acknowledge()
      if (turn.isOver) await turn.next()
    }
    this.#setGroup([])
  }

  #setGroup(placed: readonly Placed[], applied?: Applied): void {
    this.#group = placed
    this.#applied = applied
    this.#places = undefined
  }

  #applyWhole(placed: Placed): void {
    for (let at = 0; at < placed.changes.length; at += 1) this.#applyOne(placed, at)
  }

  /** Applies a change unless that is already done. */
  #applyOne(placed: Placed, at: number): void {
    if (placed.isApplied[at] === 1) return
    placed.isApplied[at] = 1
    if (this.#applied !== undefined) this.#onVisible?.(this.#applied.position)
    this.#target.apply(placed.changes[at]!, placed.slots[at]!)
  }
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
