import { idBytes } from '../base/ids.ts'
import { PartitionSet, partitionCount } from '../base/partitions.ts'
import { sampleHash, sampleHashes } from '../base/sample-hash.ts'
import { type FilterNode, type FilterSource, testsPerStep } from './filter-node.ts'
import { setBit, slotsOf } from './slot-words.ts'

/** A test of a point by its id alone. */
export interface IdTest {
  /** The expected share of all ids that match. */
  readonly share: number
  /** @param words the same 16 bytes as `id`, as 32-bit words */
  readonly matches: (id: Uint8Array, words: Uint32Array) => boolean
}

/** @param partitions the bytes of a `PartitionSet` */
export function partitionTest(partitions: Uint8Array): IdTest {
  const set = new PartitionSet(partitions)
  return { share: set.size / partitionCount, matches: (id) => set.has(id[0]!) }
}

export function sampleTest(seed: number, below: number): IdTest {
  return { share: below / sampleHashes, matches: (_, words) => sampleHash(words, seed) < below }
}

/** Matches points by a test of their ids. */
export class IdTestNode implements FilterNode {
  readonly #source: FilterSource
  readonly #test: IdTest
  readonly #id = new Uint8Array(idBytes)
  readonly #words = new Uint32Array(this.#id.buffer)
  readonly matchCost = 30

  constructor(source: FilterSource, test: IdTest) {
    this.#source = source
    this.#test = test
  }

  matches(slot: number): boolean {
    this.#source.copyId(slot, this.#id, 0)
    return this.#test.matches(this.#id, this.#words)
  }

  tester(): (slot: number) => boolean {
    return (slot) => this.matches(slot)
  }

  estimate(): number {
    return Math.ceil(this.#source.live.count * this.#test.share)
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
