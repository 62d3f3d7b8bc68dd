import { idBytes, writeIdBytes } from '../base/ids.ts'
import type { VectorIndex } from '../index/vector-index.ts'
import { IdTable } from './id-table.ts'
import { type OrderedPoints, OrderIndex } from './order-index.ts'
import { SlotNumbers } from './slot-numbers.ts'

/**
 * Which point is in which slot: ids, vectors, and the numbers of changes.
 *
 * A slot has up to three numbers. That of its row, of the change that wrote the vector, is in the index. The version, of
 * the point's last change, and the order, of its insertion, are kept only where they differ.
 *
 * A point can be hidden: it keeps its slot and its id, and nobody sees it. So has an expired point until it is deleted on
 * disk.
 *
 * Main thread only.
 */
export class PointTable implements OrderedPoints {
  readonly ids: IdTable
  readonly order: OrderIndex = new OrderIndex(this)
  readonly #versions = new SlotNumbers()
  readonly #orders = new SlotNumbers()
  /** There is none until the first insert is on its way to the disk. */
  index: VectorIndex | undefined

  /** @param slotCount slots that were ever used */
  constructor(slotCount: number) {
    this.ids = new IdTable(slotCount)
  }

  /** Visible points. */
  get size(): number {
    return this.index?.liveCount ?? 0
  }

  get slotCount(): number {
    return this.index?.slotCount ?? 0
  }

  /** Bytes of everything but the index. */
  get memoryBytes(): number {
    return (
      this.ids.memoryBytes + this.#versions.memoryBytes + this.#orders.memoryBytes + this.order.memoryBytes
    )
  }

  /** The slot of a visible point, or -1. `id` is well-formed, in either case. */
  find(id: string): number {
    return this.#ifVisible(this.ids.find(id))
  }

  /** The same by the 16 bytes of an id at an offset. */
  findBytes(bytes: Uint8Array, at: number): number {
    return this.#ifVisible(this.ids.findBytes(bytes, at))
  }

  #ifVisible(slot: number): number {
    return slot !== -1 && this.isVisible(slot) ? slot : -1
  }

  /** Writes the 16 bytes of the id of a point to `target` at `at`. */
  copyId(slot: number, target: Uint8Array, at: number): void {
    this.ids.copyId(slot, target, at)
  }

  isVisible(slot: number): boolean {
    return this.index!.isLive(slot)
  }

  /** Sequence number of the last change of the point in a slot. */
  versionOf(slot: number): number {
    return this.#versions.get(slot) ?? this.index!.sequenceOf(slot)
  }

  orderOf(slot: number): number {
    return this.#orders.get(slot) ?? this.index!.sequenceOf(slot)
  }

  /** The slots whose order is not the sequence number of the row, as `SlotNumbers.entries`. */
  orders(): Iterable<readonly [slot: number, order: number]> {
    return this.#orders.entries()
  }

  setVersion(slot: number, version: number): void {
    this.#versions.set(slot, version)
  }

  setOrder(slot: number, order: number): void {
    this.#orders.set(slot, order)
  }

  /** Puts a point into an empty slot. */
  place(slot: number, id: string, vector: Float32Array, sequence: number, order: number): void {
    this.index!.place(slot, vector, sequence)
    this.#enter(slot, id, sequence, order)
  }

  /** Puts a visible point with another vector into an empty slot, and takes it out of its own. */
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
    this.index!.remove(slot)
    this.order.removed()
  }

  /** Takes the hidden point out of its slot. */
  remove(slot: number): void {
    this.ids.delete(slot)
    this.#versions.delete(slot)
    this.#orders.delete(slot)
  }
}

const idScratch = new Uint8Array(idBytes)
