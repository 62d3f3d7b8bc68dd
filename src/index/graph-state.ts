import { assert } from '../base/errors.ts'
import * as words from '../kernels/graph-header.ts'
import { ABSENT, LEAVING, LINKED, NO_LINK } from '../kernels/memory-format.ts'
import { reachCount } from './routes.ts'
import type { SegmentHandle } from './segment.ts'

/** The states of a slot in a graph. */
export const slotStates: {
  readonly absent: typeof ABSENT
  readonly linked: typeof LINKED
  readonly leaving: typeof LEAVING
} = { absent: ABSENT, linked: LINKED, leaving: LEAVING }

/** Marks the end of a list of links that is not full. */
export const noLink: number = NO_LINK

/** The words of a header that `writeGraphHeader` sets. The others start at 0, except for the entry point. */
type FixedWord = Exclude<
  keyof typeof words,
  'ENTRY' | 'PAUSE' | 'RING_HEAD' | 'RING_TAIL' | 'SLOTS' | 'REACHES' | 'HEADER_BYTES'
>

/** Writes the header of an empty graph. */
export function writeGraphHeader({ memory, layout }: SegmentHandle, graph: number): void {
  const columns = layout.graphs[graph]!
  const values: Readonly<Record<FixedWord, number>> = {
    CODE_WIDTH: layout.codeWidth,
    ROW_LENGTH: layout.paddedDimension,
    M: layout.m,
    M0: 2 * layout.m,
    EF_CONSTRUCTION: layout.efConstruction,
    CODES: layout.codes,
    CODE_STRIDE: layout.codeBytes,
    CODE_BITS: layout.codeBits,
    LIVE: layout.live,
    ROWS: layout.rows,
    SEQUENCES: layout.sequences,
    NORMS: layout.norms,
    HASHES: layout.hashes,
    LINKS: columns.links,
    UPPERS: columns.uppers,
    UPPER_BLOCKS: columns.upperBlocks,
    // List 0 is unused, because 0 means that a slot has no upper lists.
    UPPER_NEXT: 1,
    UPPER_LIMIT: columns.upperCount,
    LOCKS: columns.locks,
    STATES: columns.states,
    LEVELS: columns.levels,
    RING: columns.ring,
    RING_LENGTH: layout.capacity,
  }
  const offsets: Readonly<Record<FixedWord, number>> = words
  const view = new DataView(memory.buffer, columns.header)
  for (const [word, value] of Object.entries(values)) {
    view.setBigUint64(offsets[word as FixedWord], BigInt(value), true)
  }
  view.setBigInt64(words.ENTRY, -1n, true)
}

/** Views of a graph's header and columns. These lie before the column that grows, so the views stay valid. */
export class GraphState {
  readonly states: Uint8Array
  /** The highest level of each slot's node. */
  readonly levels: Uint8Array
  readonly uppers: Uint32Array
  readonly links: Uint32Array
  readonly upperBlocks: Uint32Array
  readonly ring: Uint32Array
  /** See `WalkEnd` in routes.ts. */
  readonly reaches: Float32Array
  readonly #entry: BigInt64Array
  readonly #upperNext: Int32Array
  readonly #slots: Int32Array
  /** Head and tail, which are adjacent in the header. */
  readonly #ringEnds: BigInt64Array

  constructor({ memory: { buffer }, layout: { capacity, graphs, m } }: SegmentHandle, graph: number) {
    const columns = graphs[graph]!
    this.states = new Uint8Array(buffer, columns.states, capacity)
    this.levels = new Uint8Array(buffer, columns.levels, capacity)
    this.uppers = new Uint32Array(buffer, columns.uppers, capacity)
    this.links = new Uint32Array(buffer, columns.links, capacity * 2 * m)
    this.upperBlocks = new Uint32Array(buffer, columns.upperBlocks, columns.upperCount * m)
    this.ring = new Uint32Array(buffer, columns.ring, capacity)
    this.reaches = new Float32Array(buffer, columns.header + words.REACHES, reachCount)
    this.#entry = new BigInt64Array(buffer, columns.header + words.ENTRY, 1)
    this.#upperNext = new Int32Array(buffer, columns.header + words.UPPER_NEXT, 1)
    this.#slots = new Int32Array(buffer, columns.header + words.SLOTS, 1)
    this.#ringEnds = new BigInt64Array(buffer, columns.header + words.RING_HEAD, 2)
  }

  /** Level and slot of the entry point; undefined while the graph is empty. */
  get entry(): { readonly level: number; readonly slot: number } | undefined {
    const value = Atomics.load(this.#entry, 0)
    return value < 0n ? undefined : { level: Number(value >> 32n), slot: Number(value & 0xffff_ffffn) }
  }

  set entry(entry: { readonly level: number; readonly slot: number } | undefined) {
    const value = entry === undefined ? -1n : (BigInt(entry.level) << 32n) | BigInt(entry.slot)
    Atomics.store(this.#entry, 0, value)
  }

  /** The first unused upper list. */
  get upperNext(): number {
    return Atomics.load(this.#upperNext, 0)
  }

  set upperNext(value: number) {
    Atomics.store(this.#upperNext, 0, value)
  }

  /** One more than the highest slot of the segment that was ever filled. */
  get slotCount(): number {
    return Atomics.load(this.#slots, 0)
  }

  set slotCount(value: number) {
    Atomics.store(this.#slots, 0, value)
  }

  /** Empties the graph. Concurrent walks find fewer points. */
  reset(): void {
    this.entry = undefined
    this.states.fill(slotStates.absent, 0, this.slotCount)
    this.uppers.fill(0, 0, this.slotCount)
    this.upperNext = 1
    this.reaches.fill(0)
  }

  /** Publishes how many slots have ever left (`head`) and entered (`tail`) the ring. */
  setRing(head: number, tail: number): void {
    Atomics.store(this.#ringEnds, 1, BigInt(tail))
    Atomics.store(this.#ringEnds, 0, BigInt(head))
  }
}

/**
 * The slots of a segment that wait to be linked into a graph, in a ring in shared memory that searches scan.
 * Slots are handed out and leave in order. Searches skip a slot that is linked but has not left yet.
 * No slot is in the queue twice, so a ring as long as the segment is always long enough.
 *
 * Main thread only; other threads read the ring through the kernels.
 */
export class LinkQueue {
  readonly state: GraphState
  readonly #ring: Uint32Array
  #head = 0
  #taken = 0
  #tail = 0
  /** Batches that were handed out and have not left the queue yet, the oldest first. */
  #batches: { readonly count: number; isDone: boolean }[] = []

  constructor(state: GraphState) {
    this.state = state
    this.#ring = state.ring
  }

  /** Number of slots that searches must scan. */
  get length(): number {
    return this.#tail - this.#head
  }

  /** Number of slots that have not been handed out yet. */
  get waiting(): number {
    return this.#tail - this.#taken
  }

  push(local: number): void {
    assert(this.length < this.#ring.length, 'a slot waits once')
    this.#ring[this.#tail % this.#ring.length] = local
    this.#tail += 1
    this.state.setRing(this.#head, this.#tail)
  }

  /**
   * Hands out up to `count` slots.
   *
   * @returns the slots, and a function to call once they are linked; it returns the slots that left the queue
   */
  take(count: number): { readonly slots: number[]; readonly done: () => number[] } {
    const end = Math.min(this.#taken + count, this.#tail)
    const slots: number[] = []
    for (; this.#taken < end; this.#taken += 1) slots.push(this.#ring[this.#taken % this.#ring.length]!)
    const batch = { count: slots.length, isDone: false }
    this.#batches.push(batch)
    return {
      slots,
      done: () => {
        batch.isDone = true
        return this.#leave()
      },
    }
  }

  /** Removes and returns all slots, including those handed out. The `done` of their batches then returns nothing. */
  clear(): number[] {
    const left: number[] = []
    for (let at = this.#head; at < this.#tail; at += 1) left.push(this.#ring[at % this.#ring.length]!)
    this.#head = this.#tail
    this.#taken = this.#tail
    this.#batches = []
    this.state.setRing(this.#head, this.#tail)
    return left
  }

  #leave(): number[] {
    const left: number[] = []
    while (this.#batches[0]?.isDone) {
      const { count } = this.#batches.shift()!
      for (let at = 0; at < count; at += 1) left.push(this.#ring[(this.#head + at) % this.#ring.length]!)
      this.#head += count
    }
    this.state.setRing(this.#head, this.#tail)
    return left
  }
}
