import type { DateTime, GeoPoint, Scalar } from './attributes.ts'

/**
 * A checked filter: which points are meant. Both transports parse into this tree; `$ne`, `$nin` and `$exists: false` are
 * `not` around their opposite, so that complements are exact.
 */
export type Filter =
  /** Matches if all do; every point if there are none. */
  | { readonly kind: 'all'; readonly of: readonly Filter[] }
  /** Matches if one does; no point if there are none. */
  | { readonly kind: 'any'; readonly of: readonly Filter[] }
  | { readonly kind: 'not'; readonly of: Filter }
  /** Points by id: 16 bytes each, ascending, without repetition. */
  | { readonly kind: 'ids'; readonly ids: Uint8Array }
  /** Points of some partitions, the bytes of a `PartitionSet`: what a node of a cluster is asked for, never a caller's. */
  | { readonly kind: 'partitions'; readonly partitions: Uint8Array }
  /** Points whose ids have a hash below a bound of 2^32 at most: a sample on several nodes of a cluster, never a caller's. */
  | { readonly kind: 'sample'; readonly seed: number; readonly below: number }
  | { readonly kind: 'condition'; readonly path: string; readonly test: Test }

/**
 * A test of the values at a path: names with dots between them. On a list it holds if one element meets it; a path leads
 * through lists of maps, too. A value of another type never meets a test.
 */
export type Test =
  /** One of these values; never if there are none. `$eq` has one. */
  | { readonly op: 'in'; readonly values: readonly Scalar[] }
  /** Within all bounds that are given: numbers, moments, or text by its UTF-8 bytes; all of one type. */
  | { readonly op: 'range'; readonly bounds: Bounds }
  /** There is a value, a list or a map at the path. */
  | { readonly op: 'exists' }
  /** Each of these values is at the path: of a list, one element for each. */
  | { readonly op: 'contains'; readonly values: readonly Scalar[] }
  | { readonly op: 'prefix'; readonly prefix: string }
  /** At most `radiusM` metres away on a sphere of 6,371,008.8 m (the mean radius of the Earth, IUGG). */
  | { readonly op: 'near'; readonly center: GeoPoint; readonly radiusM: number }
  /** Between the two corners, edges included; one whose west is greater than its east crosses the 180th meridian. */
  | { readonly op: 'box'; readonly southWest: GeoPoint; readonly northEast: GeoPoint }

export interface Bounds {
  readonly gt?: Ordered
  readonly gte?: Ordered
  readonly lt?: Ordered
  readonly lte?: Ordered
}

export type Ordered = string | number | DateTime

/**
 * Paths that are not the caller's. `$content_type` is text, `$expires_at` a moment that only some points have, `$version` a
 * number. `$id` is in the tree as `ids`.
 */
export const metaPaths = ['$content_type', '$expires_at', '$version'] as const

/** Of one filter; a larger one is refused by name. */
export const filterLimits = {
  /**
   * `$and`, `$or` and `$not` within each other, as written. In the tree, an object with several names becomes an `all` and
   * `$ne` a `not`: it is at most about twice as deep.
   */
  depth: 32,
  /** Conditions and other nodes. */
  nodes: 4_096,
  /** Values of all `in` and `contains` together, ids included. */
  values: 1_000_000,
} as const
