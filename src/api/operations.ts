import type { CollectionInfo } from '../base/collection.ts'
import type { IdLists } from '../base/id-lists.ts'
import type { Point } from '../base/point.ts'
import type { ApiContext, Call } from './call.ts'
import {
  type CollectionInput,
  deleteCollection,
  getCollection,
  listCollections,
  type PutCollectionInput,
  putCollection,
  type SetAliasesInput,
  setAliases,
} from './collections.ts'
import { deletePoint, type PointIdInput } from './delete-point.ts'
import { getPoint } from './get-point.ts'
import { insertVector } from './insert-vector.ts'
import { type InsertVectorsBatchInput, insertVectorsBatch } from './insert-vectors-batch.ts'
import { searchPoints } from './search-points.ts'
import { type SearchPointsBatchInput, searchPointsBatch } from './search-points-batch.ts'
import type { PointInput, SearchInput } from './validation.ts'

/** One operation: what every transport offers under its own spelling. */
export type Operation<Input, Output> = (context: ApiContext, input: Input, call: Call) => Promise<Output>

/** The input and output of each operation, by its name in the protobuf service. */
export interface OperationTypes {
  InsertVector: { input: PointInput; output: string }
  InsertVectorsBatch: { input: InsertVectorsBatchInput; output: readonly string[] }
  DeletePoint: { input: PointIdInput; output: boolean }
  GetPoint: { input: PointIdInput; output: Point }
  /** One list. */
  SearchPoints: { input: SearchInput; output: IdLists }
  SearchPointsBatch: { input: SearchPointsBatchInput; output: IdLists }
  ListCollections: { input: undefined; output: readonly CollectionInfo[] }
  GetCollection: { input: CollectionInput; output: CollectionInfo }
  PutCollection: {
    input: PutCollectionInput
    output: { readonly created: boolean; readonly info: CollectionInfo }
  }
  DeleteCollection: { input: CollectionInput; output: undefined }
  /** By alias, its collection. */
  SetAliases: { input: SetAliasesInput; output: ReadonlyMap<string, string> }
}

export type OperationName = keyof OperationTypes

/** The list of operations: both transports loop over it, and a test holds them to it. */
export const operations: {
  readonly [Name in OperationName]: Operation<OperationTypes[Name]['input'], OperationTypes[Name]['output']>
} = {
  InsertVector: insertVector,
  InsertVectorsBatch: insertVectorsBatch,
  DeletePoint: deletePoint,
  GetPoint: getPoint,
  SearchPoints: searchPoints,
  SearchPointsBatch: searchPointsBatch,
  ListCollections: listCollections,
  GetCollection: getCollection,
  PutCollection: putCollection,
  DeleteCollection: deleteCollection,
  SetAliases: setAliases,
}

export const operationNames: readonly OperationName[] = Object.keys(operations) as OperationName[]

/** The operations on the points of one collection, which a call can name; the others are about collections. */
export const pointOperations: readonly OperationName[] = [
  'InsertVector',
  'InsertVectorsBatch',
  'DeletePoint',
  'GetPoint',
  'SearchPoints',
  'SearchPointsBatch',
]
