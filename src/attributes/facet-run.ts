import { DateTime, GeoPoint, type Scalar } from '../base/attributes.ts'
import type { AnswerRoom } from '../base/budgets.ts'
import { FirstItems } from '../base/first-items.ts'
import { valueBytes } from '../base/point.ts'
import { ByteDictionary } from './byte-dictionary.ts'
import type { FilterSource } from './filter-nodes.ts'
import type { GeoField } from './geo-field.ts'
import { MemoryCount, Uint32Pages } from './memory-count.ts'
import type { NumberField } from './number-field.ts'
import { NumberCounts } from './number-table.ts'
import type { BooleanField } from './path-tree.ts'
import { clearBit, hasBit, type SlotSet, slotsOf, wordsFor } from './slot-words.ts'
import type { TextField } from './text-field.ts'

export interface FacetCount {
  readonly value: Scalar
  readonly count: number
}

/**
 * Counts the values of a set of slots in steps, as of the moment of its construction: a slot that is about to change is
 * counted first, unless it has been counted already.
 */
export class FacetRun {
  /** Slots that have not been counted yet. */
  readonly #left: Uint32Array
  readonly #counters: ReadonlyMap<string, readonly FacetCounter[]>

  /** @param within undefined: all points */
  constructor(source: FilterSource, paths: readonly string[], within: SlotSet | undefined, slotEnd: number) {
    this.#left = new Uint32Array(wordsFor(slotEnd))
    if (within === undefined) source.live.orInto(this.#left)
    else this.#left.set(within.words.subarray(0, this.#left.length))
    this.#counters = new Map([...new Set(paths)].map((path) => [path, countersOf(source, path)]))
  }

  /** Must be called before a slot changes. */
  willChange(slot: number): void {
    if (!hasBit(this.#left, slot)) return
    clearBit(this.#left, slot)
    this.#add(slot)
  }

  *count(): Generator<void, void> {
    let counted = 0
    for (const slot of slotsOf(this.#left)) {
      // It may have been counted since its word was read.
      if (hasBit(this.#left, slot)) this.willChange(slot)
      counted += 1
      if (counted % slotsPerStep === 0) yield
    }
  }

  /** @param room counts the values that are returned */
  *mostFrequent(
    limit: number,
    room?: AnswerRoom,
  ): Generator<void, ReadonlyMap<string, readonly FacetCount[]>> {
    const facets = new Map<string, readonly FacetCount[]>()
    for (const [path, counters] of this.#counters) {
      const best = new FirstItems(limit, compareEntries)
      for (const counter of counters) yield* addAll(best, counter.entries())
      const counts = best.sorted().map(({ value, count }) => ({ value: value(), count }))
      room?.add(counts.reduce((bytes, { value }) => bytes + valueBytes(value), 0))
      facets.set(path, counts)
      yield
    }
    return facets
  }

  /** Idempotent. */
  close(): void {
    for (const counters of this.#counters.values()) for (const counter of counters) counter.close()
  }

  #add(slot: number): void {
    for (const counters of this.#counters.values()) for (const counter of counters) counter.add(slot)
  }
}

/** Adds entries; yields from time to time. */
function* addAll(
  best: FirstItems<FacetEntry>,
  entries: Iterable<FacetEntry | undefined>,
): Generator<void, void> {
  let seen = 0
  for (const entry of entries) {
    if (entry !== undefined) best.add(entry)
    seen += 1
    if (seen % entriesPerStep === 0) yield
  }
}

function compareEntries(one: FacetEntry, other: FacetEntry): number {
  return other.count - one.count || one.rank - other.rank || compareOrders(one, other)
}

function compareOrders({ order }: FacetEntry, { order: otherOrder }: FacetEntry): number {
  if (typeof order === 'number') return order - (otherOrder as number)
  if (order instanceof Uint8Array) return Buffer.compare(order, otherOrder as Uint8Array)
  const [lat, lon] = otherOrder as readonly [number, number]
  return order[0] - lat || order[1] - lon
}

/** Counting this many slots takes about 0.1 ms. */
const slotsPerStep = 1024
const entriesPerStep = 512

/** A value with its count. Entries are sorted by count, then by rank (the type), then by order within the type. */
interface FacetEntry {
  readonly count: number
  readonly rank: number
  readonly order: number | Uint8Array | readonly [lat: number, lon: number]
  readonly value: () => Scalar
}

/** Counts the values of one type at one path. Each distinct value of a slot counts once. */
interface FacetCounter {
  add(slot: number): void
  /** Yields the entries, with `undefined` in between where the caller may pause. */
  entries(): Iterable<FacetEntry | undefined>
  close(): void
}

const ranks = { text: 0, number: 1, boolean: 2, date: 3, geo: 4 } as const

/** Returns a counter for each type of value that exists at a path now. */
function countersOf(source: FilterSource, path: string): FacetCounter[] {
  if (path === '$content_type') return [new ContentTypeCounter(source)]
  if (path === '$version') return [new NumberCounter(source.versions, ranks.number, (value) => value)]
  if (path === '$expires_at')
    return [new NumberCounter(source.expiries, ranks.date, (us) => new DateTime(us))]
  const fields = source.tree.find(path)?.fields
  const counters: FacetCounter[] = []
  if (fields?.text !== undefined) counters.push(new TextCounter(fields.text))
  if (fields?.number !== undefined) {
    counters.push(new NumberCounter(fields.number, ranks.number, (value) => value))
  }
  if (fields?.boolean !== undefined) counters.push(new BooleanCounter(fields.boolean))
  if (fields?.date !== undefined) {
    counters.push(new NumberCounter(fields.date, ranks.date, (us) => new DateTime(us)))
  }
  if (fields?.geo !== undefined) counters.push(new GeoCounter(fields.geo))
  return counters
}

/** Counts by ordinal. Pins the field, so that ordinals keep their values. */
class TextCounter implements FacetCounter {
  readonly #field: TextField
  readonly #counts = new Uint32Pages(new MemoryCount())

  constructor(field: TextField) {
    this.#field = field
    this.#counts.reserve(field.dictionary.end)
    field.pin()
  }

  add(slot: number): void {
    for (const ordinal of this.#field.ordinalsOf(slot))
      this.#counts.set(ordinal, this.#counts.get(ordinal) + 1)
  }

  *entries(): Generator<FacetEntry | undefined, void> {
    // Values added since counting began have no count, and their ordinals may be beyond the reserved room.
    const { dictionary } = this.#field
    this.#counts.reserve(dictionary.end)
    const end = dictionary.end
    for (let ordinal = 0; ordinal < end; ordinal += 1) {
      const count = this.#counts.get(ordinal)
      if (count === 0) yield undefined
      else yield textEntry(count, dictionary.read(ordinal).slice())
    }
  }

  close(): void {
    this.#field.unpin()
  }
}

function textEntry(count: number, bytes: Uint8Array): FacetEntry {
  return { count, rank: ranks.text, order: bytes, value: () => Buffer.from(bytes).toString() }
}

class NumberCounter implements FacetCounter {
  readonly #field: NumberField
  readonly #rank: number
  readonly #toScalar: (value: number) => Scalar
  readonly #counts = new NumberCounts()

  constructor(field: NumberField, rank: number, toScalar: (value: number) => Scalar) {
    this.#field = field
    this.#rank = rank
    this.#toScalar = toScalar
  }

  add(slot: number): void {
    this.#field.countInto(slot, this.#counts)
  }

  *entries(): Generator<FacetEntry | undefined, void> {
    for (const { keys, values } of this.#counts.tables()) {
      for (let index = 0; index < keys.length; index += 1) {
        const key = keys[index]!
        if (Number.isNaN(key)) yield undefined
        else yield { count: values[index]!, rank: this.#rank, order: key, value: () => this.#toScalar(key) }
      }
    }
  }

  close(): void {}
}

class BooleanCounter implements FacetCounter {
  readonly #field: BooleanField
  #yes = 0
  #no = 0

  constructor(field: BooleanField) {
    this.#field = field
  }

  add(slot: number): void {
    if (this.#field.yes.has(slot)) this.#yes += 1
    if (this.#field.no.has(slot)) this.#no += 1
  }

  *entries(): Generator<FacetEntry, void> {
    if (this.#no > 0) yield { count: this.#no, rank: ranks.boolean, order: 0, value: () => false }
    if (this.#yes > 0) yield { count: this.#yes, rank: ranks.boolean, order: 1, value: () => true }
  }

  close(): void {}
}

class ContentTypeCounter implements FacetCounter {
  readonly #source: FilterSource
  #images = 0
  #texts = 0

  constructor(source: FilterSource) {
    this.#source = source
  }

  add(slot: number): void {
    if (!this.#source.live.has(slot)) return
    if (this.#source.images.has(slot)) this.#images += 1
    else this.#texts += 1
  }

  *entries(): Generator<FacetEntry, void> {
    if (this.#images > 0) yield textEntry(this.#images, Buffer.from('Image'))
    if (this.#texts > 0) yield textEntry(this.#texts, Buffer.from('Text'))
  }

  close(): void {}
}

/** Counts geo points. Keeps each as 16 bytes in its own dictionary. */
class GeoCounter implements FacetCounter {
  readonly #field: GeoField
  readonly #points = new ByteDictionary(new MemoryCount())
  readonly #counts = new Uint32Pages(new MemoryCount())
  readonly #pair = new Float64Array(2)
  readonly #pairBytes = new Uint8Array(this.#pair.buffer)

  constructor(field: GeoField) {
    this.#field = field
  }

  add(slot: number): void {
    const [lats, lons] = this.#field.valuesOf(slot)
    for (let index = 0; index < lats.length; index += 1) {
      this.#pair[0] = lats[index]!
      this.#pair[1] = lons[index]!
      const ordinal = this.#points.add(this.#pairBytes)
      this.#counts.reserve(this.#points.end)
      this.#counts.set(ordinal, this.#counts.get(ordinal) + 1)
    }
  }

  *entries(): Generator<FacetEntry, void> {
    for (let ordinal = 0; ordinal < this.#points.end; ordinal += 1) {
      const [lat = 0, lon = 0] = new Float64Array(this.#points.read(ordinal).slice().buffer)
      const count = this.#counts.get(ordinal)
      yield { count, rank: ranks.geo, order: [lat, lon], value: () => new GeoPoint(lat, lon) }
    }
  }

  close(): void {}
}
