import type { Missing } from '../base/partial-reads.ts'
import type { ContentType, Metric } from '../base/point.ts'
import type { SettingSource } from '../base/setting-info.ts'
import type { AttributesOutput } from './attributes.ts'
import type { CallOptions } from './call-options.ts'
import type { Filter } from './filters.ts'

/** What only HTTP offers: maps, and what an operator asks a service. */
export interface InspectionClient {
  /**
   * Points of the collection, or a random sample of them, with their nearest neighbours among each other: what a picture is
   * computed from. Fails with `overloaded` while another map of the collection is being made.
   */
  map(query?: MapQuery, options?: CallOptions): Promise<PointMap>
  /** The state of the collection's index. */
  stats(options?: CallOptions): Promise<CollectionStats>
  /** The slowest requests of the last hour: to the client's collection, or to all if the client has none. */
  slowQueries(options?: CallOptions): Promise<SlowQueries>
  /** The settings of the service, secrets masked. */
  settings(options?: CallOptions): Promise<readonly SettingInForce[]>
}

export interface MapQuery {
  /** Points at most: 1 to 100,000; 10,000 by default. */
  readonly limit?: number | undefined
  /** Cosine by default. */
  readonly metric?: Metric | undefined
  /** Neighbours of each point: 1 to 32; 15 by default. */
  readonly k?: number | undefined
  /** The same seed samples the same points. */
  readonly seed?: number | undefined
  readonly ef?: number | undefined
  readonly filter?: Filter | undefined
  /** Up to 16 paths of attributes to return. */
  readonly attributes?: readonly string[] | undefined
  /** How many characters of each content to return. */
  readonly content?: number | undefined
}

export interface PointMap {
  readonly metric: Metric
  readonly seed: number
  readonly k: number
  /** Points that match; `points` is a sample if there are fewer. */
  readonly matching: number
  readonly points: readonly MapPoint[]
}

export interface MapPoint {
  readonly id: string
  /** Places in the points of the map, closest first. */
  readonly neighbours: readonly number[]
  /** Of each neighbour. */
  readonly distances: readonly number[]
  readonly contentType?: ContentType
  readonly content?: string
  readonly attributes?: AttributesOutput
}

/** Of a cluster whose nodes have a part of the points each: what a node has. */
export interface NodeStats {
  readonly node: string
  /** Undefined for a node that has not answered. */
  readonly stats:
    | (Pick<
        CollectionStats,
        'points' | 'segments' | 'linked' | 'waiting' | 'tombstones' | 'isSettling' | 'memoryBytes'
      > & { readonly diskBytes: number })
    | undefined
}

export interface CollectionStats {
  readonly collection: string
  readonly points: number
  /** Undefined before the first insert. */
  readonly dimension: number | undefined
  readonly segments: number
  readonly sequence: number
  readonly linked: number
  /** Points that are not linked yet: every search scans them. */
  readonly waiting: number
  readonly tombstones: number
  /** Whether a graph is being built or repaired, or recall is being measured. */
  readonly isSettling: boolean
  readonly memoryBytes: { readonly index: number; readonly ids: number; readonly attributes: number }
  /**
   * Of a cluster whose nodes have a part of the points each; undefined elsewhere. `points` counts each point once, without those
   * of the missing partitions; all other figures are sums over what the nodes have.
   */
  readonly parts?: {
    readonly nodes: readonly NodeStats[]
    readonly diskBytes: number
    /** Of which no node has answered. */
    readonly missing: Missing
  }
  readonly graphs: readonly {
    readonly metric: Metric
    /** Undefined without a graph; `nothing` where neither codes nor vectors tell the points apart. */
    readonly distanceSource: 'codes' | 'vectors' | 'nothing' | undefined
  }[]
  readonly searches: readonly {
    readonly metric: Metric
    readonly plan: 'graph' | 'scan'
    /** Undefined for scans. */
    readonly efMultiplier: number | undefined
    /** Undefined before it was measured. */
    readonly recall: number | undefined
    /** With a filter, by the share of points that match, like `0-0.1`. */
    readonly filtered: readonly { readonly matchingShare: string; readonly recall: number | undefined }[]
  }[]
}

export interface SlowQueries {
  /** Faster requests are not kept. */
  readonly thresholdMs: number
  /** The slowest first. */
  readonly queries: readonly SlowQuery[]
}

export interface SlowQuery {
  /** When it ended. */
  readonly time: Date
  readonly tookMs: number
  readonly collection: string
  readonly operation: string
  readonly transport: 'grpc' | 'http'
  /** `ok` or the reason of the error. */
  readonly outcome: string
  /** Of a batch; the other fields are those of its first query. */
  readonly queries?: number
  readonly metric?: Metric
  readonly limit?: number
  readonly ef?: number
  /** As JSON, cut. */
  readonly filter?: string
  readonly plan?: string
  readonly reason?: string
  readonly hits?: number
}

export interface SettingInForce {
  /** Of the environment variable. */
  readonly name: string
  readonly flag: string
  readonly group: string
  /** Undefined if none is set; a secret is masked. */
  readonly value: string | number | boolean | undefined
  readonly default: string
  readonly source: SettingSource
  readonly isSecret: boolean
  readonly doc: string
}
