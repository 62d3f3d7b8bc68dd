import { idFromBytes, newId } from '../../src/base/ids.ts'
import { readRows } from '../../src/storage/row-reader.ts'
import type { Change, Insertion, KeyedRequest, Store, WriteGroup } from '../../src/storage/store.ts'

/** Of the vectors, unless another one is asked for. */
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

/** A point that is like no other. */
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

/** With neighbouring slots and sequence numbers. */
export function insertionsOf(count: number, from = 0): PlacedChange<Insertion>[] {
  return Array.from({ length: count }, (_, index) => insertion(from + index, from + index + 1))
}

/** Everything that a store holds, by slot. */
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

/** What `contentsOf` finds of insertions. */
export function asLoaded(insertions: readonly PlacedChange<Insertion>[]): [number, object][] {
  return insertions.map(({ slot, id, sequence, point }) => [
    slot,
    { id, sequence, vector: [...point.vector], content: point.payload.content },
  ])
}
