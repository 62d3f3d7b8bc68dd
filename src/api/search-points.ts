import type { IdLists } from '../base/id-lists.ts'
import type { ApiContext, Call } from './call.ts'
import { checkQuery, type SearchInput } from './validation.ts'

/**
 * Ids of the `limit` nearest points by the query's own metric, as a single list: nearest first, equal distances in
 * the order of insertion; fewer if there are fewer points.
 */
export async function searchPoints(context: ApiContext, input: SearchInput, call: Call): Promise<IdLists> {
  const query = checkQuery(input, context.database.dimension, context.limits, '', call.fields.queryVector)
  return (await context.database.search([query], call.signal)).ids
}
