import { IdLists, joinResults, type SearchResults } from '../base/id-lists.ts'
import { idBytes } from '../base/ids.ts'
import type { ShapedQuery } from './answer-shape.ts'
import type { ApiContext, Call } from './call.ts'
import { checkQuery, type SearchInput } from './search-query.ts'
import { searchShaped } from './shaped-search.ts'
import { embedQueries, embedText, type QueryText, textOfQuery } from './texts.ts'
import { type BatchItems, checkBatch, recheckDimension } from './validation.ts'

export interface SearchPointsBatchInput {
  readonly queries?: BatchItems<SearchInput> | undefined
}

/**
 * Answers each query as a single search would. Returns one list per query, in the order of the queries.
 * Fails with `invalid_argument`, naming the first bad query; then nothing is searched.
 */
export async function searchPointsBatch(
  context: ApiContext,
  input: SearchPointsBatchInput,
  call: Call,
): Promise<SearchAnswer> {
  const { database, embeddings, limits, reranker } = context
  // The same one for all queries: an insert can meanwhile decide it.
  const { dimension } = database
  const { fields } = call
  const texts: QueryText[] = []
  let at = 0
  const check = (item: SearchInput, path: string): ShapedQuery => {
    const text = textOfQuery(item, embeddings, path, fields)
    if (text !== undefined) texts.push({ at, text, path: `${path}text` })
    at += 1
    return checkQuery(item, { dimension, limits, reranker }, path, fields)
  }
  const queries = await checkBatch(input.queries, 'queries', check, call.signal)
  await embedQueries(context, texts, call.signal, (at, vector) => {
    queries[at] = { ...queries[at]!, vector }
  })
  const pathOf = (index: number): string => `queries[${index}].${fields.queryVector}`
  recheckDimension(queries, dimension, database.dimension, pathOf)
  return { queries, results: queries.length === 0 ? nothing : await searchAll(context, queries, call) }
}

/** Answers queries together, except for those that shape their answer. */
async function searchAll(
  context: ApiContext,
  queries: readonly ShapedQuery[],
  call: Call,
): Promise<SearchResults> {
  const plain = queries.filter(({ shape }) => shape === undefined)
  if (plain.length === queries.length) return await context.database.search(queries, call)
  const lists: SearchResults[] = []
  const results = plain.length === 0 ? nothing : await context.database.search(plain, call)
  let at = 0
  for (const query of queries) {
    if (query.shape === undefined) lists.push(listOf(results, at++))
    else lists.push(await searchShaped(context, query, call))
  }
  return joinResults(lists)
}

/** Returns one list of several. */
function listOf(
  { ids, distances, sequences, details, profiles, plans, nextCursors }: SearchResults,
  list: number,
): SearchResults {
  const [start, end] = [ids.startOf(list), ids.endOf(list)]
  return {
    ids: new IdLists(ids.bytes.subarray(start * idBytes, end * idBytes), [end - start]),
    distances: distances.subarray(start, end),
    sequences: sequences.subarray(start, end),
    details: [details[list]],
    profiles: [profiles[list]],
    plans: [plans[list]],
    ...(nextCursors !== undefined && { nextCursors: [nextCursors[list]] }),
  }
}

const nothing: SearchResults = {
  ids: IdLists.of([]),
  distances: new Float64Array(0),
  sequences: new Float64Array(0),
  details: [],
  profiles: [],
  plans: [],
}

/**
 * Returns the `limit` nearest points by the query's metric as a single list, nearest first, and equal distances in the
 * order of insertion. The list is shorter if fewer points match.
 */
export async function searchPoints(
  context: ApiContext,
  input: SearchInput,
  call: Call,
): Promise<SearchAnswer> {
  const { database, embeddings, limits, reranker } = context
  const text = textOfQuery(input, embeddings, '', call.fields)
  const { dimension } = database
  const query = checkQuery(input, { dimension, limits, reranker }, '', call.fields)
  const queries =
    text === undefined ? [query] : [{ ...query, vector: await embedText(context, text, 'text', call.signal) }]
  return { queries, results: await searchAll(context, queries, call) }
}

/** The results of searches with their queries, which determine the parts of the results that the answer has. */
export interface SearchAnswer {
  readonly queries: readonly ShapedQuery[]
  readonly results: SearchResults
}

/** Whether the answer has more than ids. */
export function hasDetails({ queries }: SearchAnswer): boolean {
  return queries.some(
    ({ include, profile, cursor, shape }) =>
      include !== undefined || profile === true || cursor !== undefined || shape?.groupBy !== undefined,
  )
}
