import { invalid } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import {
  type AskedInclude,
  distanceMetrics,
  type Metric,
  pinnedHitsMax,
  type SearchQuery,
} from '../base/point.ts'
import { asksForShape, checkShape, hasExamples, type ShapedQuery, type ShapeInput } from './answer-shape.ts'
import type { ApiContext, Database, FieldNames } from './call.ts'
import {
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
  unembedded,
} from './validation.ts'

/** The checks of a query, as `validation.ts` has them of everything else. */

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
