import { idBytes } from '../base/ids.ts'
import { PartitionSet, partitionCount } from '../base/partitions.ts'
import { type FilterNode, type FilterSource, testsPerStep } from './filter-node.ts'
import { setBit, slotsOf } from './slot-words.ts'

/** Matches points by the first byte of their ids. */
export class PartitionsNode implements FilterNode {
  readonly #source: FilterSource
  readonly #partitions: PartitionSet
  readonly #id = new Uint8Array(idBytes)
  readonly matchCost = 30

  /** @param partitions the bytes of a set */
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
