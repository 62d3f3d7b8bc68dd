import { IdLists } from '../base/id-lists.ts'
import { idBytes } from '../base/ids.ts'
import type { VectorIndex } from '../index/vector-index.ts'
import type { HitLists } from './hit-lists.ts'
import type { IdTable } from './id-table.ts'

/**
 * The ids of all hits, in turns if there are many. Drops hits whose slot was deleted, or deleted and reused, while the
 * search ran.
 *
 * @param index undefined where there are no hits
 * @param removals those of the index before the search
 */
export function* foundIds(
  hits: HitLists,
  ids: IdTable,
  index: VectorIndex | undefined,
  removals: number,
): Generator<void, IdLists> {
  const bytes = Buffer.allocUnsafe(hits.total * idBytes)
  const ends: number[] = []
  let copied = 0
  let seen = 0
  for (let list = 0; list < hits.length; list += 1) {
    const length = hits.lengthOf(list)
    for (let rank = 0; rank < length; rank += 1) {
      seen += 1
      if (seen % idsPerStep === 0) yield
      const slot = hits.slot(list, rank)
      // Checking every slot costs two cache misses a hit.
      const isFound =
        index?.removals === removals ||
        (index!.isLive(slot) && index!.sequenceOf(slot) === hits.sequence(list, rank))
      if (!isFound) continue
      ids.copyId(slot, bytes, copied * idBytes)
      copied += 1
    }
    ends.push(copied)
  }
  return new IdLists(bytes, ends)
}

/** Copying this many takes a tenth of a millisecond, because each one waits for memory. */
const idsPerStep = 512
