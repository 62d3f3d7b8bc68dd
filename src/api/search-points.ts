import { DatabaseError } from '../base/errors.ts'
import { IdLists } from '../base/id-lists.ts'
import type { SearchQuery, SearchResults } from '../base/point.ts'
import type { ApiContext, Call } from './call.ts'
import { embedText, embedTexts, type PlacedText, textOfQuery } from './texts.ts'
import { type BatchItems, checkBatch, checkQuery, recheckDimension, type SearchInput } from './validation.ts'

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
  const { database, limits, embeddings } = context
  const { dimension } = database
  const { fields } = call
  const texts: QueryText[] = []
  let at = 0
  const check = (item: SearchInput, path: string): SearchQuery => {
    const text = textOfQuery(item, embeddings, path, fields)
    if (text !== undefined) texts.push({ at, text, path: `${path}text` })
    at += 1
    return checkQuery(item, dimension, limits, path, fields)
  }
  const queries = await checkBatch(input.queries, 'queries', check, call.signal)
  await embedQueries(context, queries, texts, call)
  const pathOf = (index: number): string => `queries[${index}].${fields.queryVector}`
  recheckDimension(queries, dimension, database.dimension, pathOf)
  return { queries, results: queries.length === 0 ? nothing : await database.search(queries, call) }
}

/** `at` is the index of the text's query. */
type QueryText = PlacedText & { readonly at: number }

/** Embeds the texts and puts their vectors into their queries. */
async function embedQueries(
  context: ApiContext,
  queries: SearchQuery[],
  texts: readonly QueryText[],
  { signal }: Call,
): Promise<void> {
  const vectors = await embedTexts(context, texts, signal)
  for (const [index, vector] of vectors.entries()) {
    if (vector instanceof DatabaseError) throw vector
    const { at } = texts[index]!
    queries[at] = { ...queries[at]!, vector }
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
  const { database, limits, embeddings } = context
  const text = textOfQuery(input, embeddings, '', call.fields)
  const query = checkQuery(input, database.dimension, limits, '', call.fields)
  const queries =
    text === undefined ? [query] : [{ ...query, vector: await embedText(context, text, 'text', call.signal) }]
  return { queries, results: await database.search(queries, call) }
}

/** The results of searches with their queries, which determine the parts of the results that the answer has. */
export interface SearchAnswer {
  readonly queries: readonly SearchQuery[]
  readonly results: SearchResults
}

/** Whether the answer has more than ids. */
export function hasDetails({ queries }: SearchAnswer): boolean {
  return queries.some(
    ({ include, profile, cursor }) => include !== undefined || profile === true || cursor !== undefined,
  )
}
