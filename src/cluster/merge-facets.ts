import { DateTime, GeoPoint, type Scalar } from '../base/attributes.ts'
import type { FacetCount } from '../engine/database.ts'

/** The most frequent values of one node, by path. */
export type NodeFacets = ReadonlyMap<string, readonly FacetCount[]>

/**
 * Merges the most frequent values of nodes that have no points in common. Undefined when the nodes have to be asked
 * for more values: a value can be frequent in total without being among the first of any node.
 *
 * @param asked how many values each node was asked for; a node that returned fewer has returned all it has
 */
export function mergeFacets(
  nodes: readonly NodeFacets[],
  paths: readonly string[],
  limit: number,
  asked: number,
): NodeFacets | undefined {
  const merged = new Map<string, readonly FacetCount[]>()
  for (const path of new Set(paths)) {
    const counts = mergePath(
      nodes.map((facets) => facets.get(path) ?? []),
      limit,
      asked,
    )
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

function mergePath(
  lists: readonly (readonly FacetCount[])[],
  limit: number,
  asked: number,
): FacetCount[] | undefined {
  // By node, the most points that can have a value that the node has not returned.
  const rests = lists.map((list) => (list.length < asked ? 0 : list.at(-1)!.count))
  const restOfAll = rests.reduce((sum, rest) => sum + rest, 0)
  const sums = new Map<string, Sum>()
  for (const [node, list] of lists.entries()) {
    for (const { value, count } of list) {
      const key = keyOf(value)
      const sum = sums.get(key) ?? { value, count: 0, unknown: restOfAll }
      sum.count += count
      sum.unknown -= rests[node]!
      sums.set(key, sum)
    }
  }
  const ordered = [...sums.values()].sort(
    (one, other) => other.count - one.count || compare(one.value, other.value),
  )
  const first = ordered.slice(0, limit)
  if (restOfAll > 0) {
    if (first.length < limit || first.some(({ unknown }) => unknown > 0)) return undefined
    const least = first.at(-1)!.count
    const canBeMore = ({ count, unknown }: Sum): boolean => unknown > 0 && count + unknown >= least
    if (restOfAll >= least || ordered.slice(limit).some(canBeMore)) return undefined
  }
  return first.map(({ value, count }) => ({ value, count }))
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
