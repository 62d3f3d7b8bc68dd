import { SlotSet } from '../attributes/slot-set.ts'
import { idBytes } from '../base/ids.ts'
import { sampleHash, sampleHashes } from '../base/sample-hash.ts'
import { inTurns } from '../base/turns.ts'
import type { MapQuery } from './database.ts'
import type { LivePoints } from './live-points.ts'
import type { PointTable } from './point-table.ts'
import { sortByOrder } from './radix-sort.ts'

/**
 * Chooses points at random: those whose ids have the lowest hashes. A seed therefore chooses the same points again on
 * every server that has them, and an insert or a removal changes the choice by at most one point.
 *
 * The limit bounds the memory: the number of points determines a threshold below which about as many hashes lie, and
 * only those points are kept.
 *
 * @param within undefined for all points
 * @returns the slots of visible points; fewer than the limit only if there are fewer points
 */
export function* sampleSlots(
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

/** The ids of points chosen at random. */
export interface SampledIds {
  /** The number of matching points. */
  readonly points: number
  /** 16 bytes each, in no particular order. */
  readonly ids: Uint8Array
}

/** Chooses points as `sampleSlots` does, for a map that spans several nodes. */
export async function sampleIds(
  { table, attributes }: Pick<LivePoints, 'table' | 'attributes'>,
  query: Pick<MapQuery, 'filter' | 'limit' | 'seed'>,
): Promise<SampledIds> {
  const within = query.filter && (await inTurns(attributes.evaluate(query.filter)))
  return await inTurns(idsOf(table, within, query))
}

function* idsOf(
  table: PointTable,
  within: SlotSet | undefined,
  query: Pick<MapQuery, 'limit' | 'seed'>,
): Generator<void, SampledIds> {
  const set = yield* sampleSlots(table, within, query)
  const ids = new Uint8Array(set.count * idBytes)
  let number = 0
  for (const slot of set) {
    table.copyId(slot, ids, number * idBytes)
    number += 1
    if (number % slotsPerStep === 0) yield
  }
  return { points: within?.count ?? table.size, ids }
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
