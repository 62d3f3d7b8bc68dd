import type { Consistency } from '../base/consistency.ts'
import { DatabaseError } from '../base/errors.ts'
import type { Embeddings } from '../embeddings/embeddings.ts'
import type { Collections, Lease } from '../engine/collections.ts'
import type { CollectionStats, Database, PointsSnapshot, StatsOfNodes } from '../engine/database.ts'

export type { CollectionStats, Collections, Database, Lease, PointsSnapshot, StatsOfNodes }

/** The limits and defaults of operations, from the settings of the same names. */
export interface Limits {
  readonly maxLimit: number
  readonly hnswEf: number
}

/** How new answers are, on a node of a cluster. */
export interface ClusterReads {
  /** The node has applied the cluster's log up to here. */
  readonly position: number
  /** Of the last change that this node has answered; 0 where it has all points. Other nodes may not have applied it yet. */
  readonly acknowledged: number
  /** What answers may have in them: of other nodes, too. */
  readonly answeredPosition: number
  /**
   * Resolves when the node is as new as asked for, with the position that other nodes have to be as new as.
   *
   * @throws DatabaseError `not_ready` when that takes too long
   */
  admit(
    read: { readonly consistency: Consistency; readonly position: number },
    signal: AbortSignal | undefined,
  ): Promise<number>
}

/** What an operation runs against. */
export interface ApiContext {
  /** The collection that the call names, or the default one. */
  readonly database: Database
  readonly collections: Collections
  readonly limits: Limits
  /** Undefined unless EMBEDDINGS_URL is set. */
  readonly embeddings?: Embeddings | undefined
  /** Undefined on a node by itself. */
  readonly cluster?: ClusterReads | undefined
  /** In an operation on a node of a cluster: what answers of other nodes have to be as new as. */
  readonly position?: number | undefined
}

/** A transport's own names for fields that the two spell differently, so that a message names what the caller sent. */
export interface FieldNames {
  readonly queryVector: 'query_vector' | 'vector'
  readonly nearId: 'near_id' | 'id'
  /** What comes before the fields of a patch: over HTTP they are fields of the body. */
  readonly patch: 'patch.' | ''
}

export const grpcFields: FieldNames = { queryVector: 'query_vector', nearId: 'near_id', patch: 'patch.' }
export const httpFields: FieldNames = { queryVector: 'vector', nearId: 'id', patch: '' }

/** What a transport knows about one call. */
export interface Call {
  readonly fields: FieldNames
  /** Name or alias of the collection that the call is about; absent for the default one. */
  readonly collection?: string | undefined
  /** What came as `idempotency-key`, header or metadata. */
  readonly idempotencyKey?: string | undefined
  /** What came as `version`, query parameter or metadata: whether the answer to GetPoint has the version. */
  readonly version?: string | undefined
  /** What came as `vicinal-consistency` and `vicinal-position`; only a node of a cluster looks at them. */
  readonly consistency?: string | undefined
  readonly position?: string | undefined
  /** What came as `vicinal-partial`; only a node of a cluster looks at it. */
  readonly partial?: string | undefined
  /** By `performance.now()`, when the caller's deadline passes; only looked at with `partial`. */
  readonly deadlineMs?: number | undefined
  /** Called before the answer where it may be partial and is, with how many partitions are missing. */
  readonly onPartial?: ((missing: number) => void) | undefined
  /** Aborts when the caller has gone or its deadline has passed. */
  readonly signal?: AbortSignal
  /**
   * Called when the request's bytes are no longer needed and the values decoded from them are counted
   * elsewhere, as points are while they wait for the disk. Otherwise the bytes count until the answer.
   */
  readonly decoded?: () => void
}

/** An error in what the caller sent: the message names the field, the value and the limit. */
export function invalid(message: string): DatabaseError {
  return new DatabaseError('invalid_argument', message)
}
