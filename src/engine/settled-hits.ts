import type { Hit } from '../index/hit.ts'
import type { VectorIndex } from '../index/vector-index.ts'

/** A finished search of one query, and what has to be known to bring its hits up to date. */
export interface SearchedHits {
  /** Ascending, at most `limit`. */
  readonly hits: readonly Hit[]
  readonly limit: number
  readonly index: VectorIndex
  /** Slots that were touched since the search began; undefined if there were too many to be remembered. */
  readonly touched: readonly number[] | undefined
  /** Whether points that were touched are offered: they may be among the nearest now. */
  readonly offersTouched: boolean
  /** Whether the point in a slot is wanted; undefined for all. */
  readonly matches: ((slot: number) => boolean) | undefined
  /** The hit that a live slot is, by its exact distance. */
  readonly hitAt: (slot: number) => Hit | undefined
}

/**
 * The hits of a search as of now, in one turn of the event loop: without points that have gone, moved to another slot or do not
 * match any more, and with points that were touched meanwhile and belong among the nearest.
 *
 * @returns undefined if that cannot be told without another search: a full list has lost hits, and what came next is unknown
 */
export function settledHits(searched: SearchedHits): readonly Hit[] | undefined {
  const { hits, limit, touched } = searched
  if (touched === undefined) return undefined
  const changed = new Set(touched)
  const kept = hits.filter((hit) => isValid(hit, changed, searched))
  const offered = searched.offersTouched ? offeredHits(kept, changed, searched) : []
  if (kept.length === hits.length && offered.length === 0) return hits
  const settled = [...kept, ...offered].sort(inOrder).slice(0, limit)
  // Without a list that was full, nothing was left out that matches.
  const last = hits.length === limit && searched.offersTouched ? hits.at(-1) : undefined
  if (last === undefined || kept.length === hits.length) return settled
  return settled.length === limit && inOrder(settled.at(-1)!, last) <= 0 ? settled : undefined
}

function isValid(
  { slot, sequence }: Hit,
  changed: ReadonlySet<number>,
  { index, matches }: SearchedHits,
): boolean {
  if (!index.isLive(slot) || index.sequenceOf(slot) !== sequence) return false
  return matches === undefined || !changed.has(slot) || matches(slot)
}

/** The touched points that are wanted and not among the hits. */
function offeredHits(
  kept: readonly Hit[],
  changed: ReadonlySet<number>,
  { index, matches, hitAt }: SearchedHits,
): readonly Hit[] {
  if (changed.size === 0) return []
  const held = new Set(kept.map(({ slot }) => slot))
  const offered: Hit[] = []
  for (const slot of changed) {
    if (held.has(slot) || !index.isLive(slot) || matches?.(slot) === false) continue
    const hit = hitAt(slot)
    if (hit !== undefined) offered.push(hit)
  }
  return offered
}

function inOrder(a: Hit, b: Hit): number {
  return a.distance - b.distance || a.sequence - b.sequence
}
