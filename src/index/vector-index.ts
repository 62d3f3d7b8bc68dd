import { assert, DatabaseError } from '../base/errors.ts'
import {
  growKernelMemory,
  instantiateKernels,
  type KernelModule,
  newKernelMemory,
} from '../kernels/wasm-module.ts'
import { GraphState, LinkQueue, writeGraphHeader } from './graph-state.ts'
import { adviseHugePages, isLarge } from './huge-pages.ts'
import type { SearchedIndex } from './index-view.ts'
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

interface VectorIndexOptions {
  readonly dimension: number
  readonly kernels: KernelModule
  /** Number of threads that search or link, including the main thread. Each has a lane of scratch in every segment. */
  readonly maxThreads: number
  readonly maxLimit: number
  /** Maximum number of links of a node on each upper level, 2..64; twice as many on level 0. */
  readonly m: number
  /** Beam width of the search for a new node's neighbours. */
  readonly efConstruction: number
  /** Bits of a code; undefined to use `usualCodeBits`. */
  readonly codeBits?: CodeBits | undefined
  /** The file of the rows; undefined to keep rows in memory. */
  readonly rowFile?: RowFileLayout | undefined
  /** Limits the memory of this and other indexes together, including `outsideBytes`; undefined for no limit. */
  readonly memoryBudget?: MemoryBudget | undefined
  /** Bytes that a slot uses outside the index, for example for its id. They count towards the limit. */
  readonly outsideBytes?: number | undefined
  /** Limits the slots of a segment, for tests. */
  readonly segmentSlots?: number | undefined
}

/**
 * The vectors by slot, in as many segments as they need. Main thread only, which fills and empties slots. At a start,
 * index threads fill the slots that `extend` has added; segment.ts says which thread writes what.
 */
export class VectorIndex implements SearchedIndex, MemoryUser {
  /** Unique in the process: threads serve several indexes and identify them by it. */
  readonly id: number
  readonly dimension: number
  readonly #options: VectorIndexOptions
  readonly #layout: SegmentLayout
  readonly #segments: Segment[] = []
  readonly #listeners: ((segment: SegmentHandle) => void)[] = []
  #slotCount = 0
  /** Number of slots with reserved memory. Slots not filled yet also count in a shared budget. */
  #reservedSlots = 0
  #liveCount = 0
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

  /** Releases its part of the budget and closes its files. The index must not be used afterwards. */
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

  /** Bytes that the slots use, without the lanes of threads and without unused room. */
  get memoryBytes(): number {
    return this.#slotCount * this.#bytesPerSlot
  }

  get layout(): SegmentLayout {
    return this.#layout
  }

  get segments(): readonly SegmentHandle[] {
    return this.#segments.map(({ handle }) => handle)
  }

  /** Returns the queue of slots that wait to be linked into a graph of a segment. */
  linkQueue(ordinal: number, graph: number): LinkQueue {
    return this.#segments[ordinal]!.queues[graph]!
  }

  /** Returns the segment of a slot, and the slot's number within the segment. */
  locate(slot: number): { readonly ordinal: number; readonly local: number } {
    return { ordinal: Math.floor(slot / this.#layout.capacity), local: this.#local(slot) }
  }

  /** Calls `listener` for every existing segment now, and for every new segment when it is created. */
  onSegment(listener: (segment: SegmentHandle) => void): void {
    for (const { handle } of this.#segments) listener(handle)
    this.#listeners.push(listener)
  }

  /**
   * Reserves memory for `slotCount` slots, so that a change can be refused before any of it is written.
   *
   * @throws DatabaseError `memory_full` if MAX_MEMORY_BYTES would be exceeded, or if the system has no more memory
   */
  reserve(slotCount: number): void {
    if (slotCount > this.#slotCount && this.#isBeyondLimit(slotCount)) {
      throw this.#memoryFull(slotCount, this.#options.memoryBudget!)
    }
    this.#eachSegment(slotCount, (segment, slots) => segment.reserve(slots))
    this.#reservedSlots = Math.max(this.#reservedSlots, slotCount)
  }

  #memoryFull(slotCount: number, memory: MemoryBudget): MemoryFull {
    const others = memory.totalWith(this, 0)
    const most = Math.max(0, Math.floor((memory.maxBytes - others) / this.#neededBytes(1)))
    const points = `${slotCount} points of ${this.dimension} components, and ${others} bytes of others,`
    const bytes = others + this.#neededBytes(slotCount)
    const remedy = this.#layout.rows === 0 ? '' : ', or set VECTORS_ON_DISK'
    return new MemoryFull(points, bytes, memory.maxBytes, `, in which ${most} fit`, remedy)
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
   * Adds empty slots up to `slotCount` for other threads to fill. A graph on disk may link to the last of them.
   * MAX_MEMORY_BYTES does not apply, because stored points are always loaded.
   *
   * @throws DatabaseError `memory_full` if the system has no more memory
   */
  extend(slotCount: number): void {
    this.#eachSegment(slotCount, (segment, slots) => segment.extend(slots))
    this.#slotCount = Math.max(this.#slotCount, slotCount)
  }

  /** Counts points that other threads have written to empty slots. */
  filled(points: number): void {
    this.#liveCount += points
  }

  /** Visits the segments of `slotCount` slots, with the number of slots in each. Creates missing segments. */
  #eachSegment(slotCount: number, visit: (segment: Segment, slots: number) => void): void {
    const { capacity } = this.#layout
    for (let ordinal = 0; ordinal * capacity < slotCount; ordinal += 1) {
      visit(this.#segmentAt(ordinal), Math.min(capacity, slotCount - ordinal * capacity))
    }
  }

  /** Fills a slot for which memory is reserved. Every search that starts afterwards sees the vector. */
  place(slot: number, vector: Float32Array, sequence: number): void {
    assert(vector.length === this.dimension, 'a vector has the dimension of the index')
    const segment = this.#segmentAt(Math.floor(slot / this.#layout.capacity))
    segment.extend(this.#local(slot) + 1)
    segment.slots.fill(this.#local(slot), vector, sequence)
    this.#slotCount = Math.max(this.#slotCount, slot + 1)
    this.#liveCount += 1
  }

  /** Empties a slot. No search that starts afterwards sees it. */
  remove(slot: number): void {
    assert(this.isLive(slot), 'a removed slot is live')
    this.#segmentOf(slot).slots.clear(this.#local(slot))
    this.#liveCount -= 1
  }

  /**
   * Moves a point with its new vector to another slot: fills `to`, then empties `from`. A search that starts afterwards
   * sees exactly one of the two slots.
   */
  replace(from: number, to: number, vector: Float32Array, sequence: number): void {
    this.place(to, vector, sequence)
    this.remove(from)
    this.#replacements += 1
  }

  /** Number of vectors ever replaced. While it does not change, no point moves to another slot. */
  get replacements(): number {
    return this.#replacements
  }

  isLive(slot: number): boolean {
    return slot < this.#slotCount && this.#segmentOf(slot).slots.isLive(this.#local(slot))
  }

  /** Returns the sequence number of the insertion that last filled the slot. */
  sequenceOf(slot: number): number {
    return this.#segmentOf(slot).slots.sequenceOf(this.#local(slot))
  }

  /** Returns the Euclidean length of the vector that last filled the slot. */
  lengthOf(slot: number): number {
    return this.#segmentOf(slot).slots.lengthOf(this.#local(slot))
  }

  /** Returns a copy of the vector in the slot. */
  read(slot: number): Float32Array {
    return new Float32Array(this.view(slot))
  }

  /** See `SearchedIndex.view`. */
  view(slot: number): Float32Array {
    return this.#segmentOf(slot).slots.view(this.#local(slot))
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

  /** Includes the second graph, if there is one, and the visited marks of every thread. */
  get #bytesPerSlot(): number {
    const hasSecond = this.#segments.some(({ queues }) => queues[1]!.state.entry !== undefined)
    const second = hasSecond ? graphBytes(this.#layout) : 0
    return slotBytes(this.#layout, this.#options.maxThreads) + second
  }
}

let indexesMade = 0

/** Memory grows by at least this many pages, so that a stream of inserts does not grow it one page at a time. */
const growthPages = (16 * 1024 * 1024) / pageBytes

/** The writer's side of one segment. */
class Segment {
  readonly handle: SegmentHandle
  readonly queues: readonly LinkQueue[]
  readonly slots: Slots
  #slotCount = 0
  /** Pages of the memory, cached because reading the memory's buffer takes as long as filling a slot. */
  #pages: number
  #hasHugePages = false

  constructor(ordinal: number, layout: SegmentLayout, { kernels, rowFile }: VectorIndexOptions) {
    this.#pages = pagesFor(layout, 0)
    const memory = allocate(this.#pages)
    this.handle = { ordinal, firstSlot: ordinal * layout.capacity, memory, layout, rowFile }
    this.queues = Array.from({ length: graphsPerSegment }, (_, graph) => {
      writeGraphHeader(this.handle, graph)
      return new LinkQueue(new GraphState(this.handle, graph))
    })
    // Created after the headers, from which the kernels read the addresses of the columns.
    this.slots = new Slots(this.handle, instantiateKernels(kernels, memory), 0)
  }

  /** Grows the memory for slots that will be inserted, with huge pages once it is large. */
  reserve(slotCount: number): void {
    this.#grow(slotCount)
    if (this.#hasHugePages || !isLarge(this.#pages * pageBytes, this.handle.layout)) return
    adviseHugePages(this.handle)
    this.#hasHugePages = true
  }

  #grow(slotCount: number): void {
    const { memory, layout } = this.handle
    const needed = pagesFor(layout, slotCount)
    if (needed <= this.#pages) return
    const pages = Math.min(Math.max(needed, this.#pages + growthPages), pagesFor(layout, layout.capacity))
    try {
      growKernelMemory(memory, pages - this.#pages)
    } catch (error) {
      throw outOfMemory(error)
    }
    this.#pages = pages
    this.slots.refresh()
  }

  extend(slotCount: number): void {
    if (slotCount <= this.#slotCount) return
    this.#grow(slotCount)
    this.#slotCount = slotCount
    for (const { state } of this.queues) state.slotCount = slotCount
  }
}

function allocate(pages: number): WebAssembly.Memory {
  try {
    return newKernelMemory(pages)
  } catch (error) {
    throw outOfMemory(error)
  }
}

function outOfMemory(cause: unknown): DatabaseError {
  return new DatabaseError('memory_full', 'the system has no more memory for vectors', { cause })
}

/** An object whose memory counts towards a `MemoryBudget`. */
export interface MemoryUser {
  /** Bytes that the object uses or has reserved. */
  readonly claimedBytes: number
}

/** The error of a change for which MAX_MEMORY_BYTES leaves no room. */
export class MemoryFull extends DatabaseError {
  /** How far the change would exceed the limit. */
  readonly missingBytes: number

  /**
   * @param fit how many of the points fit
   * @param remedy what could be done besides deleting points and raising the limit
   */
  constructor(points: string, bytes: number, maxBytes: number, fit = '', remedy = '') {
    super(
      'memory_full',
      `${points} would take ${bytes} bytes of memory, the maximum is ${maxBytes} (MAX_MEMORY_BYTES)${fit}: delete points or raise it${remedy}`,
    )
    this.missingBytes = bytes - maxBytes
  }
}

/** A limit on the memory that several indexes use together. Main thread only. */
export class MemoryBudget {
  /** 0 for no limit. */
  readonly maxBytes: number
  /**
   * Frees this many bytes, or as many as nobody uses at the moment; resolves with whether there were any. Set by the
   * owner of what can be freed.
   */
  makeRoom: (bytes: number) => Promise<boolean> = async () => false
  readonly #users = new Set<MemoryUser>()

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes
  }

  add(user: MemoryUser): void {
    this.#users.add(user)
  }

  /** Idempotent. */
  remove(user: MemoryUser): void {
    this.#users.delete(user)
  }

  get usedBytes(): number {
    let total = 0
    for (const each of this.#users) total += each.claimedBytes
    return total
  }

  /** Returns the total if `user` used this many bytes. Check it before reserving them. */
  totalWith(user: MemoryUser, bytes: number): number {
    let total = bytes
    for (const each of this.#users) if (each !== user) total += each.claimedBytes
    return total
  }
}
