import type { ApiContext, Call } from './call.ts'
import type { SearchAnswer } from './search-answer.ts'
import { embedText, textOfQuery } from './texts.ts'
import { checkQuery, type SearchInput } from './validation.ts'

/**
 * Returns the `limit` nearest points by the query's metric as a single list, nearest first, and equal distances in the
 * order of insertion. The list is shorter if fewer points match.
 */
export async function searchPoints(
  context: ApiContext,
  input: SearchInput,
  call: Call,
): Promise<SearchAnswer> {
  const { database, limits, embeddings } = context
  const text = textOfQuery(input, embeddings, '', call.fields)
  const query = checkQuery(input, database.dimension, limits, '', call.fields)
  const queries =
    text === undefined ? [query] : [{ ...query, vector: await embedText(context, text, 'text', call.signal) }]
  return { queries, results: await database.search(queries, call) }
}
