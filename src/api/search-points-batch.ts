import { IdLists } from '../base/id-lists.ts'
import type { SearchQuery } from '../base/point.ts'
import type { SearchResults } from '../base/search-results.ts'
import type { ApiContext, Call } from './call.ts'
import type { SearchAnswer } from './search-answer.ts'
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
): Promise<SearchAnswer> {
  const { database, limits } = context
  const { dimension } = database
  const { fields } = call
  const check = (item: SearchInput, path: string): SearchQuery =>
    checkQuery(item, dimension, limits, path, fields)
  const queries = await checkBatch(input.queries, 'queries', check, call.signal)
  const pathOf = (index: number): string => `queries[${index}].${fields.queryVector}`
  recheckDimension(queries, dimension, database.dimension, pathOf)
  return { queries, results: queries.length === 0 ? nothing : await database.search(queries, call.signal) }
}

const nothing: SearchResults = {
  ids: IdLists.of([]),
  distances: new Float64Array(0),
  details: [],
  profiles: [],
}
