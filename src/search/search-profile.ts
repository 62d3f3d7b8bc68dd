import type { SearchQuery } from '../base/point.ts'
import type { Profile } from '../base/profile.ts'
import type { SearchPlan } from '../base/search-results.ts'
import { isScan } from './filter-planner.ts'
import type { SlotQuery } from './search-pieces.ts'

/** Describes for an operator how a query was answered. */
export function profileOf({
  query: { filter, ef },
  slots: { matching, report },
  points,
  filterUs,
}: {
  readonly query: SearchQuery
  readonly slots: SlotQuery
  readonly points: number
  readonly filterUs: number
}): Profile {
  const work = report!.work
  const count = matching?.count ?? points
  const { plan, reason } = planOf(report!, count, filter !== undefined)
  return {
    plan,
    reason,
    points,
    matching: count,
    compared: work.compared,
    measured: work.measured,
    ef,
    efMultiplier: plan === 'graph' ? report!.plan!.route!.efMultiplier : 1,
    filterUs: filter === undefined ? 0 : Math.round(filterUs),
    queueUs: Math.max(0, Math.round(report!.elapsedUs - work.microseconds)),
    searchUs: Math.round(work.microseconds),
    recallEstimate: plan === 'graph' ? report!.plan!.recall : (report!.plan?.scanRecall ?? 1),
  }
}

export function planOf(
  { plan, work }: NonNullable<SlotQuery['report']>,
  matching: number,
  isFiltered: boolean,
): SearchPlan {
  if (matching === 0)
    return { plan: 'empty', reason: isFiltered ? 'no point matches' : 'there are no points' }
  const scan = isFiltered ? 'scan of matching points' : 'scan of all points'
  if (plan === undefined) return { plan: scan, reason: 'the points are few' }
  if (isScan(plan))
    return { plan: scan, reason: `${plan.reason}${plan.codeScan === undefined ? '' : byCodes}` }
  if (work.hasGivenUp)
    return {
      plan: scan,
      reason: `a walk through the graph found too few points, or cost as much as the scan${plan.codeScan === undefined ? '' : byCodes}`,
    }
  return { plan: 'graph', reason: plan.reason }
}

const byCodes = '; codes are compared first, and the nearest of them exactly'
