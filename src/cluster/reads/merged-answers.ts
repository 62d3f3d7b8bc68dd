import { DateTime, GeoPoint, type Scalar } from '../../base/attributes.ts'
import { FirstItems } from '../../base/first-items.ts'
import { IdLists, type SearchResults } from '../../base/id-lists.ts'
import { idBytes, idToBytes } from '../../base/ids.ts'
import type { HitDetails, Profile } from '../../base/point.ts'
import { inTurns, Turn } from '../../base/turns.ts'
import type { FacetCount, ListPage, ListQuery } from '../../points/database.ts'
import { cursorAfter, orderOfCursor } from '../../points/insertion-order.ts'
import type { PlannedChanges } from '../../write/by-filter.ts'

interface MergedQuery {
  readonly limit: number
  /** The point whose neighbours are searched, which is not one of its own results. */
  readonly without?: string | undefined
}

/**
 * Merges the results of several nodes: by distance, equal distances by sequence, each point once. Nodes have points
 * in common, and each has searched all points that it holds.
 *
 * At different log positions, nodes can have different vectors of one point. The nearest one counts, even if it is the
 * older one: it has kept another point out of the list of its node.
 */
export async function mergeResults(
  queries: readonly MergedQuery[],
  all: readonly SearchResults[],
): Promise<SearchResults> {
  const total = all.reduce((sum, { ids }) => sum + ids.total, 0)
  const bytes = Buffer.allocUnsafe(total * idBytes)
  const [distances, sequences] = [new Float64Array(total), new Float64Array(total)]
  const ends: number[] = []
  const details: (readonly HitDetails[] | undefined)[] = []
  let count = 0
  const turn = new Turn()
  for (const [list, { limit, without }] of queries.entries()) {
    const at = all.map(({ ids }) => ids.startOf(list))
    const seen = new Set(without === undefined ? [] : [textOf(idToBytes(without))])
    const shown: HitDetails[] = []
    for (const end = count + limit; count < end; ) {
      const node = nearestNode(all, list, at)
      if (node === -1) break
      const found = all[node]!
      const number = at[node]!
      at[node]! += 1
      const id = found.ids.bytes.subarray(number * idBytes, (number + 1) * idBytes)
      const point = textOf(id)
      if (seen.has(point)) continue
      seen.add(point)
      bytes.set(id, count * idBytes)
      distances[count] = found.distances[number]!
      sequences[count] = found.sequences[number]!
      const hits = found.details[list]
      if (hits !== undefined) shown.push(hits[number - found.ids.startOf(list)]!)
      count += 1
    }
    ends.push(count)
    details.push(all.some((each) => each.details[list] !== undefined) ? shown : undefined)
    if (turn.isOver) await turn.next()
  }
  return {
    ids: new IdLists(bytes, ends),
    distances: distances.subarray(0, count),
    sequences: sequences.subarray(0, count),
    details,
    profiles: queries.map((_, list) => mergedProfile(all.map(({ profiles }) => profiles[list]))),
    plans: queries.map((_, list) => all.map(({ plans }) => plans[list]).find(isThere)),
  }
}

/** The node with the next result of a list; -1 when there is none. */
function nearestNode(all: readonly SearchResults[], list: number, at: readonly number[]): number {
  let best = -1
  let [bestDistance, bestSequence] = [0, 0]
  for (const [node, { ids, distances, sequences }] of all.entries()) {
    const number = at[node]!
    if (number === ids.endOf(list)) continue
    const distance = distances[number]!
    const sequence = sequences[number]!
    const isLater = distance > bestDistance || (distance === bestDistance && sequence >= bestSequence)
    if (best !== -1 && isLater) continue
    best = node
    bestDistance = distance
    bestSequence = sequence
  }
  return best
}

/** The work of all nodes: counts are sums, times are those of the slowest node. */
export function mergedProfile(all: readonly (Profile | undefined)[]): Profile | undefined {
  const profiles = all.filter(isThere)
  const [first] = profiles
  if (first === undefined) return undefined
  const sum = (name: 'points' | 'matching' | 'compared' | 'measured'): number =>
    profiles.reduce((total, each) => total + each[name], 0)
  const most = (name: 'efMultiplier' | 'filterUs' | 'queueUs' | 'searchUs'): number =>
    Math.max(...profiles.map((each) => each[name]))
  const searched = profiles.filter(({ plan }) => plan !== 'empty')
  const reasons = new Set((searched.length === 0 ? profiles : searched).map(({ reason }) => reason))
  const recalls = searched.map(({ recallEstimate }) => recallEstimate).filter(isThere)
  return {
    plan: searched.find(({ plan }) => plan === 'graph')?.plan ?? searched[0]?.plan ?? first.plan,
    reason: `${profiles.length} nodes: ${[...reasons].join('; ')}`,
    points: sum('points'),
    matching: sum('matching'),
    compared: sum('compared'),
    measured: sum('measured'),
    ef: first.ef,
    efMultiplier: most('efMultiplier'),
    filterUs: most('filterUs'),
    queueUs: most('queueUs'),
    searchUs: most('searchUs'),
    recallEstimate: recalls.length === 0 ? undefined : Math.min(...recalls),
  }
}

function isThere<Value>(value: Value | undefined): value is Value {
  return value !== undefined
}

function textOf(id: Uint8Array): string {
  return Buffer.from(id.buffer, id.byteOffset, idBytes).toString('latin1')
}

/** A page of an ordered query, from one node. */
export interface OrderedPage extends ListPage {
  readonly orders: readonly number[]
  /** The node had applied all records that can have inserted points with an order below this. */
  readonly knownBelow: number
  /** The highest log position of a record of which the page may include some effects. */
  readonly visible: number
}

/**
 * Merges pages of nodes that have no points in common into one page, in the order of insertion.
 *
 * The page may end before its limit: a cursor never passes a place where a node may not have known all points yet. No
 * later page would return them.
 */
export async function mergePages(
  pages: readonly OrderedPage[],
  { limit, cursor }: Pick<ListQuery, 'limit' | 'cursor'>,
): Promise<ListPage> {
  const lists = pages.map(({ orders, nextCursor }) => ({
    orders,
    // A page may end before its limit: what follows it is not known yet.
    end: nextCursor === undefined ? Number.POSITIVE_INFINITY : orderOfCursor(nextCursor),
  }))
  const first = await inTurns(firstOf(lists, limit + 1))
  const last = first.length > limit ? first[limit - 1]!.order : Math.min(...lists.map(({ end }) => end))
  const known = Math.min(...pages.map(({ knownBelow }) => knownBelow)) - 1
  const isLast = last === Number.POSITIVE_INFINITY
  // Other nodes may have been asked for the page before, and have known more.
  const end = isLast
    ? last
    : Math.max(Math.min(last, known), cursor === undefined ? 0 : orderOfCursor(cursor))
  return {
    points: first
      .slice(0, limit)
      .flatMap(({ node, at, order }) => (order > end ? [] : pages[node]!.points[at]!)),
    nextCursor: isLast ? undefined : cursorAfter(end),
  }
}

/** The plan of one node. */
export type NodePlan = PlannedChanges & { readonly matching: number }

/** Merges plans of nodes that have no points in common into one plan for the points that were inserted first. */
export async function mergePlans(plans: readonly NodePlan[], limit: number): Promise<NodePlan> {
  const lists = plans.map(({ more, orders }) => ({
    orders,
    end: more ? (orders.at(-1) ?? Number.POSITIVE_INFINITY) : Number.POSITIVE_INFINITY,
  }))
  const first = await inTurns(firstOf(lists, limit))
  const all = plans.reduce((sum, plan) => sum + plan.ids.length, 0)
  const matching = plans.reduce((sum, plan) => sum + plan.matching, 0)
  return {
    ids: first.map(({ node, at }) => plans[node]!.ids[at]!),
    orders: first.map(({ order }) => order),
    more: plans.some(({ more }) => more) || first.length < all || matching > limit,
    matching: Math.min(limit, matching),
  }
}

/**
 * Returns the points of several nodes that were inserted first, up to where the list of one ends before all of its
 * points. In steps: there can be tens of thousands.
 */
function* firstOf(
  lists: readonly { readonly orders: readonly number[]; readonly end: number }[],
  limit: number,
): Generator<void, { readonly node: number; readonly at: number; readonly order: number }[]> {
  const end = Math.min(...lists.map((list) => list.end))
  const next = lists.map(() => 0)
  const first = []
  while (first.length < limit) {
    const heads = lists.map(({ orders }, node) => orders[next[node]!] ?? Number.POSITIVE_INFINITY)
    const order = Math.min(...heads)
    if (order === Number.POSITIVE_INFINITY || order > end) break
    const node = heads.indexOf(order)
    first.push({ node, at: next[node]!, order })
    next[node]! += 1
    yield
  }
  return first
}

/** The most frequent values of one node, by path. */
export type NodeFacets = ReadonlyMap<string, readonly FacetCount[]>

/**
 * Merges the most frequent values of nodes that have no points in common, in turns. Undefined when the nodes have to be
 * asked for more values: a value can be frequent in total without being among the first of any node.
 *
 * @param asked how many values each node was asked for; a node that returned fewer has returned all it has
 */
export async function mergeFacets(
  nodes: readonly NodeFacets[],
  paths: readonly string[],
  limit: number,
  asked: number,
): Promise<NodeFacets | undefined> {
  const merged = new Map<string, readonly FacetCount[]>()
  for (const path of new Set(paths)) {
    const lists = nodes.map((facets) => facets.get(path) ?? [])
    const counts = await inTurns(mergePath(lists, limit, asked))
    if (counts === undefined) return undefined
    merged.set(path, counts)
  }
  return merged
}

interface Sum {
  readonly value: Scalar
  count: number
  /** The most points that can have the value on nodes that have not returned it. */
  unknown: number
}

function* mergePath(
  lists: readonly (readonly FacetCount[])[],
  limit: number,
  asked: number,
): Generator<void, readonly FacetCount[] | undefined> {
  // By node, the most points that can have a value that the node has not returned.
  const rests = lists.map((list) => (list.length < asked ? 0 : list.at(-1)!.count))
  const restOfAll = rests.reduce((sum, rest) => sum + rest, 0)
  const sums = new Map<string, Sum>()
  for (const [node, list] of lists.entries()) {
    for (const [at, { value, count }] of list.entries()) {
      const key = JSON.stringify(value)
      const sum = sums.get(key) ?? { value, count: 0, unknown: restOfAll }
      sum.count += count
      sum.unknown -= rests[node]!
      sums.set(key, sum)
      if (at % valuesPerStep === 0) yield
    }
  }
  const best = new FirstItems<Sum>(limit, compareSums)
  yield* inSteps(sums.values(), (sum) => best.add(sum))
  const first = best.sorted()
  if (restOfAll > 0) {
    if (first.length < limit || first.some(({ unknown }) => unknown > 0)) return undefined
    const least = first.at(-1)!.count
    let isKnown = restOfAll < least
    // The first values are known completely by now.
    yield* inSteps(sums.values(), ({ count, unknown }) => {
      if (unknown > 0 && count + unknown >= least) isKnown = false
    })
    if (!isKnown) return undefined
  }
  return first.map(({ value, count }) => ({ value, count }))
}

function* inSteps(sums: Iterable<Sum>, use: (sum: Sum) => void): Generator<void, void> {
  let used = 0
  for (const sum of sums) {
    use(sum)
    used += 1
    if (used % valuesPerStep === 0) yield
  }
}

/** This many values take well under a millisecond. */
const valuesPerStep = 256

function compareSums(one: Sum, other: Sum): number {
  return other.count - one.count || compare(one.value, other.value)
}

/** Orders values with equal counts: texts by their bytes, then numbers, booleans, times and places. */
function compare(one: Scalar, other: Scalar): number {
  return rankOf(one) - rankOf(other) || compareSame(one, other)
}

function compareSame(one: Scalar, other: Scalar): number {
  if (typeof one === 'string') return Buffer.compare(Buffer.from(one), Buffer.from(other as string))
  if (one instanceof DateTime) return one.us - (other as DateTime).us
  if (one instanceof GeoPoint) return one.lat - (other as GeoPoint).lat || one.lon - (other as GeoPoint).lon
  return Number(one) - Number(other)
}

function rankOf(value: Scalar): number {
  if (typeof value === 'string') return 0
  if (typeof value === 'number') return 1
  if (typeof value === 'boolean') return 2
  return value instanceof DateTime ? 3 : 4
}
