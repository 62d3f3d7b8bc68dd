import { IdLists } from '../base/id-lists.ts'
import type { VectorQuery } from '../base/point.ts'
import type { ApiContext, Call } from './call.ts'
import { type BatchItems, checkBatch, checkQuery, recheckDimension, type SearchInput } from './validation.ts'

export interface SearchPointsBatchInput {
  readonly queries?: BatchItems<SearchInput> | undefined
}

/**
 * Answers each query as a single search would, with one list for each, in the order of the queries; none for an empty batch.
 * Fails with `invalid_argument`, naming the first bad query; then nothing is searched.
 */
export async function searchPointsBatch(
  context: ApiContext,
  input: SearchPointsBatchInput,
  call: Call,
): Promise<IdLists> {
  const { database, limits } = context
  const { dimension } = database
  const { queryVector } = call.fields
  const check = (item: SearchInput, path: string): VectorQuery =>
    checkQuery(item, dimension, limits, path, queryVector)
  const queries = await checkBatch(input.queries, 'queries', check, call.signal)
  recheckDimension(queries, dimension, database.dimension, (index) => `queries[${index}].${queryVector}`)
  return queries.length === 0 ? IdLists.of([]) : (await database.search(queries, call.signal)).ids
}
