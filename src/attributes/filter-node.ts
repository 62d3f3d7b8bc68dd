import type { NumberField } from './number-field.ts'
import type { PathTree } from './path-tree.ts'
import type { SlotGroup } from './slot-group.ts'

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
export function matchesNone(): boolean {
  return false
}

/** Returns how many slots can be tested between two pauses. */
export function testsPerStep({ matchCost }: FilterNode): number {
  return Math.ceil(stepNs / (matchCost + 1))
}

const stepNs = 100_000
