import type { ApiContext, Call } from './call.ts'
import { type ChangeByFilterInput, type Changed, deletePoints, updatePoints } from './change-by-filter.ts'
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
import { type CountPointsInput, countPoints } from './count-points.ts'
import { deletePoint, type PointIdInput } from './delete-point.ts'
import { type FacetPointsInput, type Facets, facetPoints } from './facet-points.ts'
import { type FoundPoint, getPoint } from './get-point.ts'
import { insertVector } from './insert-vector.ts'
import {
  type InsertedBatch,
  type InsertVectorsBatchInput,
  insertVectorsBatch,
} from './insert-vectors-batch.ts'
import { type ListAnswer, type ListPointsInput, listPoints } from './list-points.ts'
import { type PatchPointInput, patchPoint } from './patch-point.ts'
import { type PutPointInput, putPoint, type WrittenPoint } from './put-point.ts'
import type { SearchAnswer } from './search-answer.ts'
import { searchPoints } from './search-points.ts'
import { type SearchPointsBatchInput, searchPointsBatch } from './search-points-batch.ts'
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
