import { columnFilter } from '../kernels/column-filter.ts'
import { ByteDictionary } from './byte-dictionary.ts'
import type { ListArena } from './list-arena.ts'
import type { MemoryCount } from './memory-count.ts'
import { Uint32Pages } from './memory-count.ts'
import type { LeftOut, Piece } from './pieces.ts'
import { columnPieces, loadColumn, SlotColumn } from './slot-column.ts'
import { SlotGroup } from './slot-group.ts'
import { hasMany, orBlock, setBit } from './slot-words.ts'
import { OneOfTexts, SameText, type TextTest } from './value-tests.ts'

/**
 * The texts at a path: a dictionary of the distinct texts, the slots of each text, and the texts of each slot. A text
 * without slots is removed and its ordinal may be reused, unless the field is pinned.
 */
export class TextField {
  readonly dictionary: ByteDictionary
  /** Lists of slots and of ordinals, shared by all fields of the index. */
  readonly #lists: ListArena
  readonly #memory: MemoryCount
  /** By ordinal: 0 for no posting, or the posting's kind in the two highest bits and its content in the others. */
  readonly #postings: Uint32Pages
  readonly #groups: SlotGroup[] = []
  readonly #freeGroups: number[] = []
  /** By slot: an ordinal plus one, or `isList` plus the place of a list of ordinals. */
  readonly #column: SlotColumn
  #staged: string[] = []
  #pins = 0
  #unposted: number[] = []

  constructor(memory: MemoryCount, lists: ListArena) {
    this.#memory = memory
    this.#lists = lists
    this.dictionary = new ByteDictionary(memory)
    this.#postings = new Uint32Pages(memory)
    this.#column = new SlotColumn(memory, 'ordinals')
    memory.add(fieldBytes)
  }

  /** Number of slots with a text. */
  get count(): number {
    return this.#column.count
  }

  /** Stages a value for the next `commit`. Returns whether it is the first one staged. */
  stage(value: string): boolean {
    return this.#staged.push(value) === 1
  }

  /** Sets the staged texts at a slot. The slot must not have a text. */
  commit(slot: number): void {
    const ordinals = this.#staged.map((text) => this.dictionary.add(Buffer.from(text)))
    this.#staged = []
    this.assign(slot, ordinals.length === 1 ? ordinals : [...new Set(ordinals)])
  }

  /** Sets texts from the dictionary at a slot. The slot must not have a text. */
  assign(slot: number, ordinals: readonly number[]): void {
    this.#postings.reserve(this.dictionary.end)
    const entry = ordinals.length === 1 ? ordinals[0]! + 1 : isList + this.#lists.create(ordinals)
    this.#column.set(slot, entry)
    for (const ordinal of ordinals) this.#post(ordinal, slot)
  }

  /** The slot must have a text. */
  remove(slot: number): void {
    const ordinals = this.ordinalsOf(slot)
    const entry = this.#column.get(slot)
    this.#column.delete(slot)
    if (entry >= isList) this.#lists.free(entry - isList)
    for (const ordinal of ordinals) this.#unpost(ordinal, slot)
  }

  /** Yields pieces of a file: the texts, and the texts of each slot. The slots of each text follow from these. */
  *pieces(): Generator<Piece, void> {
    yield* this.dictionary.pieces()
    yield* columnPieces(this.#column, { from: isList, of: (entry) => this.#listed(entry - isList) })
  }

  /** Loads a piece of a file. Call `complete` after the last piece. */
  load(piece: Piece, leftOut: LeftOut): void {
    if (piece.form === 'values') this.dictionary.load(piece)
    else {
      const assign = (slot: number, ordinals: readonly number[]): void =>
        this.#column.set(slot, isList + this.#lists.create(ordinals))
      loadColumn(this.#column, piece, leftOut, assign)
    }
  }

  /**
   * Finishes loading, in steps: finds the slots of each text, and removes texts without slots.
   *
   * @throws Error if a slot refers to a missing text
   */
  *complete(): Generator<void, void> {
    const { dictionary } = this
    const slots = new SlotsByOrdinal(dictionary.end)
    yield* this.#eachEntry((_, ordinal) => slots.count(ordinal))
    yield* slots.arrange()
    yield* this.#eachEntry((slot, ordinal) => slots.add(ordinal, slot))
    this.#postings.reserve(dictionary.end)
    for (let ordinal = 0; ordinal < dictionary.end; ordinal += 1) {
      const own = slots.of(ordinal)
      const isUsed = dictionary.isUsed(ordinal)
      if (!isUsed && own.length > 0) throw new Error('a slot refers to a missing text')
      if (!isUsed) dictionary.release(ordinal)
      else if (own.length === 0) dictionary.delete(ordinal)
      else yield* this.#postAll(ordinal, own)
      if (ordinal % ordinalsPerStep === 0) yield
    }
  }

  *#postAll(ordinal: number, slots: Uint32Array): Generator<void, void> {
    if (slots.length === 1) this.#setPosting(ordinal, postingKinds.slot, slots[0]!)
    else if (slots.length <= listMax) this.#setPosting(ordinal, postingKinds.list, this.#lists.create(slots))
    else {
      const group = new SlotGroup(this.#memory)
      this.#setPosting(ordinal, postingKinds.group, this.#groups.push(group) - 1)
      yield* group.fill(slots)
    }
  }

  /** Visits each slot with each of its texts, in order of slots and in steps. */
  #eachEntry(visit: (slot: number, ordinal: number) => void): Generator<void, void> {
    return this.#column.each((slot, entry) => {
      if (entry < isList) return visit(slot, entry - 1)
      const list = entry - isList
      const length = this.#lists.lengthOf(list)
      for (let rank = 0; rank < length; rank += 1) visit(slot, this.#lists.at(list, rank))
    })
  }

  /** Returns the ordinals of the texts of a slot. */
  ordinalsOf(slot: number): number[] {
    const entry = this.#column.get(slot)
    if (entry < isList) return entry === 0 ? [] : [entry - 1]
    return this.#listed(entry - isList)
  }

  #listed(list: number): number[] {
    return Array.from({ length: this.#lists.lengthOf(list) }, (_, rank) => this.#lists.at(list, rank))
  }

  /** Adds 1 to the count of each text of a slot. */
  countInto(slot: number, counts: Uint32Pages): void {
    const entry = this.#column.get(slot)
    if (entry === 0) return
    if (entry < isList) counts.set(entry - 1, counts.get(entry - 1) + 1)
    else for (const ordinal of this.ordinalsOf(slot)) counts.set(ordinal, counts.get(ordinal) + 1)
  }

  /** Whether at least one text of a slot passes. */
  some(slot: number, test: TextTest): boolean {
    const entry = this.#column.get(slot)
    if (entry === 0) return false
    if (entry < isList) return test.accepts(this.dictionary, entry - 1)
    const list = entry - isList
    const length = this.#lists.lengthOf(list)
    for (let rank = 0; rank < length; rank += 1) {
      if (test.accepts(this.dictionary, this.#lists.at(list, rank))) return true
    }
    return false
  }

  /** Estimates how many slots have a text that passes. */
  estimate(test: TextTest): number {
    if (test instanceof SameText) return this.#countOfText(test.bytes, test.hash)
    if (!(test instanceof OneOfTexts) || test.texts.count > estimatedMax) return this.count
    const { texts } = test
    let sum = 0
    for (let wanted = 0; wanted < texts.end; wanted += 1) {
      sum += this.#countOfText(texts.read(wanted), texts.hashOf(wanted))
    }
    return Math.min(sum, this.count)
  }

  /** Estimates the cost of `fill` in nanoseconds. */
  fillCost(test: TextTest): number {
    if (test instanceof SameText) return this.estimate(test)
    const values = this.dictionary.count
    const tested = test instanceof OneOfTexts ? Math.min(test.texts.count, values) : values
    return tested * nsPerText + this.estimate(test)
  }

  /** Sets the bits of the slots with a text that passes. `within` is as in `NumberField`. */
  *fill(words: Uint32Array, test: TextTest, within?: Uint32Array): Generator<void, void> {
    if (test instanceof SameText) {
      const ordinal = this.dictionary.find(test.bytes, test.hash)
      if (ordinal !== -1) this.orSlots(ordinal, words)
    } else if (test instanceof OneOfTexts && test.texts.count < this.dictionary.count) {
      yield* this.#fillOrdinals(yield* this.#ordinalsIn(test.texts), words, within)
    } else if (this.dictionary.end <= acceptedMax) {
      yield* this.#fillOrdinals(this.#passing(test), words, within)
    } else yield* this.#fillPassing(test, words)
  }

  #countOfText(bytes: Uint8Array, hash: number): number {
    const ordinal = this.dictionary.find(bytes, hash)
    return ordinal === -1 ? 0 : this.countOf(ordinal)
  }

  /** Returns the ordinals of the texts that pass. */
  #passing(test: TextTest): number[] {
    const { dictionary } = this
    const ordinals: number[] = []
    for (let ordinal = 0; ordinal < dictionary.end; ordinal += 1) {
      if (dictionary.isUsed(ordinal) && test.accepts(dictionary, ordinal)) ordinals.push(ordinal)
    }
    return ordinals
  }

  *#ordinalsIn(texts: ByteDictionary): Generator<void, number[]> {
    const ordinals: number[] = []
    for (let wanted = 0; wanted < texts.end; wanted += 1) {
      const ordinal = this.dictionary.find(texts.read(wanted), texts.hashOf(wanted))
      if (ordinal !== -1) ordinals.push(ordinal)
      if (wanted % ordinalsPerStep === ordinalsPerStep - 1) yield
    }
    return ordinals
  }

  /**
   * Sets the bits of the slots that have one of some texts. Reads the slots of each text or the text of each slot,
   * whichever costs less. Between steps, the ordinals of untouched slots keep their meaning.
   */
  *#fillOrdinals(
    ordinals: readonly number[],
    words: Uint32Array,
    within: Uint32Array | undefined,
  ): Generator<void, void> {
    const { end } = this.dictionary
    const matching = ordinals.reduce((sum, ordinal) => sum + this.countOf(ordinal), 0)
    const slotsPerBit = end < 2 ** 8 ? 8 : 2
    if (end > acceptedMax || this.#column.end >= matching * slotsPerBit) {
      yield* this.#fillPostings(ordinals, words)
      return
    }
    const accepted = new Uint8Array(end)
    for (const ordinal of ordinals) accepted[ordinal] = 1
    yield* this.#fillAccepted(words, within, accepted)
  }

  *#fillPostings(ordinals: readonly number[], words: Uint32Array): Generator<void, void> {
    let work = 0
    for (const ordinal of ordinals) {
      if (!this.dictionary.isUsed(ordinal)) continue
      work += workPerText + this.countOf(ordinal)
      this.orSlots(ordinal, words)
      if (work < workPerStep) continue
      work = 0
      yield
    }
  }

  /** Tests text by text. Between steps, the ordinals of untouched slots keep their meaning. */
  *#fillPassing(test: TextTest, words: Uint32Array): Generator<void, void> {
    const { dictionary } = this
    let work = 0
    for (let ordinal = 0; ordinal < dictionary.end; ordinal += 1) {
      work += workPerText
      if (dictionary.isUsed(ordinal) && test.accepts(dictionary, ordinal)) {
        this.orSlots(ordinal, words)
        work += this.countOf(ordinal)
      }
      if (work < workPerStep) continue
      work = 0
      yield
    }
  }

  /**
   * Sets the bits of slots that have an accepted text.
   *
   * @param slots slots outside this set need not be tested; undefined: all slots
   * @param accepted 1 or 0 by ordinal. Between steps, the ordinals of untouched slots keep their meaning.
   */
  *#fillAccepted(
    words: Uint32Array,
    slots: Uint32Array | undefined,
    accepted: Uint8Array,
  ): Generator<void, void> {
    const wordsEnd = Math.min(words.length, Math.ceil(this.#column.end / 32))
    for (let first = 0; first < wordsEnd; first += wordsPerBlock) {
      // Other work may have used the filter since the last block.
      if (first % wordsPerStep === 0) columnFilter.accept(accepted, 1)
      const end = Math.min(first + wordsPerBlock, wordsEnd)
      const entries = this.#column.entriesOf(first * 32, end * 32)
      if (entries !== undefined && (slots === undefined || hasMany(slots, first, end, manyMin))) {
        columnFilter.ofAccepted(entries)
        orBlock(words, columnFilter.bits, first, entries.length >>> 5)
      } else this.#fillSingly(words, slots, accepted, first, end)
      if (first % wordsPerStep === wordsPerStep - wordsPerBlock) yield
    }
  }

  #fillSingly(
    words: Uint32Array,
    slots: Uint32Array | undefined,
    accepted: Uint8Array,
    first: number,
    end: number,
  ): void {
    for (let index = first; index < end; index += 1) {
      for (let rest = slots === undefined ? allBits : slots[index]!; rest !== 0; rest &= rest - 1) {
        const bit = rest & -rest
        if (this.#isAccepted(index * 32 + 31 - Math.clz32(bit), accepted)) words[index]! |= bit
      }
    }
  }

  #isAccepted(slot: number, accepted: Uint8Array): boolean {
    const entry = this.#column.get(slot)
    if (entry < isList) return entry !== 0 && accepted[entry - 1] === 1
    const list = entry - isList
    const length = this.#lists.lengthOf(list)
    for (let rank = 0; rank < length; rank += 1) if (accepted[this.#lists.at(list, rank)] === 1) return true
    return false
  }

  /** Returns how many slots have the text of an ordinal. */
  countOf(ordinal: number): number {
    const posting = this.#postings.get(ordinal)
    const content = posting & contentMask
    switch (posting >>> contentBits) {
      case postingKinds.slot:
        return 1
      case postingKinds.list:
        return this.#lists.lengthOf(content)
      case postingKinds.group:
        return this.#groups[content]!.count
      default:
        return 0
    }
  }

  /** Sets the bits of the slots that have the text of an ordinal. */
  orSlots(ordinal: number, words: Uint32Array): void {
    const posting = this.#postings.get(ordinal)
    const content = posting & contentMask
    const kind = posting >>> contentBits
    if (kind === postingKinds.slot) setBit(words, content)
    if (kind === postingKinds.group) this.#groups[content]!.orInto(words)
    if (kind !== postingKinds.list) return
    const length = this.#lists.lengthOf(content)
    for (let rank = 0; rank < length; rank += 1) setBit(words, this.#lists.at(content, rank))
  }

  /** Makes ordinals keep their values until `unpin`, even if the last slot of a value is removed. */
  pin(): void {
    this.#pins += 1
  }

  unpin(): void {
    this.#pins -= 1
    if (this.#pins > 0) return
    for (const ordinal of this.#unposted) {
      if (this.dictionary.isUsed(ordinal) && this.countOf(ordinal) === 0) this.dictionary.delete(ordinal)
    }
    this.#unposted = []
  }

  #post(ordinal: number, slot: number): void {
    const posting = this.#postings.get(ordinal)
    const content = posting & contentMask
    const kind = posting >>> contentBits
    if (kind === postingKinds.group) this.#groups[content]!.add(slot)
    else if (kind === postingKinds.list) this.#postToList(ordinal, content, slot)
    else if (kind === postingKinds.slot) {
      const slots = content < slot ? [content, slot] : [slot, content]
      this.#setPosting(ordinal, postingKinds.list, this.#lists.create(slots))
    } else this.#setPosting(ordinal, postingKinds.slot, slot)
  }

  #postToList(ordinal: number, list: number, slot: number): void {
    if (this.#lists.lengthOf(list) === listMax) this.#toGroup(ordinal, list, slot)
    else this.#setPosting(ordinal, postingKinds.list, this.#lists.insert(list, slot))
  }

  #unpost(ordinal: number, slot: number): void {
    const posting = this.#postings.get(ordinal)
    const content = posting & contentMask
    const kind = posting >>> contentBits
    if (kind === postingKinds.list) this.#lists.remove(content, slot)
    if (kind === postingKinds.group) this.#groups[content]!.delete(slot)
    if (kind !== postingKinds.slot && this.countOf(ordinal) > 0) return
    if (kind === postingKinds.list) this.#lists.free(content)
    if (kind === postingKinds.group) this.#freeGroup(content)
    this.#postings.set(ordinal, 0)
    if (this.#pins > 0) this.#unposted.push(ordinal)
    else this.dictionary.delete(ordinal)
  }

  #toGroup(ordinal: number, list: number, slot: number): void {
    const group = new SlotGroup(this.#memory)
    for (let rank = 0; rank < listMax; rank += 1) group.add(this.#lists.at(list, rank))
    group.add(slot)
    this.#lists.free(list)
    const index = this.#freeGroups.pop() ?? this.#groups.length
    this.#groups[index] = group
    this.#setPosting(ordinal, postingKinds.group, index)
  }

  #freeGroup(index: number): void {
    this.#groups[index]!.release()
    this.#freeGroups.push(index)
  }

  #setPosting(ordinal: number, kind: number, content: number): void {
    this.#postings.set(ordinal, ((kind << contentBits) | content) >>> 0)
  }
}

/** A posting is one slot, a list of slots, or a group for many slots. */
const postingKinds = { slot: 1, list: 2, group: 3 } as const
const contentBits = 30
const contentMask = 2 ** contentBits - 1
/** A list of this length and its length word fill a block of 64 words. */
const listMax = 63
const isList = 2 ** 31
/** Cost of testing a text. */
const nsPerText = 60
/** Number of slots whose bits are set between two pauses, which takes well under a millisecond. */
const workPerStep = 100_000
/** Testing a text takes as long as setting the bits of this many slots. */
const workPerText = 64
/** Maximum number of texts that are tested without a pause, which takes well under a millisecond. */
const acceptedMax = 4096
/** Maximum number of texts that are looked up for an estimate. */
const estimatedMax = 64
/** Testing the slots of this many words takes well under a millisecond. */
const wordsPerStep = 1024
/** The kernel tests 4,096 slots in about the time of testing this many slots singly. */
const manyMin = 64
/** A block has 4,096 slots. */
const wordsPerBlock = 128
const allBits = -1
/** Completing or looking up this many texts takes well under a millisecond. */
const ordinalsPerStep = 1024
/** Size of the objects as V8 allocates them. */
const fieldBytes = 500

/** Groups slots by ordinal (counting sort): the caller first counts all slots, then arranges, then adds all slots. */
class SlotsByOrdinal {
  /** By ordinal: first the number of its slots, then the end of the slots added so far. */
  readonly #ends: Uint32Array
  #slots: Uint32Array = new Uint32Array(0)

  /** @param end one more than the highest ordinal */
  constructor(end: number) {
    this.#ends = new Uint32Array(end)
  }

  /** @throws Error if the ordinal is not below `end` */
  count(ordinal: number): void {
    if (ordinal >= this.#ends.length) throw new Error('a slot refers to a missing text')
    this.#ends[ordinal]! += 1
  }

  /** Must be called once after all slots have been counted. Works in steps. */
  *arrange(): Generator<void, void> {
    let start = 0
    for (let ordinal = 0; ordinal < this.#ends.length; ordinal += 1) {
      const count = this.#ends[ordinal]!
      this.#ends[ordinal] = start
      start += count
      if (ordinal % arrangedPerStep === arrangedPerStep - 1) yield
    }
    this.#slots = new Uint32Array(start)
  }

  add(ordinal: number, slot: number): void {
    this.#slots[this.#ends[ordinal]!] = slot
    this.#ends[ordinal]! += 1
  }

  /** Returns the slots of an ordinal in the order in which they were added. All slots must have been added. */
  of(ordinal: number): Uint32Array {
    return this.#slots.subarray(ordinal === 0 ? 0 : this.#ends[ordinal - 1]!, this.#ends[ordinal]!)
  }
}

/** Arranging this many ordinals takes well under a millisecond. */
const arrangedPerStep = 65_536
