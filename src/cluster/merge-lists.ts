import { Turn } from '../base/turns.ts'
import type { ListPage, ListQuery } from '../points/database.ts'
import { cursorAfter, orderOfCursor } from '../points/insertion-order.ts'
import type { FilterPlan } from '../write/by-filter.ts'
import type { OrderedPage } from './read-codec.ts'

/**
 * Merges pages of nodes that have no points in common into one page, in the order of insertion.
 *
 * The page may end before its limit: a cursor never passes a place where a node may not have known all points yet. No
 * later page would return them.
 */
export function mergePages(
  pages: readonly OrderedPage[],
  { limit, cursor }: Pick<ListQuery, 'limit' | 'cursor'>,
): ListPage {
  // A page may end before its limit: what follows it is not known yet.
  const bound = Math.min(...pages.map(({ nextCursor }) => endOf(nextCursor)))
  const all = pages
    .flatMap(({ points, orders }) => points.map((point, at) => ({ point, order: orders[at]! })))
    .filter(({ order }) => order <= bound)
    .sort((one, other) => one.order - other.order)
  const shown = all.slice(0, limit)
  const last = all.length > limit ? shown.at(-1)!.order : bound
  if (last === Number.POSITIVE_INFINITY) {
    return { points: shown.map(({ point }) => point), nextCursor: undefined }
  }
  const known = Math.min(...pages.map(({ knownBelow }) => knownBelow)) - 1
  // Other nodes may have been asked for the page before, and have known more.
  const end = Math.max(Math.min(last, known), cursor === undefined ? 0 : orderOfCursor(cursor))
  return {
    points: shown.filter(({ order }) => order <= end).map(({ point }) => point),
    nextCursor: cursorAfter(end),
  }
}

/** The plan of one node. */
export type NodePlan = FilterPlan & { readonly matching: number }

/**
 * Merges plans of nodes that have no points in common into one plan for the points that were inserted first. Works in
 * turns: a plan can have tens of thousands of points.
 */
export async function mergePlans(plans: readonly NodePlan[], limit: number): Promise<NodePlan> {
  const ends = plans.map(({ more, orders }) => (more ? orders.at(-1) : undefined))
  const bound = Math.min(...ends.map((end) => end ?? Number.POSITIVE_INFINITY))
  const at = plans.map(() => 0)
  const [ids, orders]: [string[], number[]] = [[], []]
  const turn = new Turn()
  while (ids.length < limit) {
    const heads = plans.map((plan, node) => plan.orders[at[node]!] ?? Number.POSITIVE_INFINITY)
    const order = Math.min(...heads)
    if (order === Number.POSITIVE_INFINITY || order > bound) break
    const node = heads.indexOf(order)
    ids.push(plans[node]!.ids[at[node]!]!)
    orders.push(order)
    at[node]! += 1
    if (turn.isOver) await turn.next()
  }
  const all = plans.reduce((sum, plan) => sum + plan.ids.length, 0)
  const matching = plans.reduce((sum, plan) => sum + plan.matching, 0)
  return {
    ...{ ids, orders },
    more: plans.some(({ more }) => more) || ids.length < all || matching > limit,
    matching: Math.min(limit, matching),
  }
}

function endOf(cursor: string | undefined): number {
  return cursor === undefined ? Number.POSITIVE_INFINITY : orderOfCursor(cursor)
}
