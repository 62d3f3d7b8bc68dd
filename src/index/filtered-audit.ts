import type { AuditSearch } from './audit.ts'
import type { Hit } from './hit.ts'
import { isOnCodes, type Route } from './routes.ts'
import type { IndexQuery } from './searcher.ts'
import { newFilterId, type SlotBits } from './slot-filter.ts'

/** Queries with one filter, without a route. */
export type FilteredBatch = readonly IndexQuery[]

/** Queries that are judged together, and apart from those of other groups. */
export type FilteredGroup = readonly FilteredBatch[]

/** What an audit has measured. */
export interface FilteredFindings {
  /** The routes that were tried, in order. */
  readonly tried: readonly { readonly route: Route; readonly recall: number }[]
  /** Of scans by codes; undefined where there are none. */
  readonly scanRecall: number | undefined
}

/**
 * Measures what share of the nearest matching points each route finds, and a scan of the matching slots by their codes, against
 * the exact scan of them: the least of all groups. Routes are tried in order until one reaches the target.
 *
 * @returns undefined if the audit was aborted
 */
export async function auditFiltered(
  groups: readonly FilteredGroup[],
  routes: readonly Route[],
  target: number,
  search: AuditSearch,
): Promise<FilteredFindings | undefined> {
  const measured: MeasuredBatch[] = []
  for (const [group, batches] of groups.entries()) {
    for (const batch of batches) {
      const truth = await search(batch)
      if (truth === undefined) return undefined
      measured.push({ batch, truth, group })
    }
  }
  const tried: { route: Route; recall: number }[] = []
  let scanRecall: number | undefined
  for (const route of routes) {
    // Together with the first route: what takes the time of an audit are its turns between other work.
    const isFirst = tried.length === 0 && isOnCodes(route.distanceKind)
    const ways: readonly Way[] = isFirst ? [{ route }, { route, codeScan: 'instead' }] : [{ route }]
    const recalls = await recallsOf(measured, groups.length, ways, search)
    if (recalls === undefined) return undefined
    const [recall] = recalls
    tried.push({ route, recall: recall! })
    scanRecall ??= recalls[1]
    if (recall! >= target) break
  }
  return { tried, scanRecall }
}

type Way = Pick<IndexQuery, 'route' | 'codeScan'>

interface MeasuredBatch {
  readonly batch: FilteredBatch
  readonly truth: readonly (readonly Hit[])[]
  readonly group: number
}

/** For each way, the least recall of all groups; undefined if the audit was aborted. */
async function recallsOf(
  measured: readonly MeasuredBatch[],
  groups: number,
  ways: readonly Way[],
  search: AuditSearch,
): Promise<readonly number[] | undefined> {
  const tallies = ways.map(() => Array.from({ length: groups }, () => ({ found: 0, wanted: 0 })))
  for (const { batch, truth, group } of measured) {
    const found = await search(ways.flatMap((way) => batch.map((query) => ({ ...query, ...way }))))
    if (found === undefined) return undefined
    for (const [place, of] of tallies.entries()) {
      const tally = of[group]!
      for (const [at, nearest] of truth.entries()) {
        tally.wanted += nearest.length
        tally.found += foundOf(nearest, found[place * batch.length + at]!)
      }
    }
  }
  return tallies.map((of) => Math.min(...of.map(({ found, wanted }) => (wanted === 0 ? 1 : found / wanted))))
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
