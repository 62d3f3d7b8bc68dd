import type { DateTime, GeoPoint, Scalar } from './attributes.ts'

/**
 * A checked filter. Both transports parse into this tree. `$ne`, `$nin` and `$exists: false` become `not` around their
 * opposite, so that complements are exact.
 */
export type Filter =
  /** Matches if all operands do; without operands, matches every point. */
  | { readonly kind: 'all'; readonly of: readonly Filter[] }
  /** Matches if at least one operand does; without operands, matches no point. */
  | { readonly kind: 'any'; readonly of: readonly Filter[] }
  | { readonly kind: 'not'; readonly of: Filter }
  /** Points by id: 16 bytes each, ascending, without repetition. */
  | { readonly kind: 'ids'; readonly ids: Uint8Array }
  /** Points of some partitions: the bytes of a `PartitionSet`. Used inside a cluster, never by callers. */
  | { readonly kind: 'partitions'; readonly partitions: Uint8Array }
  | { readonly kind: 'condition'; readonly path: string; readonly test: Test }

/**
 * A test of the values at a path, which is names with dots between them. A list meets the test if one of its elements
 * does; a path also leads through lists of maps. A value of another type never meets a test.
 */
export type Test =
  /** Equal to one of these values; never met if there are none. `$eq` has one. */
  | { readonly op: 'in'; readonly values: readonly Scalar[] }
  /** Within all given bounds, which have one type: numbers, dates, or text, ordered by its UTF-8 bytes. */
  | { readonly op: 'range'; readonly bounds: Bounds }
  /** The path has a value, a list or a map. */
  | { readonly op: 'exists' }
  /** Each of these values is at the path; in a list, each is one of the elements. */
  | { readonly op: 'contains'; readonly values: readonly Scalar[] }
  | { readonly op: 'prefix'; readonly text: string }
  /** The collection's words at the path have all words of the text; with `phrase` in its order. */
  | { readonly op: 'match' | 'phrase'; readonly text: string }
  /** At most `radiusM` metres away on a sphere of 6,371,008.8 m (the mean radius of the Earth, IUGG). */
  | { readonly op: 'near'; readonly center: GeoPoint; readonly radiusM: number }
  /** Between the two corners, edges included. A box whose west is greater than its east crosses the 180th meridian. */
  | { readonly op: 'box'; readonly southWest: GeoPoint; readonly northEast: GeoPoint }

export interface Bounds {
  readonly gt?: Ordered
  readonly gte?: Ordered
  readonly lt?: Ordered
  readonly lte?: Ordered
}

/** What follows an operator in a request. */
export type OperandKind = 'value' | 'values' | 'bound' | 'boolean' | 'text' | 'circle' | 'box'

interface Operator {
  /** The field of the message `Condition`; in JSON an operator has its name in this table, after a "$". */
  readonly field: string
  readonly operand: OperandKind
  readonly test: Test['op']
  /** Whether it matches exactly the points that the test does not. */
  readonly isComplement?: true
}

/**
 * The operators that requests use. Readers and writers of JSON and of messages, checks, and the text and the key of a
 * filter follow from this table; the evaluation of each kind of test is in `attributes/prepare-filter.ts`.
 */
const table = {
  eq: { field: 'eq', operand: 'value', test: 'in' },
  ne: { field: 'ne', operand: 'value', test: 'in', isComplement: true },
  in: { field: 'any_of', operand: 'values', test: 'in' },
  nin: { field: 'none_of', operand: 'values', test: 'in', isComplement: true },
  gt: { field: 'range', operand: 'bound', test: 'range' },
  gte: { field: 'range', operand: 'bound', test: 'range' },
  lt: { field: 'range', operand: 'bound', test: 'range' },
  lte: { field: 'range', operand: 'bound', test: 'range' },
  exists: { field: 'exists', operand: 'boolean', test: 'exists' },
  all: { field: 'contains_all', operand: 'values', test: 'contains' },
  prefix: { field: 'prefix', operand: 'text', test: 'prefix' },
  near: { field: 'near', operand: 'circle', test: 'near' },
  box: { field: 'box', operand: 'box', test: 'box' },
  match: { field: 'match', operand: 'text', test: 'match' },
  phrase: { field: 'phrase', operand: 'text', test: 'phrase' },
} as const

export type OperatorName = keyof typeof table
export type OperandOf<Name extends OperatorName> = (typeof table)[Name]['operand']

export const operators: Readonly<Record<OperatorName, Operator>> = table

export const operatorNames: readonly OperatorName[] = Object.keys(table) as OperatorName[]

/** The operator that stands for a test in JSON and messages: of several, the one with a list of values. */
export function operatorOf(test: Test): OperatorName {
  return operatorNames.findLast((name) => table[name].test === test.op && !('isComplement' in table[name]))!
}

export const boundNames = ['gt', 'gte', 'lt', 'lte'] as const

export type Ordered = string | number | DateTime

/**
 * Paths to values other than attributes. `$content_type` is text, `$expires_at` a date that only some points have,
 * and `$version` a number. `$id` becomes `ids` in the tree.
 */
export const metaPaths = ['$content_type', '$expires_at', '$version'] as const

/** Limits of one filter. The message for a larger filter names the limit. */
export const filterLimits = {
  /**
   * Nested `$and`, `$or` and `$not`, as written. The tree is at most about twice as deep: an object with several names
   * becomes an `all`, and `$ne` a `not`.
   */
  depth: 32,
  /** Conditions and all other nodes of the tree. */
  nodes: 4_096,
  /** Values of all `in` and `contains` tests together, including ids. */
  values: 1_000_000,
  /** Characters of all `match` and `phrase` tests together. */
  words: 10_000,
} as const

export type FilterLimits = { readonly [Name in keyof typeof filterLimits]: number }
