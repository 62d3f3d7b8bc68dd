import type { AuditSearch } from './audit.ts'
import type { Route } from './graph.ts'
import type { Hit } from './hit.ts'
import type { IndexQuery } from './searcher.ts'
import { newFilterId, type SlotBits } from './slot-filter.ts'

/** Queries with one filter, without a route. */
export type FilteredBatch = readonly IndexQuery[]

/** Queries that are judged together, and apart from those of other groups. */
export type FilteredGroup = readonly FilteredBatch[]

/**
 * Measures what share of the nearest matching points each route finds, against the scan of the matching slots: the least
 * of all groups. Routes are tried in order until one reaches the target.
 *
 * @returns the routes that were tried, in order; undefined if the audit was aborted
 */
export async function auditFiltered(
  groups: readonly FilteredGroup[],
  routes: readonly Route[],
  target: number,
  search: AuditSearch,
): Promise<{ readonly route: Route; readonly recall: number }[] | undefined> {
  const tried: { route: Route; recall: number }[] = []
  const measured: { batch: FilteredBatch; truth: readonly (readonly Hit[])[]; group: number }[] = []
  for (const [group, batches] of groups.entries()) {
    for (const batch of batches) {
      const truth = await search(batch)
      if (truth === undefined) return undefined
      measured.push({ batch, truth, group })
    }
  }
  for (const route of routes) {
    const tallies = groups.map(() => ({ found: 0, wanted: 0 }))
    for (const { batch, truth, group } of measured) {
      const walked = await search(batch.map((query) => ({ ...query, route })))
      if (walked === undefined) return undefined
      const tally = tallies[group]!
      for (const [at, nearest] of truth.entries()) {
        tally.wanted += nearest.length
        tally.found += foundOf(nearest, walked[at]!)
      }
    }
    const recall = Math.min(...tallies.map(({ found, wanted }) => (wanted === 0 ? 1 : found / wanted)))
    tried.push({ route, recall })
    if (recall >= target) break
  }
  return tried
}

/** How many of the nearest were found: of points at equal distances any are as good. */
function foundOf(nearest: readonly Hit[], walked: readonly Hit[]): number {
  const last = nearest.at(-1)
  if (last === undefined) return 0
  return Math.min(nearest.length, walked.filter(({ distance }) => distance <= last.distance).length)
}

/**
 * Random bits for slots below `slotCount`, each set with a chance of 1 / 2^halvings. In steps.
 *
 * @param random in [0, 1)
 */
export function* randomBits(
  slotCount: number,
  halvings: number,
  random: () => number = Math.random,
): Generator<void, SlotBits> {
  const words = new Uint32Array(new SharedArrayBuffer(4 * Math.ceil(slotCount / 32)))
  for (let at = 0; at < words.length; at += 1) {
    let word = 0xffff_ffff
    for (let halving = 0; halving < halvings; halving += 1) word &= Math.floor(random() * 2 ** 32)
    words[at] = word
    if (at % wordsPerStep === 0) yield
  }
  return { id: newFilterId(), version: 0, words }
}

/** A few tenths of a millisecond. */
const wordsPerStep = 8192
