import type { ApiContext, Call } from './call.ts'
import { checkBatch, checkQuery, type SearchInput } from './validation.ts'

export interface SearchPointsBatchInput {
  /** Gone through once. */
  readonly queries?: Iterable<SearchInput> | undefined
}

/**
 * Answers each query as a single search would, in the order of the queries; an empty batch has no answers.
 * Fails with `invalid_argument`, naming the first bad query; then nothing is searched.
 */
export async function searchPointsBatch(
  context: ApiContext,
  input: SearchPointsBatchInput,
  call: Call,
): Promise<readonly (readonly string[])[]> {
  const { database, limits } = context
  const queries = checkBatch(input.queries, 'queries', (item, path) =>
    checkQuery(item, database.dimension, limits, path, call.fields.queryVector),
  )
  return queries.length === 0 ? [] : database.search(queries, call.signal)
}
