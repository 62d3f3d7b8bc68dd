import { type FilterNode, type FilterSource, testsPerStep } from './filter-nodes.ts'
import { andNotWords, andWords, countWords, orWords } from './slot-words.ts'

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
      const count = countWords(found)
      if (count === 0) break
      if (count * node.matchCost < node.fillCost()) yield* keepMatching(found, node)
      else yield* this.#keepFilled(found, node)
      yield
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
