import { MemoryCount } from '../attributes/memory-count.ts'
import { NumberField } from '../attributes/number-field.ts'
import { SlotColumn } from '../attributes/slot-column.ts'
import { assert } from '../base/errors.ts'
import { idBytes, writeIdBytes } from '../base/ids.ts'
import { type PartitionSet, partitionCount } from '../base/partitions.ts'
import type { VectorIndex } from '../index/vector-index.ts'
import { IdTable } from './id-table.ts'
import { type OrderedPoints, OrderIndex } from './insertion-order.ts'

/**
 * Which point is in which slot: ids, vectors, and sequence numbers of changes.
 *
 * A slot has up to three numbers. The sequence number of its row, from the change that wrote the vector, is in the
 * index. The version (from the point's last change) and the order (from its insertion) are stored only if they differ
 * from it.
 *
 * A point can be hidden: it keeps its slot and its id, but nobody sees it. An expired point is hidden until it is
 * deleted on disk.
 *
 * Main thread only.
 */
export class PointTable implements OrderedPoints {
  readonly ids: IdTable
  readonly order: OrderIndex = new OrderIndex(this)
  readonly #memory = new MemoryCount()
  readonly #versions = new SlotColumn(this.#memory, 'numbers')
  /** The orders that differ from the sequence number of the row. */
  readonly orders: NumberField = new NumberField(this.#memory)
  /** By partition: the number of visible points. */
  readonly #byPartition = new Uint32Array(partitionCount)
  /** Undefined until the first insert is on its way to disk. */
  index: VectorIndex | undefined

  /** @param slotCount the number of slots that were ever used */
  constructor(slotCount: number) {
    this.ids = new IdTable(slotCount)
  }

  /** The number of visible points. */
  get size(): number {
    return this.index?.liveCount ?? 0
  }

  /** The number of visible points in some partitions. */
  sizeIn(partitions: PartitionSet): number {
    let size = 0
    for (const partition of partitions) size += this.#byPartition[partition]!
    return size
  }

  get slotCount(): number {
    return this.index?.slotCount ?? 0
  }

  /** Bytes of everything but the index and the ids. */
  get numbersBytes(): number {
    return this.#memory.bytes + this.order.memoryBytes
  }

  /** Returns the slot of a visible point, or -1. `id` is well formed, in either case. */
  find(id: string): number {
    return this.#ifVisible(this.ids.find(id))
  }

  /** Like `find`, for the 16-byte id at an offset. */
  findBytes(bytes: Uint8Array, at: number): number {
    return this.#ifVisible(this.ids.findBytes(bytes, at))
  }

  /** Returns the slot of a point, also of an expired one that is not deleted on disk yet; otherwise -1. */
  slotOf(id: string): number {
    return this.ids.find(id)
  }

  /** Returns the id of the point in a slot. */
  idOf(slot: number): string {
    return this.ids.idOf(slot)
  }

  #ifVisible(slot: number): number {
    return slot !== -1 && this.isVisible(slot) ? slot : -1
  }

  /** Writes the 16-byte id of a point to `target` at `at`. */
  copyId(slot: number, target: Uint8Array, at: number): void {
    this.ids.copyId(slot, target, at)
  }

  isVisible(slot: number): boolean {
    return this.index!.isLive(slot)
  }

  /** Returns the sequence number of the last change of the point in a slot. */
  versionOf(slot: number): number {
    return numberIn(this.#versions, slot) ?? this.index!.sequenceOf(slot)
  }

  orderOf(slot: number): number {
    return numberIn(this.orders.column, slot) ?? this.index!.sequenceOf(slot)
  }

  setVersion(slot: number, version: number): void {
    setNumber(this.#versions, slot, version)
  }

  setOrder(slot: number, order: number): void {
    setNumber(this.orders.column, slot, order)
  }

  /** Puts a point into an empty slot. */
  place(slot: number, id: string, vector: Float32Array, sequence: number, order: number): void {
    this.index!.place(slot, vector, sequence)
    this.#enter(slot, id, sequence, order)
    this.#byPartition[this.ids.firstByteOf(slot)]! += 1
  }

  /** Enters a point whose id and row other threads have written to its slot. */
  enterFilled(slot: number): void {
    this.ids.enter(slot)
    this.#byPartition[this.ids.firstByteOf(slot)]! += 1
  }

  /** Moves a visible point, with another vector, to an empty slot. */
  move(from: number, slot: number, vector: Float32Array, sequence: number): void {
    const id = this.ids.idOf(from)
    const order = this.orderOf(from)
    this.index!.replace(from, slot, vector, sequence)
    this.remove(from)
    this.#enter(slot, id, sequence, order)
  }

  #enter(slot: number, id: string, sequence: number, order: number): void {
    writeIdBytes(id, idScratch, 0)
    this.ids.set(slot, idScratch)
    if (order !== sequence) this.setOrder(slot, order)
    this.order.placed(slot, order)
  }

  /** Hides the point in a slot. */
  hide(slot: number): void {
    const partition = this.ids.firstByteOf(slot)
    assert(this.isVisible(slot) && this.#byPartition[partition]! > 0, 'only a visible point is hidden')
    this.order.removed(slot)
    this.index!.remove(slot)
    this.#byPartition[partition]! -= 1
  }

  /** Removes the hidden point from its slot. */
  remove(slot: number): void {
    this.ids.delete(slot)
    removeNumber(this.#versions, slot)
    removeNumber(this.orders.column, slot)
  }
}

const idScratch = new Uint8Array(idBytes)

function numberIn(column: SlotColumn, slot: number): number | undefined {
  const number = column.count === 0 ? Number.NaN : column.get(slot)
  return Number.isNaN(number) ? undefined : number
}

function setNumber(column: SlotColumn, slot: number, number: number): void {
  removeNumber(column, slot)
  column.set(slot, number)
}

function removeNumber(column: SlotColumn, slot: number): void {
  if (column.count > 0 && column.has(slot)) column.delete(slot)
}

/**
 * Allocates slots, the lowest free one first. Slots therefore stay dense, columns indexed by slot waste nothing, and a
 * batch over freed slots is written in runs. On a full disk, slots freed by deletions are used before the file must
 * grow. Main thread only.
 */
export class SlotAllocator {
  /** A binary heap: no slot is lower than the one at half its position. */
  readonly #free: number[] = []
  #next: number
  #held: number[] | undefined

  /** @param slotCount the number of slots that were ever used; call `release` for those that are free */
  constructor(slotCount: number) {
    this.#next = slotCount
  }

  /** The number of slots ever handed out. All live slots are below this. */
  get slotCount(): number {
    return this.#next
  }

  /** The slot count after `count` more slots are taken, for reserving memory before anything is written. */
  slotCountAfter(count: number): number {
    return this.#next + Math.max(0, count - this.#free.length)
  }

  take(): number {
    const lowest = this.#free[0]
    if (lowest === undefined) {
      this.#next += 1
      return this.#next - 1
    }
    const last = this.#free.pop()!
    if (this.#free.length > 0) this.#sink(last)
    return lowest
  }

  release(slot: number): void {
    assert(slot < this.#next, 'a released slot was taken')
    if (this.#held === undefined) this.#add(slot)
    else this.#held.push(slot)
  }

  /**
   * Holds back slots that are released from now on, so that their rows stay unchanged, until the returned function is
   * called. Call that function once. Only one hold at a time.
   */
  hold(): () => void {
    assert(this.#held === undefined, 'slots are held once at a time')
    const held: number[] = []
    this.#held = held
    return () => {
      assert(this.#held === held, 'a hold ends once')
      this.#held = undefined
      this.#addAll(held)
    }
  }

  /**
   * Works in turns, because a long hold can have kept millions of slots. A new hold need not wait: it only concerns
   * later releases.
   */
  #addAll(held: number[]): void {
    for (const slot of held.splice(-slotsPerTurn)) this.#add(slot)
    if (held.length > 0) setImmediate(() => this.#addAll(held))
  }

  #add(slot: number): void {
    const heap = this.#free
    let at = heap.length
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (heap[parent]! <= slot) break
      heap[at] = heap[parent]!
      at = parent
    }
    heap[at] = slot
  }

  /** Replaces the lowest slot, which was taken, with `slot`, and moves it down to its place in the heap. */
  #sink(slot: number): void {
    const heap = this.#free
    let at = 0
    for (let child = 1; child < heap.length; child = 2 * at + 1) {
      if (child + 1 < heap.length && heap[child + 1]! < heap[child]!) child += 1
      if (heap[child]! >= slot) break
      heap[at] = heap[child]!
      at = child
    }
    heap[at] = slot
  }
}

/** Well under a millisecond of work. */
const slotsPerTurn = 4096
