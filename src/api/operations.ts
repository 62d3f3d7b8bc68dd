import type { IdLists } from '../base/id-lists.ts'
import type { Point } from '../base/point.ts'
import type { ApiContext, Call } from './call.ts'
import { deletePoint, type PointIdInput } from './delete-point.ts'
import { getPoint } from './get-point.ts'
import { insertVector } from './insert-vector.ts'
import { type InsertVectorsBatchInput, insertVectorsBatch } from './insert-vectors-batch.ts'
import { searchPoints } from './search-points.ts'
import { type SearchPointsBatchInput, searchPointsBatch } from './search-points-batch.ts'
import type { PointInput, SearchInput } from './validation.ts'

/** One operation: what every transport offers under its own spelling. */
export type Operation<Input, Output> = (context: ApiContext, input: Input, call: Call) => Promise<Output>

/** What each operation takes and gives, by its name in the protobuf service. */
export interface OperationTypes {
  InsertVector: { input: PointInput; output: string }
  InsertVectorsBatch: { input: InsertVectorsBatchInput; output: readonly string[] }
  DeletePoint: { input: PointIdInput; output: boolean }
  GetPoint: { input: PointIdInput; output: Point }
  /** One list. */
  SearchPoints: { input: SearchInput; output: IdLists }
  SearchPointsBatch: { input: SearchPointsBatchInput; output: IdLists }
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
}

export const operationNames: readonly OperationName[] = Object.keys(operations) as OperationName[]
