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
  type CreatedKey,
  type CreateKeyInput,
  createKey,
  drainNode,
  getCluster,
  getSettings,
  getStats,
  type KeyNameInput,
  type ListAuditInput,
  listAudit,
  listKeys,
  listSlowRequests,
  type NodeInput,
  type ReplicasInput,
  refetchNode,
  removeNode,
  revokeKey,
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
  type SearchInput,
  type SearchPointsBatchInput,
  searchPoints,
  searchPointsBatch,
} from './search-points.ts'
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
  /** Whether quotas of searches count it. */
  readonly isSearch?: true
  /** Whether its output is sent as a stream. */
  readonly isStreamed?: true
}

type Shared = Omit<OperationRow<OperationName>, 'run'>

const reads: Shared = { role: 'read', within: 'filter', concerns: 'points' }
const writes: Shared = { ...reads, role: 'write' }
const changesCollections: Shared = { role: 'write', within: 'collections', concerns: 'collections' }
const ofService: Shared = { role: 'read', concerns: 'service', admission: 'now' }
const ofAdmins: Shared = { ...ofService, role: 'admin' }
const ofCluster: Shared = { ...ofAdmins, concerns: 'cluster' }

/** The list of operations: transports loop over it, and a test checks that they do. */
export const operations: { readonly [Name in OperationName]: OperationRow<Name> } = {
  InsertVector: { run: insertVector, ...writes },
  InsertVectorsBatch: { run: insertVectorsBatch, ...writes },
  DeletePoint: { run: deletePoint, ...writes },
  GetPoint: { run: getPoint, ...reads },
  SearchPoints: { run: searchPoints, ...reads, describedBy: 'output', isSearch: true },
  SearchPointsBatch: { run: searchPointsBatch, ...reads, describedBy: 'output', isSearch: true },
  EvaluatePoints: { run: evaluatePoints, ...reads, describedBy: 'input', isSearch: true },
  PutPoint: { run: putPoint, ...writes },
  PatchPoint: { run: patchPoint, ...writes },
  ListPoints: { run: listPoints, ...reads, describedBy: 'input' },
  CountPoints: { run: countPoints, ...reads, describedBy: 'input' },
  FacetPoints: { run: facetPoints, ...reads, describedBy: 'input' },
  UpdatePoints: { run: updatePoints, ...writes, describedBy: 'input' },
  DeletePoints: { run: deletePoints, ...writes, describedBy: 'input' },
  ListCollections: { run: listCollections, ...reads, concerns: 'collections' },
  GetCollection: { run: getCollection, ...reads, concerns: 'collections' },
  PutCollection: { run: putCollection, ...changesCollections },
  DeleteCollection: { run: deleteCollection, ...changesCollections },
  SetAliases: { run: setAliases, ...changesCollections },
  TakeSnapshot: { run: takeSnapshot, ...writes, admission: 'read', isStreamed: true },
  TakeChanges: { run: takeChanges, ...ofService, role: 'write', isStreamed: true },
  GetStats: { run: getStats, ...reads, within: 'collections', admission: 'now' },
  ListSlowRequests: { run: listSlowRequests, ...ofService },
  GetSettings: { run: getSettings, ...ofService },
  ListAudit: { run: listAudit, ...ofAdmins },
  CreateKey: { run: createKey, ...ofAdmins },
  ListKeys: { run: listKeys, ...ofAdmins },
  RevokeKey: { run: revokeKey, ...ofAdmins },
  GetCluster: { run: getCluster, ...ofCluster, role: 'read' },
  RemoveNode: { run: removeNode, ...ofCluster },
  DrainNode: { run: drainNode, ...ofCluster },
  UndrainNode: { run: undrainNode, ...ofCluster },
  RefetchNode: { run: refetchNode, ...ofCluster },
  SetReplicas: { run: setReplicas, ...ofCluster },
}
