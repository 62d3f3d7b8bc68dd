import type { Metric } from '../base/point.ts'
import type { SettingSource } from '../base/setting-info.ts'
import type { CallOptions } from './call-options.ts'

/** Information for operators, which only HTTP offers. */
export interface InspectionClient {
  /** Returns the state of the collection's index. */
  stats(options?: CallOptions): Promise<CollectionStats>
  /** Returns the slowest requests of the last hour: to the client's collection, or to all if the client has none. */
  slowQueries(options?: CallOptions): Promise<SlowQueries>
  /** Returns the settings of the service; secrets are masked. */
  settings(options?: CallOptions): Promise<readonly SettingInForce[]>
}

/** The figures of one node, in a cluster that divides the points among its nodes. */
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
   * Only in a cluster that divides the points among its nodes; undefined elsewhere. In such a cluster, `points` counts
   * each point once, and leaves out those of missing partitions. All other figures are sums over the nodes.
   */
  readonly parts?: {
    readonly nodes: readonly NodeStats[]
    readonly diskBytes: number
    /** The partitions for which no node has answered, of all partitions. */
    readonly missing: { readonly partitions: number; readonly of: number }
  }
  readonly graphs: readonly {
    readonly metric: Metric
    /** Undefined without a graph; `nothing` if neither codes nor vectors distinguish the points. */
    readonly distanceSource: 'codes' | 'vectors' | 'nothing' | undefined
  }[]
  readonly searches: readonly {
    readonly metric: Metric
    readonly plan: 'graph' | 'scan'
    /** Undefined for scans. */
    readonly efMultiplier: number | undefined
    /** Undefined until it has been measured. */
    readonly recall: number | undefined
    /** Recall of searches with a filter, by the share of points that match, like `0-0.1`. */
    readonly filtered: readonly { readonly matchingShare: string; readonly recall: number | undefined }[]
  }[]
}

export interface SlowQueries {
  /** Faster requests are not kept. */
  readonly thresholdMs: number
  /** The slowest request first. */
  readonly queries: readonly SlowQuery[]
}

export interface SlowQuery {
  /** When the request ended. */
  readonly time: Date
  readonly tookMs: number
  readonly collection: string
  readonly operation: string
  readonly transport: 'grpc' | 'http'
  /** `ok` or the reason of the error. */
  readonly outcome: string
  /** How many queries a batch has. In a batch, the fields from `metric` to `reason` describe its first query. */
  readonly queries?: number
  readonly metric?: Metric
  readonly limit?: number
  readonly ef?: number
  /** As JSON, truncated. */
  readonly filter?: string
  readonly plan?: string
  readonly reason?: string
  readonly hits?: number
}

export interface SettingInForce {
  /** The name of the environment variable. */
  readonly name: string
  readonly flag: string
  readonly group: string
  /** Undefined if the setting has no value; a secret is masked. */
  readonly value: string | number | boolean | undefined
  readonly default: string
  readonly source: SettingSource
  readonly isSecret: boolean
  readonly doc: string
}
