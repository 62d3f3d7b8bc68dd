import { GraphState } from './graph-state.ts'
import type { SegmentHandle, SegmentLayout } from './segment.ts'
import { RowReader } from './slots.ts'

/** The vectors by slot, as searches need them. */
export interface SearchedIndex {
  readonly id: number
  readonly dimension: number
  readonly layout: SegmentLayout
  readonly segments: readonly SegmentHandle[]
  /** One more than the highest slot that was ever filled. */
  readonly slotCount: number
  readonly liveCount: number
  /** Number of vectors ever replaced. While it does not change, no point moves to another slot. */
  readonly replacements: number
  /** Calls `listener` for every segment, now and when it is added. */
  onSegment(listener: (segment: SegmentHandle) => void): void
  /** Returns a copy of the vector in the slot. */
  read(slot: number): Float32Array
  /** Returns the vector in the slot, to be used at once: it may change with the slot. */
  view(slot: number): Float32Array
}

/** An index on another thread than the main thread. */
export class IndexView implements SearchedIndex {
  readonly id: number
  readonly dimension: number
  readonly layout: SegmentLayout
  /** Points can always have moved: this thread does not see that from a number. */
  readonly replacements: number = Number.NaN
  readonly #livePoints: () => number
  readonly #segments: SegmentHandle[] = []
  readonly #states: GraphState[] = []
  readonly #listeners: ((segment: SegmentHandle) => void)[] = []
  /** By segment, created when a row is first read. */
  readonly #readers: RowReader[] = []

  /** @param livePoints returns the number of live points */
  constructor(id: number, layout: SegmentLayout, livePoints: () => number) {
    this.id = id
    this.dimension = layout.dimension
    this.layout = layout
    this.#livePoints = livePoints
  }

  get liveCount(): number {
    return this.#livePoints()
  }

  get segments(): readonly SegmentHandle[] {
    return this.#segments
  }

  get slotCount(): number {
    const last = this.#segments.length - 1
    return last < 0 ? 0 : this.#segments[last]!.firstSlot + this.#states[last]!.slotCount
  }

  add(segment: SegmentHandle): void {
    this.#segments.push(segment)
    this.#states.push(new GraphState(segment, 0))
    for (const listener of this.#listeners) listener(segment)
  }

  onSegment(listener: (segment: SegmentHandle) => void): void {
    for (const segment of this.#segments) listener(segment)
    this.#listeners.push(listener)
  }

  /** Whether the slot's segment is known here. */
  has(slot: number): boolean {
    return slot < this.#segments.length * this.layout.capacity
  }

  read(slot: number): Float32Array {
    return new Float32Array(this.view(slot))
  }

  view(slot: number): Float32Array {
    const { capacity, rows, rowBytes } = this.layout
    const segment = this.#segments[Math.floor(slot / capacity)]!
    const local = slot % capacity
    if (segment.rowFile === undefined)
      return new Float32Array(segment.memory.buffer, rows + local * rowBytes, this.dimension)
    this.#readers[segment.ordinal] ??= new RowReader(segment)
    return this.#readers[segment.ordinal]!.vector(local)
  }

  /** Closes the row file if it is open. */
  close(): void {
    for (const reader of this.#readers) reader?.[Symbol.dispose]()
  }
}
