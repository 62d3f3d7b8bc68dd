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

/** The list of operations: both transports loop over it, and a test checks that they do. */
export const operations: {
  readonly [Name in OperationName]: Operation<OperationTypes[Name]['input'], OperationTypes[Name]['output']>
} = {
  InsertVector: insertVector,
  InsertVectorsBatch: insertVectorsBatch,
  DeletePoint: deletePoint,
  GetPoint: getPoint,
  SearchPoints: searchPoints,
  SearchPointsBatch: searchPointsBatch,
  PutPoint: putPoint,
  PatchPoint: patchPoint,
  ListPoints: listPoints,
  CountPoints: countPoints,
  FacetPoints: facetPoints,
  UpdatePoints: updatePoints,
  DeletePoints: deletePoints,
  ListCollections: listCollections,
  GetCollection: getCollection,
  PutCollection: putCollection,
  DeleteCollection: deleteCollection,
  SetAliases: setAliases,
}

export const operationNames: readonly OperationName[] = Object.keys(operations) as OperationName[]

/** The operations on the points of one collection, which the call names; the others are on collections themselves. */
export const pointOperations: readonly OperationName[] = [
  'InsertVector',
  'InsertVectorsBatch',
  'DeletePoint',
  'GetPoint',
  'SearchPoints',
  'SearchPointsBatch',
  'PutPoint',
  'PatchPoint',
  'ListPoints',
  'CountPoints',
  'FacetPoints',
  'UpdatePoints',
  'DeletePoints',
]

/**
 * The role that each operation needs. Everything that is not listed here, such as snapshots, needs the role `write`.
 */
export const operationRoles: Readonly<Record<OperationName, Role>> = {
  InsertVector: 'write',
  InsertVectorsBatch: 'write',
  DeletePoint: 'write',
  GetPoint: 'read',
  SearchPoints: 'read',
  SearchPointsBatch: 'read',
  PutPoint: 'write',
  PatchPoint: 'write',
  ListPoints: 'read',
  CountPoints: 'read',
  FacetPoints: 'read',
  UpdatePoints: 'write',
  DeletePoints: 'write',
  ListCollections: 'read',
  GetCollection: 'read',
  PutCollection: 'write',
  DeleteCollection: 'write',
  SetAliases: 'write',
}

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
