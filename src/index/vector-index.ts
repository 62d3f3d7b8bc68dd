import { assert } from '../base/assert.ts'
import { DatabaseError } from '../base/errors.ts'
import { instantiateKernels, type KernelModule } from '../kernels/wasm-module.ts'
import { GraphState, writeGraphHeader } from './graph-state.ts'
import { LinkQueue } from './link-queue.ts'
import type { MemoryBudget, MemoryUser } from './memory-budget.ts'
import {
  type CodeBits,
  graphBytes,
  graphsPerSegment,
  pageBytes,
  pagesFor,
  type RowFileLayout,
  type SegmentHandle,
  type SegmentLayout,
  segmentLayout,
  slotBytes,
} from './segment.ts'
import { Slots } from './slots.ts'

export interface VectorIndexOptions {
  readonly dimension: number
  readonly kernels: KernelModule
  /** Threads that search or link, the main thread included: each has a lane of scratch in every segment. */
  readonly maxThreads: number
  readonly maxLimit: number
  /** Links of a graph's node on each upper level, 2..64; level 0 has twice as many. */
  readonly m: number
  /** Width of the search for a new node's neighbours. */
  readonly efConstruction: number
  /** Bits of a code; undefined for `usualCodeBits`. */
  readonly codeBits?: CodeBits | undefined
  /** Where the rows are on disk; undefined to keep them in memory. */
  readonly rowFile?: RowFileLayout | undefined
  /** Limits the memory of the slots, `outsideBytes` included, together with other indexes; undefined for no limit. */
  readonly memoryBudget?: MemoryBudget | undefined
  /** Bytes that a slot takes outside of the index, such as for its id: they count towards the limit. */
  readonly outsideBytes?: number | undefined
  /** Fewer slots a segment than fit, for tests. */
  readonly segmentSlots?: number | undefined
}

/**
 * The vectors in memory, by slot, in as many segments as they need. Main thread only: it fills and empties slots. At a start,
 * index threads fill the slots that `extend` has added; segment.ts says which thread writes what.
 */
export class VectorIndex implements MemoryUser {
  /** Unique in the process: threads serve several indexes and identify them by it. */
  readonly id: number
  readonly dimension: number
  readonly #options: VectorIndexOptions
  readonly #layout: SegmentLayout
  readonly #segments: Segment[] = []
  readonly #listeners: ((segment: SegmentHandle) => void)[] = []
  #slotCount = 0
  /** Slots for which memory was reserved; those not filled yet also count in a shared budget. */
  #reservedSlots = 0
  #liveCount = 0
  #removals = 0
  #replacements = 0

  constructor(options: VectorIndexOptions) {
    indexesMade += 1
    this.id = indexesMade
    this.dimension = options.dimension
    this.#options = options
    this.#layout = segmentLayout({
      dimension: options.dimension,
      threads: options.maxThreads,
      maxLimit: options.maxLimit,
      m: options.m,
      efConstruction: options.efConstruction,
      codeBits: options.codeBits,
      rowsOnDisk: options.rowFile !== undefined,
      maxSlots: options.segmentSlots,
    })
    options.memoryBudget?.add(this)
  }

  /** Returns its part of the budget and closes its files. Nothing may be read or written afterwards. */
  close(): void {
    this.#options.memoryBudget?.remove(this)
    for (const { slots } of this.#segments) slots.close()
  }

  /** One more than the highest slot that was ever filled. */
  get slotCount(): number {
    return this.#slotCount
  }

  get liveCount(): number {
    return this.#liveCount
  }

  /** Bytes that the slots take, without the threads' lanes and without unused room. */
  get memoryBytes(): number {
    return this.#slotCount * this.#bytesPerSlot
  }

  get layout(): SegmentLayout {
    return this.#layout
  }

  get segments(): readonly SegmentHandle[] {
    return this.#segments.map(({ handle }) => handle)
  }

  /** The slots that wait to be linked into a graph of a segment. */
  linkQueue(ordinal: number, graph: number): LinkQueue {
    return this.#segments[ordinal]!.queues[graph]!
  }

  /** A slot's segment and its number within it. */
  locate(slot: number): { readonly ordinal: number; readonly local: number } {
    return { ordinal: Math.floor(slot / this.#layout.capacity), local: this.#local(slot) }
  }

  /** Calls `listener` for every segment, those that exist now first. */
  onSegment(listener: (segment: SegmentHandle) => void): void {
    for (const { handle } of this.#segments) listener(handle)
    this.#listeners.push(listener)
  }

  /**
   * Makes sure that `slotCount` slots fit, so that a change can be refused before any of it is written.
   *
   * @throws DatabaseError `memory_full` that names MAX_MEMORY_BYTES, or says that the system has no more
   */
  reserve(slotCount: number): void {
    if (slotCount > this.#slotCount && this.#isBeyondLimit(slotCount)) {
      const { memoryBudget } = this.#options
      throw new DatabaseError(
        'memory_full',
        `points would take ${memoryBudget!.totalWith(this, this.#neededBytes(slotCount))} bytes of memory, the most is ${memoryBudget!.maxBytes} (MAX_MEMORY_BYTES): delete points or raise it`,
      )
    }
    this.#eachSegment(slotCount, (segment, slots) => segment.grow(slots))
    this.#reservedSlots = Math.max(this.#reservedSlots, slotCount)
  }

  /** Whether the slots take more than MAX_MEMORY_BYTES, as they may after it was lowered. */
  get isBeyondLimit(): boolean {
    return this.#isBeyondLimit(this.#slotCount)
  }

  #isBeyondLimit(slotCount: number): boolean {
    const { memoryBudget } = this.#options
    if (memoryBudget === undefined || memoryBudget.maxBytes === 0) return false
    return memoryBudget.totalWith(this, this.#neededBytes(slotCount)) > memoryBudget.maxBytes
  }

  get claimedBytes(): number {
    return this.#neededBytes(Math.max(this.#slotCount, this.#reservedSlots))
  }

  #neededBytes(slotCount: number): number {
    return slotCount * (this.#bytesPerSlot + (this.#options.outsideBytes ?? 0))
  }

  /**
   * Adds empty slots up to `slotCount`, for other threads to fill; a graph on disk may link to the last of them.
   * MAX_MEMORY_BYTES does not apply: stored points are always loaded.
   *
   * @throws DatabaseError `memory_full` when the system has no more
   */
  extend(slotCount: number): void {
    this.#eachSegment(slotCount, (segment, slots) => segment.extend(slots))
    this.#slotCount = Math.max(this.#slotCount, slotCount)
  }

  /** Counts points that other threads have put into empty slots. */
  filled(points: number): void {
    this.#liveCount += points
  }

  /** Visits the segments of `slotCount` slots, with the slots that each holds; creates those that do not exist yet. */
  #eachSegment(slotCount: number, visit: (segment: Segment, slots: number) => void): void {
    const { capacity } = this.#layout
    for (let ordinal = 0; ordinal * capacity < slotCount; ordinal += 1) {
      visit(this.#segmentAt(ordinal), Math.min(capacity, slotCount - ordinal * capacity))
    }
  }

  /** Fills a slot, for which room was reserved before; every search that starts afterwards sees the vector. */
  place(slot: number, vector: Float32Array, sequence: number): void {
    assert(vector.length === this.dimension, 'a vector has the dimension of the index')
    const segment = this.#segmentAt(Math.floor(slot / this.#layout.capacity))
    segment.extend(this.#local(slot) + 1)
    segment.slots.fill(this.#local(slot), vector, sequence)
    this.#slotCount = Math.max(this.#slotCount, slot + 1)
    this.#liveCount += 1
  }

  /** Empties a slot; no search that starts afterwards sees it. */
  remove(slot: number): void {
    assert(this.isLive(slot), 'a removed slot is live')
    this.#segmentOf(slot).slots.clear(this.#local(slot))
    this.#liveCount -= 1
    this.#removals += 1
  }

  /** Points ever removed: while it does not change, every filled slot keeps its point. */
  get removals(): number {
    return this.#removals
  }

  /**
   * Fills a slot with the new vector of a point and empties the one that it leaves: no search that starts afterwards sees
   * both or neither.
   */
  replace(from: number, to: number, vector: Float32Array, sequence: number): void {
    this.place(to, vector, sequence)
    this.remove(from)
    this.#replacements += 1
  }

  /** Points that ever got another vector: while it does not change, no point moves to another slot. */
  get replacements(): number {
    return this.#replacements
  }

  isLive(slot: number): boolean {
    return slot < this.#slotCount && this.#segmentOf(slot).slots.isLive(this.#local(slot))
  }

  /** Sequence number of the insertion that last filled the slot. */
  sequenceOf(slot: number): number {
    return this.#segmentOf(slot).slots.sequenceOf(this.#local(slot))
  }

  /** Euclidean length of the vector that last filled the slot. */
  lengthOf(slot: number): number {
    return this.#segmentOf(slot).slots.lengthOf(this.#local(slot))
  }

  /** A copy of the slot's vector. */
  read(slot: number): Float32Array {
    return this.#segmentOf(slot).slots.read(this.#local(slot))
  }

  #local(slot: number): number {
    return slot % this.#layout.capacity
  }

  #segmentOf(slot: number): Segment {
    return this.#segments[Math.floor(slot / this.#layout.capacity)]!
  }

  #segmentAt(ordinal: number): Segment {
    while (this.#segments.length <= ordinal) {
      const segment = new Segment(this.#segments.length, this.#layout, this.#options)
      this.#segments.push(segment)
      for (const listener of this.#listeners) listener(segment.handle)
    }
    return this.#segments[ordinal]!
  }

  /** Includes the second graph, where there is one, and the marks of every thread that may search. */
  get #bytesPerSlot(): number {
    const hasSecond = this.#segments.some(({ queues }) => queues[1]!.state.entry !== undefined)
    const second = hasSecond ? graphBytes(this.#layout) : 0
    return slotBytes(this.#layout) + second + this.#options.maxThreads
  }
}

let indexesMade = 0

/** Memory grows by at least this much, so that a stream of inserts does not grow it one page at a time. */
const growthPages = (16 * 1024 * 1024) / pageBytes

/** The writer's side of one segment. */
class Segment {
  readonly handle: SegmentHandle
  readonly queues: readonly LinkQueue[]
  readonly slots: Slots
  #slotCount = 0
  /** Pages of its memory, cached because reading the memory's buffer takes as long as filling a slot. */
  #pages: number

  constructor(ordinal: number, layout: SegmentLayout, { kernels, rowFile }: VectorIndexOptions) {
    this.#pages = pagesFor(layout, 0)
    const memory = allocate(this.#pages)
    this.handle = { ordinal, firstSlot: ordinal * layout.capacity, memory, layout, rowFile }
    this.queues = Array.from({ length: graphsPerSegment }, (_, graph) => {
      writeGraphHeader(this.handle, graph)
      return new LinkQueue(new GraphState(this.handle, graph))
    })
    // After the headers, which tell the kernels where the columns are.
    this.slots = new Slots(this.handle, instantiateKernels(kernels, memory), 0)
  }

  grow(slotCount: number): void {
    const { memory, layout } = this.handle
    const needed = pagesFor(layout, slotCount)
    if (needed <= this.#pages) return
    const pages = Math.min(Math.max(needed, this.#pages + growthPages), pagesFor(layout, layout.capacity))
    try {
      memory.grow(pages - this.#pages)
    } catch (error) {
      throw outOfMemory(error)
    }
    this.#pages = pages
    this.slots.refresh()
  }

  extend(slotCount: number): void {
    if (slotCount <= this.#slotCount) return
    this.grow(slotCount)
    this.#slotCount = slotCount
    for (const { state } of this.queues) state.slotCount = slotCount
  }
}

function allocate(pages: number): WebAssembly.Memory {
  try {
    return new WebAssembly.Memory({ initial: pages, maximum: 65_536, shared: true })
  } catch (error) {
    throw outOfMemory(error)
  }
}

function outOfMemory(cause: unknown): DatabaseError {
  return new DatabaseError('memory_full', 'the system has no more memory for vectors', { cause })
}
