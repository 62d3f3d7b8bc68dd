import type { ApiContext, Call } from './call.ts'
import type { SearchAnswer } from './search-answer.ts'
import { checkQuery, type SearchInput } from './validation.ts'

/**
 * The `limit` nearest points by the query's own metric, as a single list: nearest first, equal distances in
 * the order of insertion; fewer if there are fewer points that match.
 */
export async function searchPoints(
  context: ApiContext,
  input: SearchInput,
  call: Call,
): Promise<SearchAnswer> {
  const query = checkQuery(input, context.database.dimension, context.limits, '', call.fields)
  const queries = [query]
  return { queries, results: await context.database.search(queries, call.signal) }
}
