import { invalid } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import { IdLists, joinResults, type SearchResults } from '../base/id-lists.ts'
import { idBytes } from '../base/ids.ts'
import {
  type AskedInclude,
  distanceMetrics,
  type Metric,
  pinnedHitsMax,
  type SearchQuery,
} from '../base/point.ts'
import { asksForShape, checkShape, hasExamples, type ShapedQuery, type ShapeInput } from './answer-shape.ts'
import type { ApiContext, Call, Database, FieldNames } from './call.ts'
import { searchShaped } from './shaped-search.ts'
import { embedQueries, embedText, type QueryText, textOfQuery } from './texts.ts'
import {
  type BatchItems,
  checkBatch,
  checkBetween,
  checkEf,
  checkEnum,
  checkId,
  checkInclude,
  checkLimit,
  checkVector,
  type EnumInput,
  type IntegerInput,
  noVector,
  recheckDimension,
  unembedded,
} from './validation.ts'

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

/** A search near `vector`, near the stored point `id`, near the embedding of `text`, or by words. */
export interface SearchInput extends ShapeInput {
  readonly vector?: Float32Array | undefined
  readonly text?: string | undefined
  readonly id?: string | undefined
  readonly similarity?: EnumInput | undefined
  readonly limit?: IntegerInput | undefined
  readonly ef?: IntegerInput | undefined
  /** Checked by the transport's reader. */
  readonly filter?: Filter | undefined
  readonly exact?: boolean | undefined
  readonly maxDistance?: number | undefined
  readonly include?: AskedInclude | undefined
  readonly profile?: boolean | undefined
  /** true: those of `text`. */
  readonly words?: string | boolean | undefined
  readonly balance?: number | undefined
  readonly cursor?: string | undefined
  /** The statistics of the words are of the points that match, which the transport's reader has checked. */
  readonly statistics?: StatisticsInput | undefined
}

export interface StatisticsInput {
  readonly filter?: Filter | undefined
}

/**
 * Checks a query. If it has a text, which `textOfQuery` has checked, its vector is `unembedded`.
 *
 * @param path of the query in the request: '' or like `queries[3].`
 * @param fields the transport's names
 */
export function checkQuery(
  input: SearchInput,
  { dimension, limits, reranker }: Pick<ApiContext, 'limits' | 'reranker'> & Pick<Database, 'dimension'>,
  path: string,
  fields: FieldNames,
): ShapedQuery {
  const isWordsAlone = hasWordsAlone(input)
  const vector = isWordsAlone ? noVector : checkTarget(input, dimension, path, fields)
  const metric = isWordsAlone
    ? 'Cosine'
    : checkEnum<Metric>(input.similarity, distanceMetrics, `${path}similarity`)
  const limit = checkLimit(input.limit, limits.maxLimit, `${path}limit`)
  const ef = Math.max(checkEf(input.ef, `${path}ef`) || limits.hnswEf, limit)
  const query: SearchQuery = { vector, metric, limit, ef }
  const more = asksForMore(input) ? { ...query, ...checkExtras(input, path) } : query
  const ranked = asksForWords(input) ? { ...more, ...checkWords(input, limit, path) } : more
  const isShaped = asksForShape(input) || (ranked.words === undefined && ranked.include?.scores === true)
  if (!isShaped) return ranked
  const hasTarget = !isWordsAlone && (vector !== noVector || input.text !== undefined)
  const text = input.text ?? ranked.words?.text
  const { maxLimit } = limits
  const hasCursor = ranked.cursor !== undefined
  const canRerank = reranker !== undefined
  return {
    ...ranked,
    shape: checkShape(input, path, { metric, limit, maxLimit, hasTarget, hasCursor, text, canRerank }),
  }
}

/** Whether a query has words, and nothing to search near. */
function hasWordsAlone(input: SearchInput): boolean {
  const { vector, id, text, words } = input
  const hasWords = words !== undefined && words !== false
  return hasWords && (vector ?? id ?? text) === undefined && !hasExamples(input)
}

function asksForWords({ words, balance, cursor, statistics, include }: SearchInput): boolean {
  return (
    (words !== undefined && words !== false) ||
    balance !== undefined ||
    cursor !== undefined ||
    statistics !== undefined ||
    include?.highlight === true
  )
}

function checkWords(input: SearchInput, limit: number, path: string): Pick<SearchQuery, 'words' | 'cursor'> {
  const { words, text: same, balance, cursor, statistics, include, maxDistance } = input
  if (words === undefined || words === false) {
    const given = Object.entries({ balance, cursor, statistics }).find(([, value]) => value !== undefined)
    const field = given?.[0] ?? 'include.highlight'
    throw invalid(`${path}${field} is given, it needs ${path}words`)
  }
  if (words === true && same === undefined) throw invalid(`${path}words is true, it needs ${path}text`)
  const text = words === true ? same! : words
  if (!/[\p{L}\p{N}]/u.test(text)) throw invalid(`${path}words has no word: it needs letters or digits`)
  if (text.length > queryTextMax) {
    throw invalid(`${path}words has ${text.length} characters, the maximum is ${queryTextMax}`)
  }
  if (cursor !== undefined && limit > pinnedHitsMax) {
    throw invalid(`${path}limit is ${limit}, with ${path}cursor it must be at most ${pinnedHitsMax}`)
  }
  const population = statistics?.filter
  if (statistics !== undefined && population === undefined) {
    throw invalid(`${path}statistics.filter is missing`)
  }
  if (hasWordsAlone(input)) {
    for (const [field, isGiven] of [
      ['balance', balance !== undefined],
      ['max_distance', maxDistance !== undefined],
      ['include.distance', include?.distance === true],
    ] as const) {
      if (isGiven) throw invalid(`${path}${field} is given, it needs a vector beside ${path}words`)
    }
    return { words: { text, balance: 0, population }, cursor }
  }
  const share = balance === undefined ? 0.5 : checkBetween(balance, `${path}balance`, 0, 1)
  return { words: { text, balance: share, population }, cursor }
}

/** Its words are looked up one by one. */
const queryTextMax = 10_000

/** Checks what to search near. */
function checkTarget(
  input: SearchInput,
  dimension: number | undefined,
  path: string,
  fields: FieldNames,
): Float32Array | string {
  if (input.text !== undefined) return unembedded
  if (input.id !== undefined) return checkNear(input, path, fields)
  // Their vector follows from the stored points.
  if (input.vector === undefined && hasExamples(input)) return noVector
  return checkVector(input.vector, dimension, `${path}${fields.queryVector}`)
}

/** Checks the id of the stored point to search near. */
function checkNear({ vector, id }: SearchInput, path: string, { queryVector, nearId }: FieldNames): string {
  if (vector === undefined) return checkId(id, `${path}${nearId}`)
  throw invalid(`${path}${queryVector} and ${path}${nearId} are both given: a query has one of them`)
}

function asksForMore({ filter, exact, maxDistance, include, profile }: SearchInput): boolean {
  return (
    filter !== undefined ||
    exact !== undefined ||
    maxDistance !== undefined ||
    include !== undefined ||
    profile !== undefined
  )
}

function checkExtras(
  { filter, exact, maxDistance, include, profile }: SearchInput,
  path: string,
): Pick<SearchQuery, 'filter' | 'exact' | 'maxDistance' | 'include' | 'profile'> {
  if (maxDistance !== undefined && !(maxDistance >= 0 && maxDistance < Number.POSITIVE_INFINITY)) {
    throw invalid(`${path}max_distance is ${maxDistance}, it must be a finite number, 0 or greater`)
  }
  return {
    filter,
    exact,
    maxDistance,
    include: include === undefined ? undefined : checkInclude(include, `${path}include`),
    profile,
  }
}
