import { assert } from '../base/assert.ts'
import type { Filter } from '../base/filter.ts'
import type { Payload } from '../base/point.ts'
import { BlockLoader } from './block-loader.ts'
import { ChangeJournal } from './change-journal.ts'
import { type FacetCount, FacetRun } from './facet-run.ts'
import { type CachedFilter, FilterCache } from './filter-cache.ts'
import { filterKey } from './filter-key.ts'
import { type FilterSource, testsPerStep } from './filter-node.ts'
import { type Block, indexBlocks } from './index-blocks.ts'
import { MemoryCount } from './memory-count.ts'
import { NumberField } from './number-field.ts'
import { PathTree } from './path-tree.ts'
import { type PreparedFilter, prepareFilter } from './prepare-filter.ts'
import { RoomCheck } from './room-check.ts'
import { Shapes } from './shapes.ts'
import { SlotGroup } from './slot-group.ts'
import { SlotSet } from './slot-set.ts'
import { kindOf, pathIdOf, stageAttributes } from './stage-attributes.ts'

export interface AttributeIndexOptions {
  /** The slot of the 16 bytes of an id at an offset, or -1. */
  readonly findSlot: (bytes: Uint8Array, at: number) => number
  /** Writes the 16 bytes of the id of a slot, which holds a point. */
  readonly copyId: (slot: number, target: Uint8Array, at: number) => void
  /** @throws DatabaseError `memory_full` if the index must not take so many bytes */
  readonly checkMemory?: ((bytes: number) => void) | undefined
  /** Different paths of attributes, those of maps included. */
  readonly pathsMax?: number | undefined
  /** For the results of filters that were used last. */
  readonly cacheBytes?: number | undefined
  /** Touched slots that are remembered. */
  readonly journalLength?: number | undefined
}

/** What a slot holds, for the index. */
export interface IndexedPoint {
  readonly payload: Payload
  /** Sequence number of the point's last change. */
  readonly version: number
}

/**
 * Finds the slots whose points match a filter: attributes, content types, expiries and versions, by slot. Main thread only,
 * except for `SlotSet`s, which search threads read.
 *
 * Every point is in the index, also one without attributes. Its id has to be in the table of ids as long as it is here.
 * Generators work in steps of well under a millisecond, between which points may change.
 */
export class AttributeIndex {
  readonly journal: ChangeJournal
  readonly #options: AttributeIndexOptions
  #memory = new MemoryCount()
  #tree = new PathTree(this.#memory)
  #shapes = new Shapes(this.#memory)
  #source: FilterSource
  readonly #cache: FilterCache
  readonly #runs = new Set<FacetRun>()
  #prepared = new WeakMap<Filter, PreparedFilter>()

  constructor(options: AttributeIndexOptions) {
    this.#options = options
    this.journal = new ChangeJournal(options.journalLength ?? journalLength)
    this.#cache = new FilterCache(options.cacheBytes ?? cacheBytes)
    this.#source = this.#emptySource()
  }

  /** Empties the index, after a file that was read into it has turned out to be damaged. Nobody has used the index before. */
  reset(): void {
    this.#memory = new MemoryCount()
    this.#tree = new PathTree(this.#memory)
    this.#shapes = new Shapes(this.#memory)
    this.#source = this.#emptySource()
    this.#prepared = new WeakMap()
  }

  #emptySource(): FilterSource {
    const { findSlot, copyId } = this.#options
    return {
      tree: this.#tree,
      live: new SlotGroup(this.#memory),
      images: new SlotGroup(this.#memory),
      expiries: new NumberField(this.#memory),
      versions: new NumberField(this.#memory),
      findSlot,
      copyId,
    }
  }

  /** Points in the index. */
  get count(): number {
    return this.#source.live.count
  }

  /** Above all slots that ever held a point. */
  get slotEnd(): number {
    return this.#source.versions.column.end
  }

  /** All paths that a point has something at. */
  get paths(): Iterable<string> {
    return this.#tree.paths
  }

  get pathCount(): number {
    return this.#tree.count
  }

  /** Bytes that the index takes, the cache of filters included. */
  get memoryBytes(): number {
    return this.#memory.bytes + this.#cache.bytes + this.journal.memoryBytes
  }

  /** For `MemoryBudget`. */
  get claimedBytes(): number {
    return this.memoryBytes
  }

  /** A check that points fit: call `add` for each, before they are stored. Valid until the next change. */
  roomCheck(pathsLimit: number = this.#options.pathsMax ?? pathsMax): RoomCheck {
    return new RoomCheck({
      tree: this.#tree,
      pathsMax: pathsLimit,
      memoryBytes: this.memoryBytes,
      checkMemory: this.#options.checkMemory ?? (() => {}),
    })
  }

  /**
   * Throws if the points do not all fit.
   *
   * @throws DatabaseError `memory_full`; `invalid_argument` when the collection would have too many different paths
   */
  checkRoom(payloads: Iterable<Payload>): void {
    const check = this.roomCheck()
    for (const payload of payloads) check.add(payload)
  }

  /** What a slot holds from now on, in place of what it held. */
  set(slot: number, { payload, version }: IndexedPoint): void {
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
    this.journal.add(slot)
  }

  /** The slot holds no point any more. Idempotent. */
  delete(slot: number): void {
    if (!this.#shapes.has(slot)) return
    this.#willChange(slot)
    this.#dropEmpty(this.#take(slot))
    this.journal.add(slot)
  }

  has(slot: number): boolean {
    return this.#shapes.has(slot)
  }

  /** The version of the point in a slot, which must hold one. */
  versionOf(slot: number): number {
    return this.#source.versions.column.get(slot)
  }

  /** When the point of a slot expires; undefined for never. */
  expiresAtUsOf(slot: number): number | undefined {
    const expiresAtUs = this.#source.expiries.column.get(slot)
    return Number.isNaN(expiresAtUs) ? undefined : expiresAtUs
  }

  /** Prepares a filter for many calls of `matches`. The same `Filter` object is prepared once. */
  *prepare(filter: Filter): Generator<void, PreparedFilter> {
    const known = this.#prepared.get(filter)
    if (known !== undefined) return known
    const prepared = yield* prepareFilter(this.#source, filter)
    this.#prepared.set(filter, prepared)
    return prepared
  }

  /** Whether the point in a slot matches; false for a slot without one. A filter with many values should be prepared before. */
  matches(filter: Filter | PreparedFilter, slot: number): boolean {
    if (!this.#shapes.has(slot)) return false
    return ('node' in filter ? filter : finish(this.prepare(filter))).node.matches(slot)
  }

  /** The slots that match, at the moment when it returns. */
  *evaluate(filter: Filter): Generator<void, SlotSet> {
    const prepared = yield* this.prepare(filter)
    return (yield* this.#evaluate(prepared)).set
  }

  /**
   * As `evaluate`, for filters that are used again: their results are kept, and brought up to date with what changed. The set
   * may be changed by later calls, but only for slots that are touched after this one.
   */
  *matching(filter: Filter): Generator<void, SlotSet> {
    const key = yield* filterKey(filter)
    const cached = this.#cache.get(key)
    if (cached !== undefined && this.#isWorthUpdating(cached)) {
      if (yield* this.#update(cached)) {
        this.#cache.set(key, cached)
        return cached.set
      }
    }
    const entry = yield* this.#evaluate(cached?.prepared ?? (yield* this.prepare(filter)))
    this.#cache.set(key, entry)
    return entry.set
  }

  /**
   * The most frequent values at some paths, and how many points of a set have them: exact, as of the moment of the first step.
   * Values with equal counts come by type (text, numbers, booleans, moments, places), then ascending. Work that is given up
   * has to be ended with `return`.
   *
   * @param within absent: all points
   * @param limit values a path
   */
  *facets(
    paths: readonly string[],
    within: SlotSet | undefined,
    limit: number,
  ): Generator<void, ReadonlyMap<string, readonly FacetCount[]>> {
    const run = new FacetRun(this.#source, paths, within, this.slotEnd)
    this.#runs.add(run)
    try {
      yield* run.count()
      return yield* run.mostFrequent(limit)
    } finally {
      this.#runs.delete(run)
      run.close()
    }
  }

  /** As `facets`, for one path. */
  *facet(path: string, within: SlotSet | undefined, limit: number): Generator<void, readonly FacetCount[]> {
    return (yield* this.facets([path], within, limit)).get(path)!
  }

  /** What a file of the index holds, in steps. Slots that are touched between them may be wrong. */
  blocks(): Generator<Block, void> {
    return indexBlocks(this.#source, this.#shapes)
  }

  /**
   * Fills the index, which is empty, from the blocks of a file.
   *
   * @param leftOut slots that were touched while the file was written
   */
  loader(leftOut: ReadonlySet<number>): BlockLoader {
    assert(this.count === 0, 'the index is empty')
    return new BlockLoader(this.#source, this.#shapes, leftOut)
  }

  #willChange(slot: number): void {
    for (const run of this.#runs) run.willChange(slot)
  }

  /** Takes from a slot what it holds. Returns the codes of what that was. */
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

  /** Drops those paths of codes that no slot has anything at any more. */
  #dropEmpty(codes: readonly number[]): void {
    for (const code of codes) this.#tree.dropIfEmpty(pathIdOf(code))
  }

  *#evaluate(prepared: PreparedFilter): Generator<void, CachedFilter> {
    for (let attempt = 1; ; attempt += 1) {
      const { position } = this.journal
      const set = new SlotSet(this.slotEnd)
      const work = prepared.node.fill(set.words)
      // So many changes that the journal runs over again and again: then without a pause.
      if (attempt === attemptsMax) finish(work[Symbol.iterator]())
      else yield* work
      set.recount()
      const entry: CachedFilter = { prepared, set, position }
      if (yield* this.#update(entry)) return entry
      assert(attempt < attemptsMax, 'the journal ran over without a pause')
    }
  }

  /** Tests the slots again that were touched since. Returns false if the journal has run over. */
  *#update(entry: CachedFilter): Generator<void, boolean> {
    const { journal } = this
    while (journal.reaches(entry.position)) {
      this.#makeRoom(entry)
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

  /** A set with less room stays with those who read it. */
  #makeRoom(entry: CachedFilter): void {
    if (this.slotEnd > entry.set.room)
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

/** The result of some work, all of it at once. */
function finish<Result>(work: Iterator<void, Result>): Result {
  for (;;) {
    const step = work.next()
    if (step.done) return step.value
  }
}

export type { FacetCount }

/** 10,000 take about 25 MB, and are more than people name. */
const pathsMax = 10_000
/** Of ten million slots, about 50 filters. */
const cacheBytes = 64 * 1024 * 1024
/** Changes of about a second at most. */
const journalLength = 65_536
const attemptsMax = 3
/** Evaluating takes at least as long as this many. */
const testsFree = 32
