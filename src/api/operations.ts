import type { KeyInfo, Role } from '../base/api-key.ts'
import type { ClusterStatus } from '../base/cluster-status.ts'
import type { EvaluatedPoints } from '../base/relevance.ts'
import type { SettingInfo } from '../base/setting-info.ts'
import type { AuditPage } from './audit.ts'
import type { ApiContext, Call } from './call.ts'
import {
  type ChangeByFilterInput,
  type Changed,
  deletePoint,
  deletePoints,
  type PatchPointInput,
  type PointIdInput,
  type PutPointInput,
  patchPoint,
  putPoint,
  updatePoints,
  type WrittenPoint,
} from './change-point.ts'
import {
  type CollectionInput,
  type CountedCollection,
  deleteCollection,
  getCollection,
  listCollections,
  type PutCollectionInput,
  putCollection,
  type SetAliasesInput,
  setAliases,
} from './collections.ts'
import { type EvaluatePointsInput, evaluatePoints } from './evaluate-points.ts'
import {
  type InsertedBatch,
  type InsertVectorsBatchInput,
  insertVector,
  insertVectorsBatch,
} from './insert-points.ts'
import {
  drainNode,
  getCluster,
  getSettings,
  getStats,
  type ListAuditInput,
  listAudit,
  listSlowRequests,
  type NodeInput,
  type ReplicasInput,
  refetchNode,
  removeNode,
  type SlowRequestsAnswer,
  type Stats,
  setReplicas,
  type TakeChangesInput,
  type TakenSnapshot,
  type TakeSnapshotInput,
  takeChanges,
  takeSnapshot,
  undrainNode,
} from './inspect-service.ts'
import {
  type CreatedKey,
  type CreateKeyInput,
  createKey,
  type KeyNameInput,
  listKeys,
  revokeKey,
} from './keys.ts'
import {
  type CountPointsInput,
  countPoints,
  type FacetPointsInput,
  type Facets,
  type FoundPoint,
  facetPoints,
  getPoint,
  type ListAnswer,
  type ListPointsInput,
  listPoints,
} from './read-points.ts'
import {
  type SearchAnswer,
  type SearchPointsBatchInput,
  searchPoints,
  searchPointsBatch,
} from './search-points.ts'
import type { SearchInput } from './search-query.ts'
import type { PointInput } from './validation.ts'

/** One operation, which every transport offers under its own spelling. */
export type Operation<Input, Output> = (context: ApiContext, input: Input, call: Call) => Promise<Output>

/** The input and output of each operation, by its name in the protobuf service. */
export interface OperationTypes {
  InsertVector: { input: PointInput; output: string }
  InsertVectorsBatch: { input: InsertVectorsBatchInput; output: InsertedBatch }
  DeletePoint: { input: PointIdInput; output: boolean }
  GetPoint: { input: PointIdInput; output: FoundPoint }
  /** One list. */
  SearchPoints: { input: SearchInput; output: SearchAnswer }
  SearchPointsBatch: { input: SearchPointsBatchInput; output: SearchAnswer }
  PutPoint: { input: PutPointInput; output: WrittenPoint & { readonly created: boolean } }
  PatchPoint: { input: PatchPointInput; output: WrittenPoint }
  EvaluatePoints: { input: EvaluatePointsInput; output: EvaluatedPoints }
  ListPoints: { input: ListPointsInput; output: ListAnswer }
  CountPoints: { input: CountPointsInput; output: number }
  FacetPoints: { input: FacetPointsInput; output: Facets }
  UpdatePoints: { input: ChangeByFilterInput; output: Changed }
  DeletePoints: { input: ChangeByFilterInput; output: Changed }
  ListCollections: { input: undefined; output: readonly CountedCollection[] }
  GetCollection: { input: CollectionInput; output: CountedCollection }
  PutCollection: {
    input: PutCollectionInput
    output: { readonly created: boolean; readonly info: CountedCollection }
  }
  DeleteCollection: { input: CollectionInput; output: undefined }
  /** The output maps each alias to its collection. */
  SetAliases: { input: SetAliasesInput; output: ReadonlyMap<string, string> }
  /** The output is sent as a stream. */
  TakeSnapshot: { input: TakeSnapshotInput; output: TakenSnapshot }
  /** The same. */
  TakeChanges: { input: TakeChangesInput; output: TakenSnapshot }
  GetStats: { input: undefined; output: Stats }
  ListSlowRequests: { input: undefined; output: SlowRequestsAnswer }
  GetSettings: { input: undefined; output: readonly SettingInfo[] }
  ListAudit: { input: ListAuditInput; output: AuditPage }
  CreateKey: { input: CreateKeyInput; output: CreatedKey }
  ListKeys: { input: undefined; output: readonly KeyInfo[] }
  RevokeKey: { input: KeyNameInput; output: undefined }
  GetCluster: { input: undefined; output: ClusterStatus }
  RemoveNode: { input: NodeInput; output: undefined }
  DrainNode: { input: NodeInput; output: undefined }
  UndrainNode: { input: NodeInput; output: undefined }
  RefetchNode: { input: NodeInput; output: undefined }
  SetReplicas: { input: ReplicasInput; output: undefined }
}

export type OperationName = keyof OperationTypes

/** The operations that only HTTP offers. */
type HttpOnly =
  | ('TakeSnapshot' | 'TakeChanges' | 'GetStats' | 'ListSlowRequests' | 'GetSettings')
  | ('GetCluster' | 'RemoveNode' | 'DrainNode' | 'UndrainNode' | 'RefetchNode' | 'SetReplicas')

/** The operations of the protobuf service. */
export type GrpcOperationName = Exclude<OperationName, HttpOnly>

/** Whether the output is sent as a stream. */
export function isStreamed(name: string): boolean {
  return name === 'TakeSnapshot' || name === 'TakeChanges'
}

/** What all transports do with an operation, said once. */
export interface OperationRow<Name extends OperationName> {
  readonly run: Operation<OperationTypes[Name]['input'], OperationTypes[Name]['output']>
  /** The role that a caller's key needs. */
  readonly role: Role
  /**
   * Which restricted keys may call it: those for some collections, or also those with a filter. It then concerns only
   * what the key may use. Absent: none may.
   */
  readonly within?: 'collections' | 'filter'
  /**
   * What it concerns: the points of one collection, which the call names, collections themselves, this service, or the
   * cluster of a node.
   */
  readonly concerns: 'points' | 'collections' | 'service' | 'cluster'
  /**
   * How a node of a cluster lets it in, if not as its role says. A read waits until the node is as up to date as the
   * call asks; `now` shows the node as it is.
   */
  readonly admission?: 'read' | 'now'
  /**
   * Where a slow call is described, for the list of slow requests; absent: it is not kept. Only those that look for
   * points are: inserts wait for the disk, and large ones always take long; they would displace every slow search.
   */
  readonly describedBy?: 'input' | 'output'
}

/** The list of operations: transports loop over it, and a test checks that they do. */
export const operations: { readonly [Name in OperationName]: OperationRow<Name> } = {
  InsertVector: { run: insertVector, role: 'write', within: 'filter', concerns: 'points' },
  InsertVectorsBatch: { run: insertVectorsBatch, role: 'write', within: 'filter', concerns: 'points' },
  DeletePoint: { run: deletePoint, role: 'write', within: 'filter', concerns: 'points' },
  GetPoint: { run: getPoint, role: 'read', within: 'filter', concerns: 'points' },
  SearchPoints: {
    run: searchPoints,
    role: 'read',
    within: 'filter',
    concerns: 'points',
    describedBy: 'output',
  },
  SearchPointsBatch: {
    run: searchPointsBatch,
    role: 'read',
    within: 'filter',
    concerns: 'points',
    describedBy: 'output',
  },
  EvaluatePoints: {
    run: evaluatePoints,
    role: 'read',
    within: 'filter',
    concerns: 'points',
    describedBy: 'input',
  },
  PutPoint: { run: putPoint, role: 'write', within: 'filter', concerns: 'points' },
  PatchPoint: { run: patchPoint, role: 'write', within: 'filter', concerns: 'points' },
  ListPoints: { run: listPoints, role: 'read', within: 'filter', concerns: 'points', describedBy: 'input' },
  CountPoints: { run: countPoints, role: 'read', within: 'filter', concerns: 'points', describedBy: 'input' },
  FacetPoints: { run: facetPoints, role: 'read', within: 'filter', concerns: 'points', describedBy: 'input' },
  UpdatePoints: {
    run: updatePoints,
    role: 'write',
    within: 'filter',
    concerns: 'points',
    describedBy: 'input',
  },
  DeletePoints: {
    run: deletePoints,
    role: 'write',
    within: 'filter',
    concerns: 'points',
    describedBy: 'input',
  },
  ListCollections: { run: listCollections, role: 'read', within: 'filter', concerns: 'collections' },
  GetCollection: { run: getCollection, role: 'read', within: 'filter', concerns: 'collections' },
  PutCollection: { run: putCollection, role: 'write', within: 'collections', concerns: 'collections' },
  DeleteCollection: { run: deleteCollection, role: 'write', within: 'collections', concerns: 'collections' },
  SetAliases: { run: setAliases, role: 'write', within: 'collections', concerns: 'collections' },
  TakeSnapshot: { run: takeSnapshot, role: 'write', within: 'filter', concerns: 'points', admission: 'read' },
  TakeChanges: { run: takeChanges, role: 'write', concerns: 'service', admission: 'now' },
  GetStats: { run: getStats, role: 'read', within: 'collections', concerns: 'points', admission: 'now' },
  ListSlowRequests: { run: listSlowRequests, role: 'read', concerns: 'service', admission: 'now' },
  GetSettings: { run: getSettings, role: 'read', concerns: 'service', admission: 'now' },
  ListAudit: { run: listAudit, role: 'admin', concerns: 'service', admission: 'now' },
  CreateKey: { run: createKey, role: 'admin', concerns: 'service', admission: 'now' },
  ListKeys: { run: listKeys, role: 'admin', concerns: 'service', admission: 'now' },
  RevokeKey: { run: revokeKey, role: 'admin', concerns: 'service', admission: 'now' },
  GetCluster: { run: getCluster, role: 'read', concerns: 'cluster', admission: 'now' },
  RemoveNode: { run: removeNode, role: 'admin', concerns: 'cluster', admission: 'now' },
  DrainNode: { run: drainNode, role: 'admin', concerns: 'cluster', admission: 'now' },
  UndrainNode: { run: undrainNode, role: 'admin', concerns: 'cluster', admission: 'now' },
  RefetchNode: { run: refetchNode, role: 'admin', concerns: 'cluster', admission: 'now' },
  SetReplicas: { run: setReplicas, role: 'admin', concerns: 'cluster', admission: 'now' },
}
