import type { NumberField } from './number-field.ts'
import type { PathTree } from './path-tree.ts'
import type { SlotGroup } from './slot-group.ts'

/** What the nodes of a prepared filter read. */
export interface FilterSource {
  readonly tree: PathTree
  /** Slots that hold a point. */
  readonly live: SlotGroup
  readonly images: SlotGroup
  readonly expiries: NumberField
  readonly versions: NumberField
  /** The slot of the 16 bytes of an id at an offset, or -1. */
  findSlot(bytes: Uint8Array, at: number): number
  /** Writes the 16 bytes of a slot's id. */
  copyId(slot: number, target: Uint8Array, at: number): void
}

/**
 * A part of a filter, prepared so that it can be tested often. It keeps values, never ordinals: those change meaning while
 * work is interrupted.
 */
export interface FilterNode {
  /** Whether a slot that holds a point matches. */
  matches(slot: number): boolean
  /** A test of many slots, as `matches`, which looks up what it reads once: it is valid until something changes. */
  tester(): (slot: number) => boolean
  /** How many slots match, roughly: to test the condition with the fewest first. */
  estimate(): number
  /** What `fill` costs, in nanoseconds, roughly. */
  fillCost(): number
  /** What `matches` costs, as `fillCost`. */
  readonly matchCost: number
  /**
   * Sets the bits of matching slots. Slots that are touched between two steps may be wrong; bits beyond the room are
   * left out.
   *
   * @param within whether bits of other slots are set does not matter
   */
  fill(words: Uint32Array, within?: Uint32Array): Iterable<void, void>
}

/** Of a condition on what no slot has. */
export function matchesNone(): boolean {
  return false
}

/** How many slots can be tested between two pauses. */
export function testsPerStep({ matchCost }: FilterNode): number {
  return Math.ceil(stepNs / (matchCost + 1))
}

const stepNs = 100_000
