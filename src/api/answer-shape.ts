import { checkPath } from '../base/attributes.ts'
import { type DatabaseError, invalid } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import { type Metric, onErrorRules, rerankMax, type SearchQuery } from '../base/point.ts'
import {
  checkBetween,
  checkEnum,
  checkId,
  checkWhole,
  type EnumInput,
  type IntegerInput,
} from './validation.ts'

/** How a query shapes its answer: boosts, examples, a reranker, diversity and groups. */

export interface ShapeInput {
  readonly boost?: readonly BoostInput[] | undefined
  /** Ids of points to search near, together with the vector if there is one. */
  readonly like?: readonly string[] | undefined
  readonly unlike?: readonly string[] | undefined
  readonly diversity?: number | undefined
  readonly groupBy?: GroupByInput | undefined
  /** How many of the best points the endpoint ranks anew. */
  readonly rerank?: IntegerInput | undefined
  /** What to do if the endpoint fails. */
  readonly onError?: EnumInput | undefined
}

export interface BoostInput {
  readonly weight?: number | undefined
  /** Checked by the transport's reader. */
  readonly filter?: Filter | undefined
  readonly recent?: RecentInput | undefined
}

export interface RecentInput {
  readonly path?: string | undefined
  /** Like `14d`. */
  readonly halfLife?: string | undefined
}

export interface GroupByInput {
  readonly path?: string | undefined
  readonly size?: IntegerInput | undefined
}

/** A checked shape. */
export interface AnswerShape {
  readonly boosts: readonly Boost[]
  readonly like: readonly string[]
  readonly unlike: readonly string[]
  /** 0 for none. */
  readonly diversity: number
  readonly groupBy: { readonly path: string; readonly size: number } | undefined
  readonly rerank: { readonly count: number; readonly text: string; readonly skips: boolean } | undefined
}

/** Weights are negative for points that shall come later. */
type Boost = { readonly weight: number } & (
  | { readonly filter: Filter }
  | { readonly path: string; readonly halfLifeUs: number }
)

export interface ShapedQuery extends SearchQuery {
  /** Undefined: the answer is the engine's. */
  readonly shape?: AnswerShape | undefined
}

/** Whether a query asks for anything of the above. */
export function asksForShape(input: ShapeInput): boolean {
  const { boost, like, unlike, diversity, groupBy, rerank, onError } = input
  return [boost, like, unlike, diversity, groupBy, rerank, onError].some((each) => each !== undefined)
}

/** Whether a query has examples, which are as good as a vector. */
export function hasExamples({ like, unlike }: ShapeInput): boolean {
  return (like?.length ?? 0) + (unlike?.length ?? 0) > 0
}

/** What the checks of a shape need of its query. */
interface ShapeFacts {
  readonly metric: Metric
  readonly limit: number
  readonly maxLimit: number
  /** Whether there is a vector, a text or an id to search near. */
  readonly hasTarget: boolean
  /** Whether it asks for pages. */
  readonly hasCursor: boolean
  /** What the reranker compares with; undefined for a query without text and words. */
  readonly text: string | undefined
  /** Whether the service has a reranking endpoint. */
  readonly canRerank: boolean
}

/** @param path of the query in the request: '' or like `queries[3].` */
export function checkShape(input: ShapeInput, path: string, facts: ShapeFacts): AnswerShape {
  const { boost = [], diversity = 0, groupBy, rerank, onError } = input
  const { metric, limit, maxLimit, hasTarget, hasCursor, text, canRerank } = facts
  if (hasCursor) {
    throw invalid(
      `${path}cursor and ${path}${firstFieldOf(input)} are both given: a shaped answer has one page`,
    )
  }
  const like = checkExamples(input.like, `${path}like`)
  const unlike = checkExamples(input.unlike, `${path}unlike`)
  if (unlike.length > 0 && like.length === 0 && !hasTarget) {
    throw invalid(`${path}unlike is given, it needs something to search near: a vector, or ${path}like`)
  }
  if (like.length + unlike.length > 0 && metric === 'Hamming') {
    throw invalid(
      `${path}${like.length > 0 ? 'like' : 'unlike'} is given, with it ${path}similarity must be Euclidean, Manhattan or Cosine, not Hamming`,
    )
  }
  if (onError !== undefined && rerank === undefined) {
    throw invalid(`${path}on_error is given, it needs ${path}rerank`)
  }
  if (rerank !== undefined && !canRerank) {
    throw invalid(`${path}rerank is given, the service has no reranker: set RERANK_URL and RERANK_MODEL`)
  }
  if (rerank !== undefined && text === undefined) {
    throw invalid(`${path}rerank is given, it needs ${path}words or ${path}text to compare points with`)
  }
  return {
    boosts: boost.map((each, index) => checkBoost(each, `${path}boost[${index}]`)),
    like,
    unlike,
    diversity: checkBetween(diversity, `${path}diversity`, 0, 1),
    groupBy: groupBy && checkGroupBy(groupBy, path, limit, maxLimit),
    rerank:
      rerank === undefined
        ? undefined
        : {
            count: checkWhole(rerank, `${path}rerank`, {
              min: Math.min(groupBy === undefined ? limit : 1, rerankMax),
              max: rerankMax,
            }),
            text: text!,
            skips: onError !== undefined && checkEnum(onError, onErrorRules, `${path}on_error`) === 'skip',
          },
  }
}

function firstFieldOf({ boost, like, unlike, diversity, groupBy, rerank }: ShapeInput): string {
  const fields = Object.entries({ boost, like, unlike, diversity, group_by: groupBy, rerank })
  return fields.find(([, value]) => value !== undefined)?.[0] ?? 'on_error'
}

function checkExamples(ids: readonly string[] | undefined, at: string): readonly string[] {
  if (ids === undefined) return []
  if (ids.length > examplesMax) throw tooManyExamples(at)
  return ids.map((id, index) => checkId(id, `${at}[${index}]`))
}

export function tooManyBoosts(at: string): DatabaseError {
  return invalid(`${at} has more than ${boostsMax} items`)
}

export function tooManyExamples(at: string): DatabaseError {
  return invalid(`${at} has more than ${examplesMax} ids`)
}

function checkBoost({ weight, filter, recent }: BoostInput, at: string): Boost {
  if (weight === undefined) throw invalid(`${at}.weight is missing, it must be a number from -100 to 100`)
  checkBetween(weight, `${at}.weight`, -weightMax, weightMax)
  if ((filter === undefined) === (recent === undefined)) {
    throw invalid(
      `${at} has ${filter === undefined ? 'neither filter nor recent' : 'both filter and recent'}, it must have one of them`,
    )
  }
  if (filter !== undefined) return { weight, filter }
  const { path, halfLife } = recent!
  if (path === undefined || path === '') throw invalid(`${at}.recent.path is missing`)
  return {
    weight,
    path: checkPath(path, `${at}.recent.path`),
    halfLifeUs: checkDuration(halfLife, `${at}.recent.half_life`),
  }
}

function checkDuration(duration: string | undefined, at: string): number {
  const [, digits, unit] = /^(\d{1,9}(?:\.\d{1,3})?)([smhdw])$/.exec(duration ?? '') ?? []
  const seconds = Number(digits) * (secondsOf[unit ?? ''] ?? Number.NaN)
  if (seconds > 0) return seconds * 1e6
  const fault = duration === undefined ? 'is missing' : `is ${JSON.stringify(duration.slice(0, 64))}`
  throw invalid(`${at} ${fault}, it must be a positive number and one of s, m, h, d and w, like 14d`)
}

const secondsOf: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 }

function checkGroupBy(
  { path, size = 1 }: GroupByInput,
  query: string,
  limit: number,
  maxLimit: number,
): NonNullable<AnswerShape['groupBy']> {
  const at = `${query}group_by`
  if (path === undefined || path === '') throw invalid(`${at}.path is missing`)
  const checked = checkWhole(size, `${at}.size`, { min: 1, max: groupSizeMax })
  if (limit > groupsMax) {
    throw invalid(`${query}limit is ${limit}, with ${at} it must be at most ${groupsMax}`)
  }
  if (limit * checked > maxLimit) {
    const asked = `${at}.size is ${checked}, for ${limit} groups that is ${limit * checked} points`
    throw invalid(`${asked}, the maximum is ${maxLimit} (MAX_LIMIT)`)
  }
  return { path: checkPath(path, `${at}.path`), size: checked }
}

export const boostsMax = 16
export const examplesMax = 100
const weightMax = 100
const groupsMax = 1000
const groupSizeMax = 100
