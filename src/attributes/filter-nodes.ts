import { idBytes } from '../base/ids.ts'
import { PartitionSet, partitionCount } from '../base/partitions.ts'
import type { NumberField } from './number-field.ts'
import type { PathTree } from './path-tree.ts'
import type { SlotGroup } from './slot-group.ts'
import { andNotWords, andWords, countWords, hasBit, orWords, setBit, slotsOf } from './slot-words.ts'

/** The data that the nodes of a prepared filter read. */
export interface FilterSource {
  readonly tree: PathTree
  /** Slots that hold a point. */
  readonly live: SlotGroup
  readonly images: SlotGroup
  readonly expiries: NumberField
  readonly versions: NumberField
  /** Finds the slot of the id whose 16 bytes begin at an offset; -1 if the id is unknown. */
  findSlot(bytes: Uint8Array, at: number): number
  /** Writes the 16 bytes of the id of a slot. */
  copyId(slot: number, target: Uint8Array, at: number): void
  readonly words: FilterWords
}

/** The words of the points. They change together with the attributes. */
export interface FilterWords {
  /** Differs after each change, and between two declarations. */
  readonly state: { readonly of: object | undefined; readonly changes: number }
  /** Does in steps what `matching` would do of a text at once. */
  prepareMatching(text: string): Iterable<void, void>
  /** @throws DatabaseError if the collection has no words at the path, or they are not ready */
  matching(
    kind: 'match' | 'phrase',
    text: string,
    path: string,
  ): { readonly words: Uint32Array; readonly count: number }
  /** Returns at least as many as match, in little time. @throws as `matching` */
  matchingMax(kind: 'match' | 'phrase', text: string, path: string): number
}

/**
 * A part of a filter, prepared for many tests. It keeps values and never ordinals, because an ordinal can change its
 * meaning while work is paused.
 */
export interface FilterNode {
  /** Whether a slot that holds a point matches. */
  matches(slot: number): boolean
  /** Returns a test equal to `matches` that looks up its data only once. Valid until the next change of the index. */
  tester(): (slot: number) => boolean
  /** Estimates how many slots match, so that the most selective condition can be evaluated first. */
  estimate(): number
  /** Estimates the cost of `fill` in nanoseconds. */
  fillCost(): number
  /** Estimated cost of `matches` in nanoseconds. */
  readonly matchCost: number
  /**
   * Sets the bits of matching slots. Slots touched between two steps may be wrong. Slots beyond the end of `words` are
   * ignored.
   *
   * @param within the bits of slots outside this set may be set or not
   */
  fill(words: Uint32Array, within?: Uint32Array): Iterable<void, void>
}

/** The test of a condition on a path that no slot has. */
function matchesNone(): boolean {
  return false
}

/** Returns how many slots can be tested between two pauses. */
export function testsPerStep({ matchCost }: FilterNode): number {
  return Math.ceil(stepNs / (matchCost + 1))
}

const stepNs = 100_000

/** Values of one type at a path. */
interface TestedField<Test> {
  /** Whether one of the values of a slot passes. */
  some(slot: number, test: Test): boolean
  /** Estimates how many slots have a value that passes. */
  estimate(test: Test): number
  /** Estimates the cost of `fill` in nanoseconds. */
  fillCost(test: Test): number
  fill(words: Uint32Array, test: Test, within?: Uint32Array): Iterable<void, void>
}

/** Matches slots with a value of one type that passes a test. */
export class FieldNode<Test> implements FilterNode {
  readonly #field: () => TestedField<Test> | undefined
  readonly #test: Test
  readonly matchCost: number

  constructor(field: () => TestedField<Test> | undefined, test: Test, matchCost: number) {
    this.#field = field
    this.#test = test
    this.matchCost = matchCost
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

/** Estimated nanoseconds of testing the values of one slot. */
export const matchCosts = { text: 60, number: 30, geo: 150 } as const

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

/** Matches slots whose points have words. */
export class WordsNode implements FilterNode {
  readonly #source: FilterSource
  readonly #path: string
  readonly #kind: 'match' | 'phrase'
  readonly #text: string
  readonly matchCost = 1000
  /** What the last turn found. Weak, because cached filters are many. */
  #found: WeakRef<Uint32Array> | undefined
  #state: FilterWords['state'] = { of: undefined, changes: 0 }

  constructor(source: FilterSource, path: string, kind: 'match' | 'phrase', text: string) {
    this.#source = source
    this.#path = path
    this.#kind = kind
    this.#text = text
  }

  /** The slots that match now. */
  #matching(): Uint32Array {
    const { words } = this.#source
    const { of, changes } = words.state
    const known = of === this.#state.of && changes === this.#state.changes ? this.#found?.deref() : undefined
    if (known !== undefined) return known
    const found = words.matching(this.#kind, this.#text, this.#path).words
    this.#found = new WeakRef(found)
    this.#state = { of, changes }
    return found
  }

  matches(slot: number): boolean {
    return hasBit(this.#matching(), slot)
  }

  tester(): (slot: number) => boolean {
    const matching = this.#matching()
    return (slot) => hasBit(matching, slot)
  }

  estimate(): number {
    return this.#source.words.matchingMax(this.#kind, this.#text, this.#path)
  }

  fillCost(): number {
    return this.estimate() * (this.#kind === 'phrase' ? phraseCost : postingCost)
  }

  fill(words: Uint32Array): Iterable<void, void> {
    orWords(words, this.#matching())
    return []
  }
}

/** In nanoseconds. */
const postingCost = 20
const phraseCost = 1000

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

/** Matches the points of some partitions, which only nodes of a cluster ask for. */
export class PartitionsNode implements FilterNode {
  readonly #source: FilterSource
  readonly #partitions: PartitionSet
  readonly #id = new Uint8Array(idBytes)
  readonly matchCost = 30

  /** @param partitions the bytes of a `PartitionSet` */
  constructor(source: FilterSource, partitions: Uint8Array) {
    this.#source = source
    this.#partitions = new PartitionSet(partitions)
  }

  matches(slot: number): boolean {
    this.#source.copyId(slot, this.#id, 0)
    return this.#partitions.has(this.#id[0]!)
  }

  tester(): (slot: number) => boolean {
    return (slot) => this.matches(slot)
  }

  estimate(): number {
    return Math.ceil((this.#source.live.count * this.#partitions.size) / partitionCount)
  }

  fillCost(): number {
    return this.#source.live.count * this.matchCost
  }

  *fill(words: Uint32Array, within?: Uint32Array): Generator<void, void> {
    const live = new Uint32Array(words.length)
    this.#source.live.orInto(live)
    if (within !== undefined) for (const [at, word] of within.entries()) live[at]! &= word
    const perStep = testsPerStep(this)
    let tested = 0
    for (const slot of slotsOf(live)) {
      if (this.matches(slot)) setBit(words, slot)
      tested += 1
      if (tested % perStep === 0) yield
    }
  }
}

/** Matches if all nodes match. Negated nodes are combined: not a and not b is not (a or b). */
export class AllNode implements FilterNode {
  readonly #source: FilterSource
  readonly #of: readonly FilterNode[]
  readonly matchCost: number

  constructor(source: FilterSource, of: readonly FilterNode[]) {
    this.#source = source
    const negated = of.filter((node) => node instanceof NotNode)
    const others = of.filter((node) => !(node instanceof NotNode))
    const either = (): FilterNode =>
      new AnyNode(
        source,
        negated.map((node) => node.of),
      )
    this.#of = negated.length > 1 ? [...others, new NotNode(source, either())] : of
    this.matchCost = of.reduce((sum, node) => sum + node.matchCost, 0)
  }

  matches(slot: number): boolean {
    for (const node of this.#of) if (!node.matches(slot)) return false
    return true
  }

  tester(): (slot: number) => boolean {
    const tests = this.#of.map((node) => node.tester())
    return (slot) => tests.every((test) => test(slot))
  }

  estimate(): number {
    const some = this.#of.slice(0, estimatedMax)
    return some.reduce((least, node) => Math.min(least, node.estimate()), this.#source.live.count)
  }

  fillCost(): number {
    return sumOf(this.#of, (node) => node.fillCost())
  }

  *fill(words: Uint32Array, within?: Uint32Array): Generator<void, void> {
    const [first, ...others] = this.#fewestFirst()
    if (first === undefined) return this.#source.live.orInto(words)
    const found = takeWords(words.length)
    yield* first.fill(found, within)
    for (const node of others) {
      // Each in a step of its own: the postings of a frequent word take milliseconds.
      yield
      const count = countWords(found)
      if (count === 0) break
      if (count * node.matchCost < node.fillCost()) yield* keepMatching(found, node)
      else yield* this.#keepFilled(found, node)
    }
    orWords(words, found)
    releaseWords(found)
  }

  *#keepFilled(found: Uint32Array, node: FilterNode): Generator<void, void> {
    const scratch = takeWords(found.length)
    if (node instanceof NotNode) {
      yield* node.of.fill(scratch, found)
      andNotWords(found, scratch)
    } else {
      yield* node.fill(scratch, found)
      andWords(found, scratch)
    }
    releaseWords(scratch)
  }

  #fewestFirst(): readonly FilterNode[] {
    if (this.#of.length > estimatedMax) return this.#of
    const estimated = this.#of.map((node) => ({ node, estimate: node.estimate() }))
    return estimated.sort((one, other) => one.estimate - other.estimate).map(({ node }) => node)
  }
}

/** Matches if at least one node matches. */
export class AnyNode implements FilterNode {
  readonly #source: FilterSource
  readonly #of: readonly FilterNode[]
  readonly matchCost: number

  constructor(source: FilterSource, of: readonly FilterNode[]) {
    this.#source = source
    this.#of = of
    this.matchCost = of.reduce((sum, node) => sum + node.matchCost, 0)
  }

  matches(slot: number): boolean {
    for (const node of this.#of) if (node.matches(slot)) return true
    return false
  }

  tester(): (slot: number) => boolean {
    const tests = this.#of.map((node) => node.tester())
    return (slot) => tests.some((test) => test(slot))
  }

  estimate(): number {
    return Math.min(
      this.#source.live.count,
      sumOf(this.#of, (node) => node.estimate()),
    )
  }

  fillCost(): number {
    return sumOf(this.#of, (node) => node.fillCost())
  }

  *fill(words: Uint32Array, within?: Uint32Array): Generator<void, void> {
    for (const node of this.#of) {
      yield* node.fill(words, within)
      yield
    }
  }
}

/** Matches every point that another node does not match. */
export class NotNode implements FilterNode {
  readonly of: FilterNode
  readonly #source: FilterSource

  constructor(source: FilterSource, of: FilterNode) {
    this.#source = source
    this.of = of
  }

  get matchCost(): number {
    return this.of.matchCost
  }

  matches(slot: number): boolean {
    return !this.of.matches(slot)
  }

  tester(): (slot: number) => boolean {
    const test = this.of.tester()
    return (slot) => !test(slot)
  }

  estimate(): number {
    return this.#source.live.count - this.of.estimate()
  }

  fillCost(): number {
    return this.of.fillCost() + this.#source.live.count / 32
  }

  *fill(words: Uint32Array, within?: Uint32Array): Generator<void, void> {
    const others = takeWords(words.length)
    yield* this.of.fill(others, within)
    const rest = takeWords(words.length)
    this.#source.live.orInto(rest)
    andNotWords(rest, others)
    orWords(words, rest)
    releaseWords(others)
    releaseWords(rest)
  }
}

/** Estimates a sum over all nodes from the first nodes. */
function sumOf(nodes: readonly FilterNode[], value: (node: FilterNode) => number): number {
  const some = nodes.slice(0, estimatedMax)
  const sum = some.reduce((total, node) => total + value(node), 0)
  return some.length === nodes.length ? sum : (sum / some.length) * nodes.length
}

/** Maximum number of nodes that are estimated without a pause. */
const estimatedMax = 256

function* keepMatching(found: Uint32Array, node: FilterNode): Generator<void, void> {
  const perStep = testsPerStep(node)
  let matches = node.tester()
  let tested = 0
  for (let index = 0; index < found.length; index += 1) {
    let failed = 0
    for (let rest = found[index]!; rest !== 0; rest &= rest - 1) {
      const bit = rest & -rest
      if (!matches(index * 32 + 31 - Math.clz32(bit))) failed |= bit
      tested += 1
    }
    found[index]! &= ~failed
    if (tested < perStep) continue
    tested = 0
    yield
    matches = node.tester()
  }
}

/**
 * A pool of bitmaps for intermediate results. Reuse pays off because the system clears fresh memory page by page, and
 * fresh memory is in no CPU cache. If a generator is abandoned, its bitmaps are left to the garbage collector.
 */
const released: Uint32Array[] = []

/** Returns an empty bitmap of this many words. */
function takeWords(length: number): Uint32Array {
  const index = released.findIndex((words) => words.length === length)
  if (index === -1) return new Uint32Array(length)
  const [words] = released.splice(index, 1)
  return words!.fill(0)
}

/** Returns a bitmap to the pool. It must not be used afterwards. */
function releaseWords(words: Uint32Array): void {
  if (words.byteLength > bytesMax) return
  if (released.length === countMax) released.shift()
  released.push(words)
}

/** Few filters nest deeper than this. */
const countMax = 8
/** A bitmap of 16 million slots. Larger ones are rarely needed, so keeping them would waste memory. */
const bytesMax = 2 ** 21
