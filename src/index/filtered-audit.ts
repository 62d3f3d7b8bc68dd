import type { AuditSearch } from './audit.ts'
import type { Hit } from './hit.ts'
import { isOnCodes, type Route } from './routes.ts'
import type { IndexQuery } from './searcher.ts'
import { newFilterId, type SlotBits } from './slot-filter.ts'

/** Queries with the same filter and without a route. */
export type FilteredBatch = readonly IndexQuery[]

/** Batches whose recall is measured together, separately from other groups. */
export type FilteredGroup = readonly FilteredBatch[]

/** The measurements of an audit. */
export interface FilteredFindings {
  /** The routes that were tried, in order. */
  readonly tried: readonly { readonly route: Route; readonly recall: number }[]
  /** Recall of scans by codes; undefined if they were not measured. */
  readonly scanRecall: number | undefined
}

/**
 * Measures the recall of each route, and of a scan of the matching slots by their codes: the share of the nearest
 * matching points found, compared with the exact scan. The lowest recall of all groups counts. Tries the routes in
 * order until one reaches the target.
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
    // The scan by codes is measured together with the first route, because waiting for turns dominates the audit's
    // time.
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

/** Returns the lowest recall of all groups for each way; undefined if the audit was aborted. */
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

/** Returns how many of the nearest were found. Points at equal distances are interchangeable. */
function foundOf(nearest: readonly Hit[], walked: readonly Hit[]): number {
  const last = nearest.at(-1)
  if (last === undefined) return 0
  return Math.min(nearest.length, walked.filter(({ distance }) => distance <= last.distance).length)
}

/**
 * Generates random bits for the slots below `slotCount`, in steps. Each bit is set with probability 1 / 2^halvings.
 *
 * @param random returns numbers in [0, 1)
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

/** Generating this many words takes a few tenths of a millisecond. */
const wordsPerStep = 8192
