import { idFromBytes } from '../../src/base/ids.ts'
import { newId } from '../../src/base/partitions.ts'
import { readRows } from '../../src/storage/files/row-file.ts'
import type { Change, Insertion, KeyedRequest, Store, WriteGroup } from '../../src/storage/store.ts'

/** The default dimension of vectors. */
export const dimension = 5

/** A change and its placement. */
export type PlacedChange<Kind extends Change = Change> = Kind & {
  readonly slot: number
  readonly leaving?: number
}

export function groupOf(
  placed: readonly PlacedChange[],
  keyedRequests: readonly KeyedRequest[] = [],
): WriteGroup {
  return {
    changes: placed,
    slots: placed.map(({ slot }) => slot),
    leaving: placed.map(({ leaving }) => leaving),
    keyedRequests,
  }
}

/** The insertion of a unique point. */
export function insertion(
  slot: number,
  sequence: number,
  content = `content ${sequence}`,
  components: number = dimension,
): PlacedChange<Insertion> {
  const vector = Float32Array.from({ length: components }, (_, index) => sequence + index / 10)
  return {
    kind: 'insert',
    slot,
    id: newId(),
    sequence,
    point: { vector, payload: { contentType: 'Image', content } },
  }
}

/** Insertions with consecutive slots and sequence numbers. */
export function insertionsOf(count: number, from = 0): PlacedChange<Insertion>[] {
  return Array.from({ length: count }, (_, index) => insertion(from + index, from + index + 1))
}

/**
 * A group with every kind of change to a store with the points of `insertionsOf`: payloads (also with attributes and
 * expiry), a vector, removals by a filter and by expiry, and an insert with an idempotency key. One point of this
 * insert has a caller-chosen id, and one was refused.
 */
export async function variedChanges(store: Store): Promise<WriteGroup> {
  const { slotCount } = store
  let { sequence } = store
  const records = await contentsOf(store)
  const idOf = (slot: number): string => records.get(slot)!.id
  const payload = {
    contentType: 'Text',
    content: 'changed',
    attributes: new Map([['n', 1]]),
    expiresAtUs: 4_102_444_800_000_000,
  } as const
  const update = (slot: number, to?: number): PlacedChange => {
    sequence += 1
    const moved = to === undefined ? { slot } : { slot: to, leaving: slot }
    const vector = to === undefined ? undefined : new Float32Array(dimension).fill(sequence)
    return { kind: 'update', id: idOf(slot), sequence, order: slot + 1, payload, vector, ...moved }
  }
  const remove = (slot: number): PlacedChange => {
    sequence += 1
    return { kind: 'delete', id: idOf(slot), sequence, slot }
  }
  const insert = (slot: number): PlacedChange => {
    sequence += 1
    return insertion(slot, sequence)
  }
  const changes = [
    ...[0, 1, 2].map((slot) => update(slot)),
    ...[3, 4].map((slot, index) => update(slot, slotCount + index)),
    ...Array.from({ length: 100 }, (_, index) => remove(10 + index)),
    ...[2, 3].map((index) => insert(slotCount + index)),
  ]
  const refused = [0, 2].map((index) => ({ ...refusedRequest.refused[0]!, index }))
  return groupOf(changes, [{ ...refusedRequest, points: 3, refused }])
}

/** A request with a key that stored nothing. */
export const refusedRequest: KeyedRequest = {
  keyHash: Buffer.alloc(16, 1),
  bodyHash: Buffer.alloc(16, 2),
  idSeed: Buffer.alloc(16, 3),
  points: 1,
  acceptedMs: 4_102_444_800_000,
  refused: [{ index: 0, reason: 'already_exists', message: 'there is a point with this id already' }],
}

/** The contents of a store, by slot. */
export async function contentsOf(
  store: Store,
): Promise<Map<number, { id: string; sequence: number; vector: number[]; content: string | undefined }>> {
  const rows = new Map<number, { id: string; sequence: number; vector: number[] }>()
  const stored = store.rows()
  if (stored !== undefined) {
    readRows(stored, 0, stored.slotCount, ({ slot, id, sequence, vector }) =>
      rows.set(slot, { id: idFromBytes(id), sequence, vector: [...vector] }),
    )
  }
  return new Map(
    [...rows].map(([slot, row]) => [slot, { ...row, content: store.record(slot, row.id)?.payload.content }]),
  )
}

/** The result of `contentsOf` for insertions. */
export function asLoaded(insertions: readonly PlacedChange<Insertion>[]): [number, object][] {
  return insertions.map(({ slot, id, sequence, point }) => [
    slot,
    { id, sequence, vector: [...point.vector], content: point.payload.content },
  ])
}
