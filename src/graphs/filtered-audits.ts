import type { Metric } from '../base/point.ts'
import { inTurns } from '../base/turns.ts'
import { type AuditSearch, auditVector } from '../index/audit.ts'
import { auditFiltered, type FilteredBatch, type FilteredGroup, randomBits } from '../index/filtered-audit.ts'
import type { Route } from '../index/routes.ts'
import { queriesPerScanMax } from '../index/segment.ts'
import type { VectorIndex } from '../index/vector-index.ts'
import { type FilteredRecall, type SelectivityBin, selectivityBins } from './filtered-recall.ts'

export interface FilteredAudit {
  readonly index: VectorIndex
  readonly filtered: FilteredRecall
  readonly metric: Metric
  /** The route of searches without a filter. */
  readonly plain: Route
  /** A representative sample of slots; the queries are their vectors, or vectors near them. */
  readonly slots: readonly number[]
  /** The ef at which recall is measured. */
  readonly ef: number
  readonly search: AuditSearch
}

/**
 * Measures the filtered searches of a metric, bin by bin: on random sets of points, and on recent queries with their
 * own filters if there are enough of them.
 *
 * @returns whether a route has changed; undefined if the audit was aborted
 */
export async function auditFilteredMetric(audit: FilteredAudit): Promise<boolean | undefined> {
  const { filtered, metric, plain, search } = audit
  let hasChanged = false
  const ofScans: number[] = []
  for (const bin of selectivityBins) {
    const groups = [await randomGroup(audit, bin), ...recentGroups(audit, bin)]
    const found = await auditFiltered(groups, filtered.routes(plain), filtered.target, search)
    if (found === undefined) return undefined
    if (filtered.decide(metric, bin, found.tried)) hasChanged = true
    if (found.scanRecall !== undefined) ofScans.push(found.scanRecall)
  }
  // Scans by codes are used only if every bin was measured.
  if (ofScans.length === selectivityBins.length) filtered.decideScans(metric, Math.min(...ofScans))
  return hasChanged
}

async function randomGroup(
  { index, metric, slots, ef }: FilteredAudit,
  { halvings }: SelectivityBin,
): Promise<FilteredGroup> {
  const matching = await inTurns(randomBits(index.slotCount, halvings))
  const queries = slots.slice(0, queriesMax).map((_, place) => {
    return { vector: auditVector(index, slots, place), metric, k, ef, route: undefined, matching }
  })
  const batches: FilteredBatch[] = []
  for (let at = 0; at < queries.length; at += queriesPerScanMax) {
    batches.push(queries.slice(at, at + queriesPerScanMax))
  }
  return batches
}

/** Each query has its own filter, so each is searched for separately. */
function recentGroups({ filtered, metric, ef }: FilteredAudit, bin: SelectivityBin): FilteredGroup[] {
  const queries = filtered.recent(metric, bin, ef)
  return queries.length < recentMin ? [] : [queries.map((query) => [query])]
}

/** Scans of half of all points are most of the cost of an audit. */
const queriesMax = 64
const k = 10
/** The recall of fewer queries is not representative. */
const recentMin = 8
