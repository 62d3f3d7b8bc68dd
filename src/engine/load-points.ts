import { attributesFromJson } from '../base/attribute-json.ts'
import { contentTypes } from '../base/point.ts'
import { inTurns, Turn } from '../base/turns.ts'
import type { RecordBatch, Store } from '../storage/store.ts'
import type { LivePoints } from './live-points.ts'
import type { SlotAllocator } from './slot-allocator.ts'

/**
 * What `apply` did for the points of a store besides their vectors, which index threads have filled in: afterwards every
 * slot is live, and known by its id, or free. A start cannot call `apply`: the disk holds the points, not the changes that
 * led to them.
 *
 * @throws the reason of `signal` when that aborts
 */
export async function enterIds(
  { table }: LivePoints,
  slots: SlotAllocator,
  signal: AbortSignal | undefined,
): Promise<void> {
  const turn = new Turn()
  for (let slot = 0; slot < table.slotCount; slot += 1) {
    if (slot % slotsPerLook === 0) {
      if (turn.isOver) await turn.next()
      signal?.throwIfAborted()
    }
    if (table.isVisible(slot)) table.ids.enter(slot)
    else slots.release(slot)
  }
}

/**
 * The versions, orders, attributes and expiries of all points, after their ids. What the attribute index has of a point at
 * its version stays.
 *
 * @throws the reason of `signal` when that aborts
 */
export async function enterRecords(
  points: LivePoints,
  store: Store,
  signal: AbortSignal | undefined,
): Promise<void> {
  const turn = new Turn()
  for (const batch of store.records()) {
    for (let at = 0; at < batch.count; at += 1) {
      enterRecord(points, batch, at)
      if (turn.isOver) {
        await turn.next()
        signal?.throwIfAborted()
      }
    }
  }
  await forgetOthers(points)
}

/**
 * As `enterRecords`, when the attribute index was read from a file that was written at the store's present state: only
 * records of points that the file has left out are read.
 *
 * @param orders of the file: the slots whose order is not the sequence number of the row, with it
 * @throws the reason of `signal` when that aborts
 */
export async function enterKept(
  points: LivePoints,
  store: Store,
  orders: Iterable<readonly [slot: number, order: number]>,
  signal: AbortSignal | undefined,
): Promise<void> {
  const { table, attributes, expirations } = points
  const turn = new Turn()
  let looked = 0
  for (let slot = 0; slot < table.slotCount; slot += 1) {
    looked += 1
    if (looked % slotsPerLook === 0 && turn.isOver) {
      await turn.next()
      signal?.throwIfAborted()
    }
    if (!table.isVisible(slot)) continue
    const version = attributes.has(slot) ? attributes.versionOf(slot) : Number.NaN
    const sequence = table.index!.sequenceOf(slot)
    if (!(version >= sequence && version <= store.sequence)) {
      for (const batch of store.records(slot, recordsPerRead)) {
        for (let at = 0; at < batch.count; at += 1) enterRecord(points, batch, at)
        slot = batch.slots[batch.count - 1]!
        looked = -1
      }
      continue
    }
    if (version !== sequence) table.setVersion(slot, version)
    const expiresAtUs = attributes.expiresAtUsOf(slot)
    if (expiresAtUs !== undefined) expirations.set(slot, expiresAtUs)
  }
  for (const [slot, order] of orders) {
    if (slot < table.slotCount && table.isVisible(slot)) table.setOrder(slot, order)
    if (turn.isOver) await turn.next()
  }
  await forgetOthers(points)
}

/** Removes what the attribute index has of points that are gone. */
async function forgetOthers({ table, attributes }: LivePoints): Promise<void> {
  if (attributes.count === table.size) return
  const known = await inTurns(attributes.evaluate({ kind: 'all', of: [] }))
  for (const slot of known) if (slot >= table.slotCount || !table.isVisible(slot)) attributes.delete(slot)
}

function enterRecord({ table, attributes, expirations }: LivePoints, batch: RecordBatch, at: number): void {
  const slot = batch.slots[at]!
  const version = batch.versions[at]!
  const order = batch.orders[at]!
  const sequence = table.index!.sequenceOf(slot)
  if (!Number.isNaN(version) && version !== sequence) table.setVersion(slot, version)
  if (!Number.isNaN(order) && order !== sequence) table.setOrder(slot, order)
  const expiresAtUs = Number.isNaN(batch.expiresAtUs[at]!) ? undefined : batch.expiresAtUs[at]!
  if (expiresAtUs !== undefined) expirations.set(slot, expiresAtUs)
  if (attributes.has(slot) && attributes.versionOf(slot) === table.versionOf(slot)) return
  const json = batch.attributes[at]
  const payload = {
    // Of a damaged record nothing is known: whoever reads the point is told so.
    contentType: contentTypes[batch.contentTypes[at]!] ?? 'Text',
    content: '',
    attributes: json && attributesFromJson(decoder.decode(json)),
    expiresAtUs,
  }
  attributes.set(slot, { payload, version: table.versionOf(slot) })
}

const decoder = new TextDecoder()

/** Entering so many takes some tens of microseconds. */
const slotsPerLook = 256
/** As many are read together, because points that a file has left out may be neighbours. */
const recordsPerRead = 32
