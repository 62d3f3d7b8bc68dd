import { DateTime, GeoPoint, type Scalar } from '../base/attributes.ts'
import { FirstItems } from '../base/first-items.ts'
import { inTurns } from '../base/turns.ts'
import type { FacetCount } from '../points/database.ts'

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
      const key = keyOf(value)
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

function keyOf(value: Scalar): string {
  if (value instanceof DateTime) return `3 ${value.us}`
  if (value instanceof GeoPoint) return `4 ${value.lat} ${value.lon}`
  return `${rankOf(value)} ${String(value)}`
}
