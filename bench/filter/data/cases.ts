import type { Bounds, Filter } from '../../../src/base/filter.ts'
import type { DataSet } from '../../shared/data/data-set.ts'
import { readRows } from '../../shared/data/matrix-file.ts'
import type { Clusters } from './clusters.ts'
import { centresByDistance } from './k-means.ts'
import { bucketCount, clusterName, type SetAttributes, tierWord } from './make-attributes.ts'
import { tiersOf } from './tiers.ts'

export const kinds = ['range', 'equality', 'union', 'negation'] as const
export type Kind = (typeof kinds)[number]

/**
 * How a filter relates to the vectors: it is independent, it matches points near to or far from its query, or it uses
 * real attributes of texts.
 */
export const relations = ['independent', 'near', 'far', 'real'] as const
export type Relation = (typeof relations)[number]

/** Queries with filters of one kind. */
export interface FilterCase {
  readonly name: string
  readonly kind: Kind
  readonly relation: Relation
  /** The share of points that each filter should match. For real texts, it is unknown until counted. */
  readonly share: number | undefined
  /** One filter for all queries, or one per query. */
  readonly filters: readonly Filter[]
}

export interface CaseOptions {
  readonly shares: readonly number[]
  readonly kinds: readonly Kind[]
  readonly relations: readonly Relation[]
}

/** The cases of a data set, in the order of the report. */
export function casesOf(
  set: DataSet,
  { table, clusters }: SetAttributes,
  { shares, kinds: wantedKinds, relations: wantedRelations }: CaseOptions,
): FilterCase[] {
  const sizes = sizesOf(clusters)
  const orders = clusterOrders(set, clusters)
  const generated = shares.flatMap((share): FilterCase[] => [
    ...independentCases(share, shares),
    ...(['near', 'far'] as const).flatMap((relation) => {
      const count = Math.max(1, Math.round(share * set.count))
      const parts = orders.map((order) =>
        partOf(relation === 'near' ? order : order.toReversed(), sizes, count),
      )
      return [
        named({ kind: 'union', relation, share, filters: parts.map(insidePart) }),
        named({ kind: 'negation', relation, share, filters: parts.map(outsideTheRest) }),
      ]
    }),
  ])
  const real = table.columns.some(({ name }) => name === 'topic') ? realCases : []
  return [...generated, ...real].filter(
    ({ kind, relation }) => wantedKinds.includes(kind) && wantedRelations.includes(relation),
  )
}

function named(of: Omit<FilterCase, 'name'>): FilterCase {
  return { name: `${of.relation} ${of.kind} ${tierWord(of.share ?? 0).slice(1)} %`, ...of }
}

function independentCases(share: number, shares: readonly number[]): FilterCase[] {
  const tier = tiersOf(shares).findIndex((each) => each.includes(share))
  const chosen = Math.max(1, Math.round(share * bucketCount))
  const buckets = Array.from({ length: bucketCount }, (_, bucket) => bucket)
  const half = Math.ceil(chosen / 2)
  const union: Filter = {
    kind: 'any',
    of: [isIn('bucket', buckets.slice(0, half)), isIn('bucket', buckets.slice(half, chosen))],
  }
  const negation: Filter = { kind: 'not', of: isIn('bucket', buckets.slice(chosen)) }
  const common = { relation: 'independent', share } as const
  return [
    named({ ...common, kind: 'range', filters: [within('lot', { lt: share })] }),
    named({ ...common, kind: 'equality', filters: [isIn(`tier${tier}`, [tierWord(share)])] }),
    named({ ...common, kind: 'union', filters: [union] }),
    named({ ...common, kind: 'negation', filters: [negation] }),
  ]
}

/** Whole clusters, and the first rows of one more. */
interface Part {
  readonly whole: readonly number[]
  readonly next: number
  readonly rows: number
  readonly rest: readonly number[]
}

/** The first clusters of an order that together contain `count` rows. */
function partOf(order: readonly number[], sizes: Uint32Array, count: number): Part {
  let left = count
  let at = 0
  while (at < order.length - 1 && sizes[order[at]!]! <= left) {
    left -= sizes[order[at]!]!
    at += 1
  }
  return { whole: order.slice(0, at), next: order[at]!, rows: left, rest: order.slice(at + 1) }
}

function insidePart({ whole, next, rows }: Part): Filter {
  return {
    kind: 'any',
    of: [
      isIn('cluster', whole.map(clusterName)),
      { kind: 'all', of: [isIn('cluster', [clusterName(next)]), within('rank', { lt: rows })] },
    ],
  }
}

/** Matches the same rows by excluding all others. */
function outsideTheRest({ next, rows, rest }: Part): Filter {
  const others: Filter = {
    kind: 'any',
    of: [
      isIn('cluster', rest.map(clusterName)),
      { kind: 'all', of: [isIn('cluster', [clusterName(next)]), within('rank', { gte: rows })] },
    ],
  }
  return { kind: 'not', of: others }
}

function sizesOf({ centres, numbers }: Clusters): Uint32Array {
  const sizes = new Uint32Array(centres.length)
  for (const cluster of numbers) sizes[cluster]! += 1
  return sizes
}

/** By query, all clusters, nearest first. */
function clusterOrders({ queryPath, queryCount, dimension }: DataSet, { centres }: Clusters): number[][] {
  const queries = readRows(queryPath, 0, queryCount, dimension)
  return Array.from({ length: queryCount }, (_, query) =>
    centresByDistance(queries, query, centres, dimension),
  )
}

/** Realistic filters over WordNet. */
const realCases: readonly FilterCase[] = (
  [
    ['topic = animal', 'equality', isIn('topic', ['animal'])],
    ['pos = verb', 'equality', isIn('pos', ['verb'])],
    ['topic in person, location, food', 'union', isIn('topic', ['person', 'location', 'food'])],
    ['pos != noun', 'negation', { kind: 'not', of: isIn('pos', ['noun']) }],
    ['length < 40', 'range', within('length', { lt: 40 })],
    [
      'pos = noun, length 100 to 200',
      'range',
      { kind: 'all', of: [isIn('pos', ['noun']), within('length', { gte: 100, lt: 200 })] },
    ],
  ] as const
).map(([name, kind, filter]) => ({ name, kind, relation: 'real', share: undefined, filters: [filter] }))

function isIn(path: string, values: readonly (string | number)[]): Filter {
  return { kind: 'condition', path, test: { op: 'in', values } }
}

function within(path: string, bounds: Bounds): Filter {
  return { kind: 'condition', path, test: { op: 'range', bounds } }
}
