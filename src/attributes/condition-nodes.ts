import { idBytes } from '../base/ids.ts'
import { type FilterNode, type FilterSource, matchesNone } from './filter-node.ts'
import type { FlagField } from './flag-field.ts'
import type { GeoTest } from './geo.ts'
import type { GeoField } from './geo-field.ts'
import type { NumberField } from './number-field.ts'
import type { NumberTest } from './number-tests.ts'
import type { SlotGroup } from './slot-group.ts'
import { andNotWords, andWords, orWords, setBit } from './slot-words.ts'

/** Matches slots with a number or moment that passes a test. */
export class NumberNode implements FilterNode {
  readonly #field: () => NumberField | undefined
  readonly #test: NumberTest
  readonly matchCost = 30

  constructor(field: () => NumberField | undefined, test: NumberTest) {
    this.#field = field
    this.#test = test
  }

  matches(slot: number): boolean {
    return this.#field()?.some(slot, this.#test) ?? false
  }

  tester(): (slot: number) => boolean {
    const field = this.#field()
    const test = this.#test
    return field === undefined ? matchesNone : (slot) => field.some(slot, test)
  }

  estimate(): number {
    return this.#field()?.estimate(this.#test) ?? 0
  }

  fillCost(): number {
    return this.#field()?.fillCost(this.#test) ?? 0
  }

  *fill(words: Uint32Array, within?: Uint32Array): Generator<void, void> {
    yield* this.#field()?.fill(words, this.#test, within) ?? []
  }
}

/** Matches slots that have one of the given booleans. */
export class FlagNode implements FilterNode {
  readonly #field: () => FlagField | undefined
  readonly #values: ReadonlySet<boolean>
  readonly matchCost = 30

  constructor(field: () => FlagField | undefined, values: ReadonlySet<boolean>) {
    this.#field = field
    this.#values = values
  }

  matches(slot: number): boolean {
    return this.#groups().some((group) => group.has(slot))
  }

  tester(): (slot: number) => boolean {
    const groups = this.#groups()
    return (slot) => groups.some((group) => group.has(slot))
  }

  estimate(): number {
    return this.#groups().reduce((sum, { count }) => sum + count, 0)
  }

  fillCost(): number {
    return this.estimate() / 8
  }

  fill(words: Uint32Array): Iterable<void, void> {
    for (const group of this.#groups()) group.orInto(words)
    return []
  }

  #groups(): readonly SlotGroup[] {
    const field = this.#field()
    if (field === undefined) return []
    return [...this.#values].map((value) => (value ? field.yes : field.no))
  }
}

/** Matches slots with a place that passes a test. */
export class GeoNode implements FilterNode {
  readonly #field: () => GeoField | undefined
  readonly #test: GeoTest
  readonly matchCost = 150

  constructor(field: () => GeoField | undefined, test: GeoTest) {
    this.#field = field
    this.#test = test
  }

  matches(slot: number): boolean {
    return this.#field()?.some(slot, this.#test) ?? false
  }

  tester(): (slot: number) => boolean {
    const field = this.#field()
    const test = this.#test
    return field === undefined ? matchesNone : (slot) => field.some(slot, test)
  }

  estimate(): number {
    return this.#field()?.count ?? 0
  }

  fillCost(): number {
    return this.estimate() * 10
  }

  *fill(words: Uint32Array, within?: Uint32Array): Generator<void, void> {
    yield* this.#field()?.fill(words, this.#test, within) ?? []
  }
}

/** Matches the slots of a group. */
export class GroupNode implements FilterNode {
  readonly #group: () => SlotGroup | undefined
  readonly matchCost = 30

  constructor(group: () => SlotGroup | undefined) {
    this.#group = group
  }

  matches(slot: number): boolean {
    return this.#group()?.has(slot) ?? false
  }

  tester(): (slot: number) => boolean {
    const group = this.#group()
    return group === undefined ? matchesNone : (slot) => group.has(slot)
  }

  estimate(): number {
    return this.#group()?.count ?? 0
  }

  fillCost(): number {
    return this.estimate() / 8
  }

  fill(words: Uint32Array): Iterable<void, void> {
    this.#group()?.orInto(words)
    return []
  }
}

/** Matches points of the given content types. */
export class ContentTypeNode implements FilterNode {
  readonly #source: FilterSource
  readonly #isImageWanted: boolean
  readonly #isTextWanted: boolean
  readonly matchCost = 30

  constructor(source: FilterSource, isImageWanted: boolean, isTextWanted: boolean) {
    this.#source = source
    this.#isImageWanted = isImageWanted
    this.#isTextWanted = isTextWanted
  }

  matches(slot: number): boolean {
    return this.#source.images.has(slot) ? this.#isImageWanted : this.#isTextWanted
  }

  tester(): (slot: number) => boolean {
    return (slot) => this.matches(slot)
  }

  estimate(): number {
    const { live, images } = this.#source
    return (this.#isImageWanted ? images.count : 0) + (this.#isTextWanted ? live.count - images.count : 0)
  }

  fillCost(): number {
    return this.#source.live.count / 8
  }

  fill(words: Uint32Array): Iterable<void, void> {
    const { live, images } = this.#source
    const ofImages = new Uint32Array(words.length)
    images.orInto(ofImages)
    if (this.#isImageWanted) orWords(words, ofImages)
    if (!this.#isTextWanted) return []
    const others = new Uint32Array(words.length)
    live.orInto(others)
    andNotWords(others, ofImages)
    orWords(words, others)
    return []
  }
}

/** Matches points by their ids. */
export class IdsNode implements FilterNode {
  readonly #source: FilterSource
  readonly #ids: Uint8Array
  readonly #id = new Uint8Array(idBytes)
  readonly matchCost = 200

  /** @param ids 16 bytes each, ascending */
  constructor(source: FilterSource, ids: Uint8Array) {
    this.#source = source
    this.#ids = ids
  }

  matches(slot: number): boolean {
    this.#source.copyId(slot, this.#id, 0)
    let low = 0
    let high = this.estimate()
    while (low < high) {
      const middle = (low + high) >>> 1
      const order = compareIds(this.#ids, middle * idBytes, this.#id)
      if (order === 0) return true
      if (order < 0) low = middle + 1
      else high = middle
    }
    return false
  }

  tester(): (slot: number) => boolean {
    return (slot) => this.matches(slot)
  }

  estimate(): number {
    return this.#ids.length / idBytes
  }

  fillCost(): number {
    return this.estimate() * this.matchCost
  }

  *fill(words: Uint32Array): Generator<void, void> {
    const found = new Uint32Array(words.length)
    for (let index = 0; index < this.estimate(); index += 1) {
      const slot = this.#source.findSlot(this.#ids, index * idBytes)
      if (slot !== -1) setBit(found, slot)
      if (index % idsPerStep === idsPerStep - 1) yield
    }
    const live = new Uint32Array(words.length)
    this.#source.live.orInto(live)
    andWords(found, live)
    orWords(words, found)
  }
}

function compareIds(ids: Uint8Array, at: number, id: Uint8Array): number {
  for (let index = 0; index < idBytes; index += 1) {
    const difference = ids[at + index]! - id[index]!
    if (difference !== 0) return difference
  }
  return 0
}

/** Looking up this many ids takes well under a millisecond. */
const idsPerStep = 1024
