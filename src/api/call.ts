import type { ApiKey, KeyInfo } from '../base/api-key.ts'
import type { ClusterStatus } from '../base/cluster-status.ts'
import { defaultCollection } from '../base/collection.ts'
import type { Consistency } from '../base/request-headers.ts'
import type { SettingInfo } from '../base/setting-info.ts'
import type { Embeddings } from '../embeddings/embedder.ts'
import type { Reranking } from '../embeddings/reranker.ts'
import type { Collections, Database, Moment, PointsSnapshot, ReadCall } from '../points/database.ts'
import type { Audit } from './audit.ts'
import type { SlowRequests } from './slow-requests.ts'

export type {
  CollectionStats,
  Collections,
  CollectionTotals,
  Database,
  Lease,
  Moment,
  PointsSnapshot,
  ReadCall,
  StatsOfNodes,
} from '../points/database.ts'

/** The limits and defaults of operations, from the settings of the same names. */
interface Limits {
  readonly maxLimit: number
  readonly hnswEf: number
}

/** How up to date the answers of a cluster node are. Positions are positions in the cluster's log. */
export interface ClusterReads {
  /** The node has applied the cluster's log up to here. */
  readonly position: number
  /**
   * Position of the last change that this node has acknowledged. This node, or others, may not have applied it yet.
   */
  readonly acknowledged: number
  /** The newest position whose changes an answer may contain, including changes that only other nodes have applied. */
  readonly answeredPosition: number
  /**
   * Resolves when the node is as up to date as the read asks, with the position that other nodes must have reached.
   *
   * @throws DatabaseError `not_ready` when that takes too long
   */
  admit(
    read: { readonly consistency: Consistency; readonly position: number },
    signal: AbortSignal | undefined,
  ): Promise<number>
}

/** What operators can ask of the cluster of this node. */
export interface ClusterControl {
  /** Why the node is not ready; undefined if it is. */
  readonly notReady: () => string | undefined
  readonly status: () => Promise<ClusterStatus>
  /** Removes a node from the cluster. Returns whether the node was a member. */
  readonly remove: (node: string) => Promise<boolean>
  /** Stops a node from accepting clients, or lets it accept them again. Returns whether the node is a member. */
  readonly drain: (node: string, isDrained: boolean) => Promise<boolean>
  /** Makes a node fetch all its data from another node. Returns whether the node is a member. */
  readonly refetch: (node: string) => Promise<boolean>
  /** Sets the number of replicas of each point, in a cluster that divides the points among its nodes. */
  readonly setReplicas: (replicas: number) => Promise<void>
}

/** The keys of API_KEYS_FILE. A change is in force on all threads when its promise resolves. */
export interface KeysControl {
  /** Returns the key itself. */
  readonly create: (key: KeyInfo) => Promise<string>
  readonly list: () => Promise<readonly KeyInfo[]>
  readonly revoke: (name: string) => Promise<void>
}

/** What an operation runs against. */
export interface ApiContext {
  /** The collection that the call names, or the default one. */
  readonly database: Database
  readonly collections: Collections
  readonly limits: Limits
  /** Undefined unless EMBEDDINGS_URL is set. */
  readonly embeddings?: Embeddings | undefined
  /** Undefined unless RERANK_URL is set. */
  readonly reranker?: Reranking | undefined
  /** Undefined on a single node. */
  readonly cluster?: ClusterReads | undefined
  readonly clusterControl?: ClusterControl | undefined
  /** Undefined without API_KEYS_FILE. */
  readonly keys?: KeysControl | undefined
  /** Undefined: slow requests are not kept. */
  readonly slowRequests?: SlowRequests | undefined
  /** Undefined: calls leave no lines. */
  readonly audit?: Audit | undefined
  /**
   * Keeps changes of all collections from now on, and reads those since a place in the journal: its id, and the bytes
   * before. Those that are stored are forgotten. Undefined on a node of a cluster.
   */
  readonly changes?:
    | ((choice: {
        readonly since: Moment | undefined
        readonly stored: Moment | undefined
      }) => Promise<PointsSnapshot>)
    | undefined
  /** The settings in force, for display. */
  readonly settings?: readonly SettingInfo[] | undefined
  /** Runs an operation on another thread; returns undefined for one that runs on this thread. Absent: all do. */
  readonly elsewhere?: RunElsewhere | undefined
  /** On a node of a cluster, the position that other nodes must have reached to answer this operation. */
  readonly position?: number | undefined
}

type Everywhere = Omit<ApiContext, 'database' | 'collections' | 'position'>

/**
 * Returns the context of an operation on other data.
 *
 * @param databaseOf called when the operation uses its database: it may refuse that
 */
export function contextOn(
  given: ApiContext,
  collections: Collections,
  databaseOf: () => Database,
  position?: number,
): ApiContext {
  // `database` is not for everyone, so the context cannot be copied as a whole. The type keeps this list complete.
  const everywhere: { [Name in keyof Required<Everywhere>]: Everywhere[Name] } = {
    limits: given.limits,
    embeddings: given.embeddings,
    reranker: given.reranker,
    cluster: given.cluster,
    clusterControl: given.clusterControl,
    keys: given.keys,
    slowRequests: given.slowRequests,
    audit: given.audit,
    changes: given.changes,
    settings: given.settings,
    elsewhere: given.elsewhere,
  }
  return {
    ...everywhere,
    collections,
    position,
    get database() {
      return databaseOf()
    },
  }
}

/** @param name of the operation */
type RunElsewhere = (name: string, input: unknown, call: Call) => Promise<unknown> | undefined

/**
 * A transport's names for the fields that the two transports spell differently, for messages that name what the caller
 * sent.
 */
export interface FieldNames {
  readonly queryVector: 'query_vector' | 'vector'
  readonly nearId: 'near_id' | 'id'
  /** Prefix of a patch's fields; empty in HTTP, where they are fields of the body. */
  readonly patch: 'patch.' | ''
}

export const grpcFields: FieldNames = { queryVector: 'query_vector', nearId: 'near_id', patch: 'patch.' }
export const httpFields: FieldNames = { queryVector: 'vector', nearId: 'id', patch: '' }

/** What a transport knows about one call. */
export interface Call extends ReadCall {
  readonly fields: FieldNames
  /** The caller's key; absent where none is needed. */
  readonly key?: ApiKey | undefined
  /** Returns the caller's address, if it is known. */
  readonly address?: (() => string | undefined) | undefined
  /** Name or alias of the collection of the call; absent for the default collection. */
  readonly collection?: string | undefined
  /** The value of the header or metadata `idempotency-key`. */
  readonly idempotencyKey?: string | undefined
  /** The value of the query parameter or metadata `version`: whether the answer to GetPoint has the version. */
  readonly version?: string | undefined
  /** The values of `vicinal-consistency` and `vicinal-position`; only a node of a cluster reads them. */
  readonly consistency?: string | undefined
  readonly position?: string | undefined
  /** Aborts when the caller has disconnected or its deadline has passed. */
  readonly signal?: AbortSignal | undefined
  /**
   * Called when the request's bytes are no longer needed and the values decoded from them are counted
   * elsewhere, as points are while they wait for the disk. Without this call, the bytes count until the answer.
   */
  readonly decoded?: () => void
}

/** The name of a call's collection, which the call may refer to by an alias. */
export function collectionNameOf(
  context: Pick<ApiContext, 'collections'>,
  { collection }: Pick<Call, 'collection'>,
): string {
  if (collection === undefined) return defaultCollection
  // Not read before: there are none while the stored points are loading, but then a call has its line in the audit, too.
  return context.collections.aliases.get(collection) ?? collection
}

/** A transport that listens. */
export interface RunningServer {
  /** The address that it listens on; `port` is the actual port if 0 was configured. */
  readonly host: string
  readonly port: number
  /** The number of open connections. */
  readonly connections: number
  /** Lets clients connect anew, after the answers that they wait for: so that other threads get some of them. */
  askToReconnect(): void
  /**
   * Stops accepting requests and resolves when the running ones have ended. Requests that still run after `timeoutMs`
   * are aborted.
   */
  close(timeoutMs: number): Promise<void>
}
