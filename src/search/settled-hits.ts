import type { Hit } from '../index/hit.ts'
import type { VectorIndex } from '../index/vector-index.ts'

/** A finished search for one query, and the data needed to update its hits. */
export interface SearchedHits {
  /** Ascending, at most `limit`. */
  readonly hits: readonly Hit[]
  readonly limit: number
  readonly index: VectorIndex
  /** The slots touched since the search began; undefined if they are too many. */
  readonly touched: ReadonlySet<number> | undefined
  /** Whether the point in a slot matches; undefined if all do. */
  readonly matches: ((slot: number) => boolean) | undefined
  /** Returns a live slot as a hit with its exact distance. */
  readonly hitAt: (slot: number) => Hit | undefined
}

/**
 * Updates the hits of a search to the present, in one turn of the event loop. Drops points that were removed, moved to
 * another slot or no longer match, and adds touched points that are now among the nearest.
 *
 * @returns undefined if another search is needed: a full list has lost hits, and the next nearest are unknown, or a
 *   touched point may have displaced a match
 */
export function settledHits(searched: SearchedHits): readonly Hit[] | undefined {
  const { hits, limit, touched } = searched
  if (touched === undefined) return undefined
  // A search for more points than match keeps as many as matched at its start. One that matches only since then can be
  // in the place of another.
  if (hits.length < limit && hits.some(({ slot }) => touched.has(slot))) return undefined
  // A touched slot is measured again, also if it still has a point: a thread may have read the row of another one.
  const kept = hits.filter(({ slot }) => !touched.has(slot))
  const offered = offeredHits(touched, searched)
  if (offered === undefined) return undefined
  if (kept.length === hits.length && offered.length === 0) return hits
  const settled = [...kept, ...offered].sort(inOrder).slice(0, limit)
  // If the list was not full, it contained every match, so no other hits can follow.
  const last = hits.length === limit ? hits.at(-1) : undefined
  if (last === undefined || kept.length === hits.length) return settled
  return settled.length === limit && inOrder(settled.at(-1)!, last) <= 0 ? settled : undefined
}

/** Returns the touched points that match, with their present distances; undefined if they are too many. */
function offeredHits(
  touched: ReadonlySet<number>,
  { index, matches, hitAt }: SearchedHits,
): readonly Hit[] | undefined {
  const offered: Hit[] = []
  for (const slot of touched) {
    if (!index.isLive(slot) || matches?.(slot) === false) continue
    if (offered.length === offeredMax) return undefined
    const hit = hitAt(slot)
    if (hit !== undefined) offered.push(hit)
  }
  return offered
}

function inOrder(a: Hit, b: Hit): number {
  return a.distance - b.distance || a.sequence - b.sequence
}

/** Computing this many distances takes a millisecond or two. */
const offeredMax = 512
