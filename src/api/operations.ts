import type { ApiKey, Role } from '../base/api-key.ts'
import { DatabaseError } from '../base/errors.ts'
import type { ApiContext, Call } from './call.ts'
import { type ChangeByFilterInput, type Changed, deletePoints, updatePoints } from './change-by-filter.ts'
import {
  deletePoint,
  type PatchPointInput,
  type PointIdInput,
  type PutPointInput,
  patchPoint,
  putPoint,
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
import {
  type InsertedBatch,
  type InsertVectorsBatchInput,
  insertVector,
  insertVectorsBatch,
} from './insert-points.ts'
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
import type { PointInput, SearchInput } from './validation.ts'

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
}

export type OperationName = keyof OperationTypes

/** What all transports do with an operation, said once. */
export interface OperationRow<Name extends OperationName> {
  readonly run: Operation<OperationTypes[Name]['input'], OperationTypes[Name]['output']>
  /** The role that a caller's key needs. Everything that is not an operation, such as a snapshot, needs `write`. */
  readonly role: Role
  /** Whether it concerns the points of one collection, which the call names, or collections themselves. */
  readonly concerns: 'points' | 'collections'
  /**
   * Where a slow call is described, for the list of slow requests; absent: it is not kept. Only those that look for
   * points are: inserts wait for the disk, and large ones always take long; they would displace every slow search.
   */
  readonly describedBy?: 'input' | 'output'
}

/** The list of operations: both transports loop over it, and a test checks that they do. */
export const operations: { readonly [Name in OperationName]: OperationRow<Name> } = {
  InsertVector: { run: insertVector, role: 'write', concerns: 'points' },
  InsertVectorsBatch: { run: insertVectorsBatch, role: 'write', concerns: 'points' },
  DeletePoint: { run: deletePoint, role: 'write', concerns: 'points' },
  GetPoint: { run: getPoint, role: 'read', concerns: 'points' },
  SearchPoints: { run: searchPoints, role: 'read', concerns: 'points', describedBy: 'output' },
  SearchPointsBatch: { run: searchPointsBatch, role: 'read', concerns: 'points', describedBy: 'output' },
  PutPoint: { run: putPoint, role: 'write', concerns: 'points' },
  PatchPoint: { run: patchPoint, role: 'write', concerns: 'points' },
  ListPoints: { run: listPoints, role: 'read', concerns: 'points', describedBy: 'input' },
  CountPoints: { run: countPoints, role: 'read', concerns: 'points', describedBy: 'input' },
  FacetPoints: { run: facetPoints, role: 'read', concerns: 'points', describedBy: 'input' },
  UpdatePoints: { run: updatePoints, role: 'write', concerns: 'points', describedBy: 'input' },
  DeletePoints: { run: deletePoints, role: 'write', concerns: 'points', describedBy: 'input' },
  ListCollections: { run: listCollections, role: 'read', concerns: 'collections' },
  GetCollection: { run: getCollection, role: 'read', concerns: 'collections' },
  PutCollection: { run: putCollection, role: 'write', concerns: 'collections' },
  DeleteCollection: { run: deleteCollection, role: 'write', concerns: 'collections' },
  SetAliases: { run: setAliases, role: 'write', concerns: 'collections' },
}

export const operationNames: readonly OperationName[] = Object.keys(operations) as OperationName[]

export function allows({ role }: ApiKey, needed: Role): boolean {
  return role === 'write' || needed === 'read'
}

/** @param what the transport's name for the request */
export function permissionDenied({ name }: ApiKey, what: string): DatabaseError {
  return new DatabaseError(
    'permission_denied',
    `the key ${name} may only read: ${what} needs one with the role write`,
  )
}
