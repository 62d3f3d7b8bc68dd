import { cancellation, DatabaseError } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import {
  conflictRules,
  dimensionMax,
  distanceMetrics,
  type Metric,
  type NewPoint,
  type OnConflict,
  type SearchQuery,
} from '../base/point.ts'
import { Turn } from '../base/turns.ts'
import { wrongDimension } from '../base/wrong-dimension.ts'
import { type FieldNames, invalid, type Limits } from './call.ts'
import { checkEnum, checkId, checkWhole, type EnumInput, type IntegerInput, isWhole } from './checks.ts'
import { checkInclude, type IncludeInput } from './include.ts'
import { checkPayload, type PayloadInput } from './payload-validation.ts'
import { unembedded } from './texts.ts'

/**
 * The only place that turns the caller's input into checked domain values. Transports decode bytes into these inputs,
 * in which every field may be missing. Nothing below the api checks again.
 */

export interface PointInput {
  readonly vector?: Float32Array | undefined
  /** Embedded in place of a vector. */
  readonly text?: string | undefined
  readonly payload?: PayloadInput | undefined
  /** If absent, the database assigns one. */
  readonly id?: string | undefined
  readonly onConflict?: EnumInput | undefined
}

/** A search near `vector`, near the stored point `id`, or near the embedding of `text`. */
export interface SearchInput {
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
  readonly include?: IncludeInput | undefined
  readonly profile?: boolean | undefined
}

/**
 * @param path of the point in the request: '' or like `vectors[3].`
 * @param nowUs see `checkExpiry`
 */
export function checkPoint(
  input: PointInput,
  dimension: number | undefined,
  path: string,
  nowUs: number,
): NewPoint {
  return checkPointWith(checkVector(input.vector, dimension, `${path}vector`), input, path, nowUs)
}

/** Checks a point whose text is not embedded yet. */
export function checkPointOfText(input: PointInput, path: string, nowUs: number): NewPoint {
  return checkPointWith(unembedded, input, path, nowUs)
}

function checkPointWith(vector: Float32Array, input: PointInput, path: string, nowUs: number): NewPoint {
  const payload = checkPayload(input.payload, `${path}payload`, nowUs)
  const { id, onConflict } = input
  if (id === undefined && onConflict === undefined) return { vector, payload }
  return {
    vector,
    payload,
    ...(id === undefined ? {} : { id: checkId(id, `${path}id`) }),
    ...(onConflict === undefined
      ? {}
      : { onConflict: checkEnum<OnConflict>(onConflict, conflictRules, `${path}on_conflict`) }),
  }
}

/**
 * Checks a query. If it has a text, which `textOfQuery` has checked, its vector is `unembedded`.
 *
 * @param path of the query in the request: '' or like `queries[3].`
 * @param fields the transport's names
 */
export function checkQuery(
  input: SearchInput,
  dimension: number | undefined,
  limits: Limits,
  path: string,
  fields: FieldNames,
): SearchQuery {
  const vector = checkTarget(input, dimension, path, fields)
  const metric = checkEnum<Metric>(input.similarity, distanceMetrics, `${path}similarity`)
  const limit = checkLimit(input.limit, limits.maxLimit, `${path}limit`)
  const ef = Math.max(checkEf(input.ef, `${path}ef`) || limits.hnswEf, limit)
  const query = { vector, metric, limit, ef }
  return asksForMore(input) ? { ...query, ...checkExtras(input, path) } : query
}

/** Checks what to search near. */
function checkTarget(
  input: SearchInput,
  dimension: number | undefined,
  path: string,
  fields: FieldNames,
): Float32Array | string {
  if (input.text !== undefined) return unembedded
  if (input.id !== undefined) return checkNear(input, path, fields)
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

/**
 * The items of a batch, which a transport decodes during the only iteration. An undefined is not an item: the decoder
 * yields it when it takes long to find the next one, so that other work can run. An error is an item that could not be
 * decoded.
 */
export type BatchItems<Input> = Iterable<Input | DatabaseError | undefined>

/**
 * An item as a transport reads it. It is a generator function if reading may take long; that yields from time to time.
 */
export type ItemSteps<Item> = Item | (() => Generator<undefined, Item, void>)

/**
 * Runs `check` over the items of a batch; fails with the error of the first bad item. The iteration decodes the items,
 * so this is also where a large batch yields to other work.
 *
 * @throws what `check` throws, and a cancellation when `signal` aborts
 */
export async function checkBatch<Input, Checked>(
  items: BatchItems<Input> | undefined,
  path: string,
  check: (item: Input, path: string) => Checked,
  signal?: AbortSignal,
): Promise<Checked[]> {
  if (items === undefined) throw invalid(`${path} is missing`)
  const checked: Checked[] = []
  const turn = new Turn()
  for (const item of items) {
    if (item instanceof DatabaseError) throw item
    if (item !== undefined) checked.push(check(item, `${path}[${checked.length}].`))
    if (!turn.isOver) continue
    await turn.next()
    if (signal?.aborted) throw cancellation(signal)
  }
  return checked
}

/**
 * Checks the lengths of a batch's vectors again if the dimension has changed since the first check: while the batch
 * yielded, another call may have stored the first point.
 */
export function recheckDimension(
  items: readonly { readonly vector: Float32Array | string }[],
  before: number | undefined,
  now: number | undefined,
  pathOf: (index: number) => string,
): void {
  if (now === undefined || now === before) return
  const index = items.findIndex(({ vector }) => typeof vector !== 'string' && vector.length !== now)
  if (index !== -1) throw wrongDimension(pathOf(index), items[index]!.vector.length, now)
}

export function checkVector(
  vector: Float32Array | undefined,
  dimension: number | undefined,
  path: string,
): Float32Array {
  if (vector === undefined) throw invalid(`${path} is missing`)
  if (dimension !== undefined && vector.length !== dimension) {
    throw wrongDimension(path, vector.length, dimension)
  }
  if (vector.length === 0) throw invalid(`${path} is empty, it needs 1 to ${dimensionMax} dimensions`)
  if (vector.length > dimensionMax) {
    throw invalid(`${path} has ${vector.length} dimensions, the maximum is ${dimensionMax}`)
  }
  for (let index = 0; index < vector.length; index += 1) {
    if (!Number.isFinite(vector[index])) {
      throw invalid(`${path}[${index}] is ${vector[index]}, it must be a finite float32 number`)
    }
  }
  return vector
}

export function checkLimit(limit: IntegerInput | undefined, maxLimit: number, path: string): number {
  if (limit === undefined) throw invalid(`${path} is missing, it must be 1 to ${maxLimit} (MAX_LIMIT)`)
  return checkWhole(limit, path, { min: 1, max: maxLimit, setting: 'MAX_LIMIT' })
}

/** Any ef is allowed: if it exceeds the number of points, the search visits all of them. */
function checkEf(ef: IntegerInput | undefined, path: string): number {
  if (ef === undefined) return 0
  if (!isWhole(ef) || ef < 0) throw invalid(`${path} is ${ef}, it must be a whole number, 0 for the default`)
  return Number(ef)
}
