import type { ApiContext, Call } from './call.ts'
import { checkQuery, type SearchInput } from './validation.ts'

/**
 * Ids of the `limit` nearest points by the query's own metric, closest first, equal distances in the order
 * of insertion; fewer when there are fewer points.
 */
export async function searchPoints(
  context: ApiContext,
  input: SearchInput,
  call: Call,
): Promise<readonly string[]> {
  const query = checkQuery(input, context.database.dimension, context.limits, '', call.fields.queryVector)
  const [ids] = await context.database.search([query], call.signal)
  return ids!
}
