import { type AnswerRoom, LruCache } from '../base/budgets.ts'
import { assert, invalid } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import { filterKey } from '../base/filter-key.ts'
import type { Payload } from '../base/point.ts'
import { bitmapChangesMax, ChangeJournal } from './change-journal.ts'
import { type FacetCount, FacetRun } from './facet-run.ts'
import { type FilterSource, type FilterWords, testsPerStep } from './filter-nodes.ts'
import { type Block, BlockLoader, indexBlocks } from './index-blocks.ts'
import { MemoryCount } from './memory-count.ts'
import { NumberField } from './number-field.ts'
import { CapacityCheck, kindOf, PathTree, pathIdOf, stageAttributes } from './path-tree.ts'
import { type PreparedFilter, prepareFilter } from './prepare-filter.ts'
import { Shapes } from './shapes.ts'
import { SlotGroup } from './slot-group.ts'
import { SlotSet } from './slot-words.ts'

export interface AttributeIndexOptions {
  /** Finds the slot of the id whose 16 bytes begin at an offset; -1 if the id is unknown. */
  readonly findSlot: (bytes: Uint8Array, at: number) => number
  /** Writes the 16 bytes of the id of a slot. The slot must hold a point. */
  readonly copyId: (slot: number, target: Uint8Array, at: number) => void
  /** Absent: the points have no words. */
  readonly words?: FilterWords | undefined
  /** @throws DatabaseError `memory_full` if the index may not use this many bytes */
  readonly checkMemory?: ((bytes: number) => void) | undefined
  /** Maximum number of distinct attribute paths, including the paths of maps. */
  readonly pathsMax?: number | undefined
  /** Memory limit of the cache of filter results. */
  readonly cacheBytes?: number | undefined
  /** Number of changes that the journal keeps. */
  readonly journalLength?: number | undefined
}

/** The parts of a point that the index stores. */
interface IndexedPoint {
  readonly payload: Payload
  /** Sequence number of the point's last change. */
  readonly version: number
}

/**
 * Finds the slots whose points match a filter. Stores attributes, content types, expiry times and versions by slot.
 * Main thread only, except for `SlotSet`s, which search threads read.
 *
 * Every point is in the index, even if it has no attributes. While a point is in the index, its id must be in the id
 * table. Generators work in steps of well under a millisecond. Points may change between steps.
 */
export class AttributeIndex {
  readonly journal: ChangeJournal
  readonly #options: AttributeIndexOptions
  #memory = new MemoryCount()
  #tree = new PathTree(this.#memory)
  #shapes = new Shapes(this.#memory)
  #source: FilterSource
  readonly #cache: LruCache<CachedFilter>
  readonly #runs = new Set<FacetRun>()
  #prepared = new WeakMap<Filter, PreparedFilter>()

  constructor(options: AttributeIndexOptions) {
    this.#options = options
    this.journal = new ChangeJournal(options.journalLength ?? journalLength)
    this.#cache = new LruCache(options.cacheBytes ?? cacheBytes, bytesOf)
    this.#source = this.#emptySource()
  }

  /** Empties an index that was being loaded from a damaged file. It must not have been used before. */
  reset(): void {
    this.#memory = new MemoryCount()
    this.#tree = new PathTree(this.#memory)
    this.#shapes = new Shapes(this.#memory)
    this.#source = this.#emptySource()
    this.#prepared = new WeakMap()
  }

  #emptySource(): FilterSource {
    const { findSlot, copyId, words = withoutWords } = this.#options
    return {
      tree: this.#tree,
      live: new SlotGroup(this.#memory),
      images: new SlotGroup(this.#memory),
      expiries: new NumberField(this.#memory),
      versions: new NumberField(this.#memory),
      findSlot,
      copyId,
      words,
    }
  }

  /** Number of points in the index. */
  get count(): number {
    return this.#source.live.count
  }

  /** One more than the highest slot that ever held a point. */
  get slotEnd(): number {
    return this.#source.versions.column.end
  }

  /** All paths at which at least one point has a value. */
  get paths(): Iterable<string> {
    return this.#tree.paths
  }

  get pathCount(): number {
    return this.#tree.count
  }

  /** Memory that the index uses, including the filter cache. */
  get memoryBytes(): number {
    return this.#memory.bytes + this.#cache.bytes + this.journal.memoryBytes
  }

  /** For `MemoryBudget`. */
  get claimedBytes(): number {
    return this.memoryBytes
  }

  /** Returns a check that points fit. Call `add` for each point before storing any. Valid until the next change. */
  capacityCheck(pathsLimit: number = this.#options.pathsMax ?? pathsMax): CapacityCheck {
    return new CapacityCheck({
      tree: this.#tree,
      pathsMax: pathsLimit,
      memoryBytes: this.memoryBytes,
      checkMemory: this.#options.checkMemory ?? (() => {}),
    })
  }

  /** Sets the point of a slot, replacing any earlier one. */
  set(slot: number, { payload, version }: IndexedPoint): void {
    this.journal.add(slot)
    this.#willChange(slot)
    const before = this.#shapes.has(slot) ? this.#take(slot) : []
    const codes = stageAttributes(this.#tree, payload.attributes)
    for (const code of codes) {
      const node = this.#tree.byId(pathIdOf(code))
      node.isStaged = false
      node.commit(kindOf(code), slot)
    }
    this.#shapes.set(slot, codes)
    this.#source.live.add(slot)
    this.#source.versions.column.set(slot, version)
    if (payload.contentType === 'Image') this.#source.images.add(slot)
    if (payload.expiresAtUs !== undefined) this.#source.expiries.column.set(slot, payload.expiresAtUs)
    this.#dropEmpty(before)
  }

  /** Removes the point of a slot. Idempotent. */
  delete(slot: number): void {
    if (!this.#shapes.has(slot)) return
    this.journal.add(slot)
    this.#willChange(slot)
    this.#dropEmpty(this.#take(slot))
  }

  has(slot: number): boolean {
    return this.#shapes.has(slot)
  }

  /** Returns the version of the point in a slot. The slot must hold a point. */
  versionOf(slot: number): number {
    return this.#source.versions.column.get(slot)
  }

  /** Returns when the point in a slot expires; undefined if it never does. */
  expiresAtUsOf(slot: number): number | undefined {
    const expiresAtUs = this.#source.expiries.column.get(slot)
    return Number.isNaN(expiresAtUs) ? undefined : expiresAtUs
  }

  /** Prepares a filter for many calls of `matches`. Each `Filter` object is prepared only once. */
  *prepare(filter: Filter): Generator<void, PreparedFilter> {
    const known = this.#prepared.get(filter)
    if (known !== undefined) return known
    const prepared = yield* prepareFilter(this.#source, filter)
    this.#prepared.set(filter, prepared)
    return prepared
  }

  /** Whether a slot holds a point that matches. Prepare a filter with many values before calling this. */
  matches(filter: Filter | PreparedFilter, slot: number): boolean {
    if (!this.#shapes.has(slot)) return false
    return ('node' in filter ? filter : finish(this.prepare(filter))).node.matches(slot)
  }

  /** Returns the matching slots as of the moment it returns. */
  *evaluate(filter: Filter): Generator<void, SlotSet> {
    const prepared = yield* this.prepare(filter)
    return (yield* this.#evaluate(prepared)).set
  }

  /**
   * As `evaluate`, but caches the result and updates it incrementally on later calls. Later calls may modify the
   * returned set, but only for slots touched after this call.
   */
  *matching(filter: Filter): Generator<void, SlotSet> {
    const key = yield* filterKey(filter)
    const cached = this.#cache.get(key)
    // Slots that change meanwhile are tested by the caller's object, at once: preparing a million values takes long.
    if (cached !== undefined) this.#prepared.set(filter, cached.prepared)
    if (cached !== undefined && this.#isWorthUpdating(cached)) {
      if (yield* this.#update(cached)) {
        this.#cache.set(key, cached)
        return cached.set
      }
    }
    const entry = yield* this.#evaluate(yield* this.prepare(filter))
    this.#cache.set(key, entry)
    return entry.set
  }

  /**
   * Returns the most frequent values at some paths, with the number of points in a set that have each. The counts are
   * exact as of the first step. Values with equal counts are ordered by type (text, number, boolean, moment, place),
   * then ascending. To abandon the work, call `return` on the generator.
   *
   * @param within undefined: all points
   * @param limit maximum number of values for each path
   */
  *facets(
    paths: readonly string[],
    within: SlotSet | undefined,
    limit: number,
    room?: AnswerRoom,
  ): Generator<void, ReadonlyMap<string, readonly FacetCount[]>> {
    const run = new FacetRun(this.#source, paths, within, this.slotEnd)
    this.#runs.add(run)
    try {
      yield* run.count()
      return yield* run.mostFrequent(limit, room)
    } finally {
      this.#runs.delete(run)
      run.close()
    }
  }

  /** Yields the contents of an index file, in steps. Slots touched between steps may be wrong. */
  blocks(orders: NumberField): Generator<Block, void> {
    return indexBlocks(this.#source, this.#shapes, orders)
  }

  /**
   * Fills an empty index from the blocks of a file.
   *
   * @param leftOut slots that were touched while the file was written
   */
  loader(leftOut: Iterable<number>): BlockLoader {
    assert(this.count === 0, 'the index is empty')
    return new BlockLoader(this.#source, this.#shapes, leftOut)
  }

  /** Forgets what filters have found: call when other words are declared. */
  forgetFilters(): void {
    this.#cache.clear()
    // Other threads keep bitmaps while few points change: as many changes that change nothing end that.
    for (let change = 0; change <= bitmapChangesMax; change += 1) this.journal.add(0)
    this.journal.settle()
  }

  #willChange(slot: number): void {
    for (const run of this.#runs) run.willChange(slot)
  }

  /** Removes everything the index stores for a slot. Returns the codes of the removed attributes. */
  #take(slot: number): readonly number[] {
    const { live, images, expiries, versions } = this.#source
    const codes = this.#shapes.take(slot)
    for (const code of codes) this.#tree.byId(pathIdOf(code)).remove(kindOf(code), slot)
    live.delete(slot)
    images.delete(slot)
    versions.remove(slot)
    if (this.expiresAtUsOf(slot) !== undefined) expiries.remove(slot)
    return codes
  }

  /** Drops the paths of these codes at which no slot has a value any more. */
  #dropEmpty(codes: readonly number[]): void {
    for (const code of codes) this.#tree.dropIfEmpty(pathIdOf(code))
  }

  *#evaluate(prepared: PreparedFilter): Generator<void, CachedFilter> {
    for (let attempt = 1; ; attempt += 1) {
      const { position } = this.journal
      const set = new SlotSet(this.slotEnd)
      const work = prepared.node.fill(set.words)
      // So many changes arrived that the journal overflowed in every earlier attempt. The last one runs without pauses.
      if (attempt === attemptsMax) finish(work[Symbol.iterator]())
      else yield* work
      set.recount()
      const entry: CachedFilter = { prepared, set, position }
      if (yield* this.#update(entry)) return entry
      assert(attempt < attemptsMax, 'the journal overflowed without a pause')
    }
  }

  /** Tests the slots touched since the entry's position. Returns false if the journal has overflowed. */
  *#update(entry: CachedFilter): Generator<void, boolean> {
    const { journal } = this
    while (journal.reaches(entry.position)) {
      this.#grow(entry)
      const end = Math.min(journal.position, entry.position + testsPerStep(entry.prepared.node))
      for (let at = entry.position; at < end; at += 1) {
        const slot = journal.slotAt(at)
        if (this.#shapes.has(slot) && entry.prepared.node.matches(slot)) entry.set.set(slot)
        else entry.set.clear(slot)
      }
      entry.position = end
      if (end === journal.position) return true
      yield
    }
    return false
  }

  /** Replaces a set that is too small by a larger copy. Threads that read the small set keep it. */
  #grow(entry: CachedFilter): void {
    if (this.slotEnd > entry.set.capacity)
      entry.set = SlotSet.from(entry.set.words, this.slotEnd + (this.slotEnd >> 3))
  }

  /** Whether testing the touched slots costs less than evaluating the filter. */
  #isWorthUpdating({ prepared: { node }, position }: CachedFilter): boolean {
    const touched = this.journal.position - position
    return (
      this.journal.reaches(position) &&
      touched * node.matchCost <= testsFree * node.matchCost + node.fillCost()
    )
  }
}

/** Runs a generator to its end without pausing. Returns its result. */
function finish<Result>(work: Iterator<void, Result>): Result {
  for (;;) {
    const step = work.next()
    if (step.done) return step.value
  }
}

export type { FacetCount, FilterWords }

const withoutWords: FilterWords = {
  state: { of: undefined, changes: 0 },
  prepareMatching: () => [],
  matching: refuseWords,
  matchingMax: refuseWords,
}

function refuseWords(): never {
  throw invalid('the points have no words')
}

/** 10,000 paths take about 25 MB. Nobody names that many by hand. */
const pathsMax = 10_000
/** Room for about 50 filters over ten million slots. */
const cacheBytes = 64 * 1024 * 1024
/** Covers about one second of changes at most. */
const journalLength = 65_536
const attemptsMax = 3
/** Evaluating a filter always takes at least as long as this many tests. */
const testsFree = 32

/** The slots that match a filter, as of a position of the journal. */
interface CachedFilter {
  readonly prepared: PreparedFilter
  set: SlotSet
  position: number
}

function bytesOf({ prepared, set }: CachedFilter): number {
  return entryBytes + prepared.memoryBytes + set.words.byteLength
}

/** Size of the objects and the key as V8 allocates them. */
const entryBytes = 800
