import type { AttributeIndex } from '../attributes/attribute-index.ts'
import { testsPerStep } from '../attributes/filter-nodes.ts'
import { SlotSet } from '../attributes/slot-words.ts'
import { idBytes } from '../base/ids.ts'
import { sampleHash, sampleHashes } from '../base/sample-hash.ts'
import { inTurns } from '../base/turns.ts'
import type { MapQuery } from './database.ts'
import { sortByOrder } from './insertion-order.ts'
import type { PointTable } from './point-table.ts'

/** What a sample is drawn from. */
interface SampledFrom {
  readonly table: PointTable
  readonly attributes: Pick<AttributeIndex, 'prepare' | 'evaluate' | 'matches'>
}

/** The ids of points chosen at random. */
export interface SampledIds {
  /** The number of matching points. */
  readonly points: number
  /** 16 bytes each, in no particular order. */
  readonly ids: Uint8Array
}

/** Points chosen at random, each once. A point has the same number in all columns. */
export interface SampledPoints extends SampledIds {
  /** Ascending. */
  readonly slots: Uint32Array
  readonly sequences: Float64Array
  /** The same slots. */
  readonly set: SlotSet
}

/** Chooses points as `samplePoints` does, for a map that spans several nodes. */
export async function sampleIds(
  points: SampledFrom,
  query: Pick<MapQuery, 'filter' | 'limit' | 'seed'>,
): Promise<SampledIds> {
  return await inTurns(samplePoints(points, query))
}

/**
 * Chooses points at random: those whose ids have the lowest hashes. A seed therefore chooses the same points again on
 * every server that has them, and an insert or a removal changes the choice by at most one point.
 *
 * Points can change between the steps. A point is left out if it is removed, or if it does not match any more. So there
 * can be fewer points than the limit although there are more.
 */
export function* samplePoints(
  { table, attributes }: SampledFrom,
  query: Pick<MapQuery, 'filter' | 'limit' | 'seed'>,
): Generator<void, SampledPoints> {
  const prepared = query.filter && (yield* attributes.prepare(query.filter))
  const within = query.filter && (yield* attributes.evaluate(query.filter))
  const set = yield* sampleSlots(table, within, query)
  const slots = new Uint32Array(set.count)
  const sequences = new Float64Array(set.count)
  const ids = new Uint8Array(set.count * idBytes)
  yield* noteRows(table, set, { slots, sequences })
  const perStep = prepared === undefined ? slotsPerStep : Math.min(slotsPerStep, testsPerStep(prepared.node))
  let number = 0
  for (let at = 0; at < slots.length; at += 1) {
    if (at % perStep === perStep - 1) yield
    const slot = slots[at]!
    // A point that moved can have been drawn twice, and a drawn slot can have another point now. A row that is still there
    // has been its point's only one since it was noted, so no point is copied twice.
    const isThere = table.isVisible(slot) && table.index!.sequenceOf(slot) === sequences[at]
    if (!isThere || (prepared !== undefined && !attributes.matches(prepared, slot))) {
      set.clear(slot)
      continue
    }
    table.copyId(slot, ids, number * idBytes)
    slots[number] = slot
    sequences[number] = sequences[at]!
    number += 1
  }
  return {
    points: within?.count ?? table.size,
    ids: ids.subarray(0, number * idBytes),
    slots: slots.subarray(0, number),
    sequences: sequences.subarray(0, number),
    set,
  }
}

/** Notes the rows of the slots of a set. */
function* noteRows(
  table: PointTable,
  set: SlotSet,
  { slots, sequences }: Pick<SampledPoints, 'slots' | 'sequences'>,
): Generator<void, void> {
  let number = 0
  for (const slot of set) {
    slots[number] = slot
    sequences[number] = table.index!.sequenceOf(slot)
    number += 1
    if (number % slotsPerStep === 0) yield
  }
}

/**
 * Chooses the slots of points with the lowest hashes.
 *
 * The limit bounds the memory: the number of points determines a threshold below which about as many hashes lie, and
 * only those points are kept.
 *
 * @param within undefined for all points
 * @returns slots whose points were visible when they were drawn
 */
function* sampleSlots(
  table: PointTable,
  within: SlotSet | undefined,
  { limit, seed }: { readonly limit: number; readonly seed: number },
): Generator<void, SlotSet> {
  const points = within?.count ?? table.size
  // Six standard deviations more than the expected number, so a second round is very unlikely.
  let share = points === 0 ? 1 : (limit + 6 * Math.sqrt(limit) + 16) / points
  for (;;) {
    const drawn = yield* draw(table, within, { seed, below: share * sampleHashes, max: 2 * limit + 1024 })
    if (drawn.slots.length < limit && share < 1) {
      share *= 2
      continue
    }
    const lowest =
      drawn.slots.length <= limit ? drawn.slots : (yield* sortByOrder(drawn.hashes, drawn.slots)).slots
    return yield* setOf(lowest.subarray(0, limit), table.slotCount)
  }
}

function* draw(
  table: PointTable,
  within: SlotSet | undefined,
  { seed, below, max }: { readonly seed: number; readonly below: number; readonly max: number },
): Generator<void, { readonly hashes: Float64Array; readonly slots: Uint32Array }> {
  const hashesDrawn: number[] = []
  const slots: number[] = []
  const { slotCount } = table
  for (let slot = 0; slot < slotCount && slots.length < max; slot += 1) {
    if (slot % slotsPerStep === slotsPerStep - 1) yield
    if ((within !== undefined && !within.has(slot)) || !table.isVisible(slot)) continue
    table.copyId(slot, scratch, 0)
    const hash = sampleHash(scratch32, seed)
    if (hash >= below) continue
    hashesDrawn.push(hash)
    slots.push(slot)
  }
  return { hashes: Float64Array.from(hashesDrawn), slots: Uint32Array.from(slots) }
}

function* setOf(slots: Uint32Array, room: number): Generator<void, SlotSet> {
  const set = new SlotSet(room)
  for (let at = 0; at < slots.length; at += 1) {
    set.set(slots[at]!)
    if (at % slotsPerStep === 0) yield
  }
  return set
}

const scratch = new Uint8Array(idBytes)
const scratch32 = new Uint32Array(scratch.buffer)
/** About a tenth of a millisecond. */
const slotsPerStep = 2048
