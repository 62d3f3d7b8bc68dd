import { cancellation } from '../base/errors.ts'
import { isWellFormedId } from '../base/ids.ts'
import {
  type ContentType,
  contentTypes,
  dimensionMax,
  type Metric,
  metrics,
  type NewPoint,
  type Payload,
  type VectorQuery,
} from '../base/point.ts'
import { Turn } from '../base/turns.ts'
import { wrongDimension } from '../base/wrong-dimension.ts'
import { invalid, type Limits } from './call.ts'

/**
 * The one place where what a caller sent becomes a checked domain value. Transports decode bytes into these
 * inputs, with every field possibly missing; nothing below the api checks again.
 */

/** An enum as the wire has it: its name in HTTP, its number in gRPC. */
export type EnumInput = string | number

/** An unsigned 64-bit number as the wire has it; a bigint only where a number would lose digits. */
export type IntegerInput = number | bigint

export interface PayloadInput {
  readonly contentType?: EnumInput | undefined
  readonly content?: string | undefined
}

export interface PointInput {
  readonly vector?: Float32Array | undefined
  readonly payload?: PayloadInput | undefined
}

export interface SearchInput {
  readonly vector?: Float32Array | undefined
  readonly similarity?: EnumInput | undefined
  readonly limit?: IntegerInput | undefined
  readonly ef?: IntegerInput | undefined
}

/** @param path of the point in the request: '' or like `vectors[3].` */
export function checkPoint(input: PointInput, dimension: number | undefined, path: string): NewPoint {
  return {
    vector: checkVector(input.vector, dimension, `${path}vector`),
    payload: checkPayload(input.payload, `${path}payload`),
  }
}

/**
 * @param path of the query in the request: '' or like `queries[3].`
 * @param vectorField the transport's name for the query's vector
 */
export function checkQuery(
  input: SearchInput,
  dimension: number | undefined,
  limits: Limits,
  path: string,
  vectorField: string,
): VectorQuery {
  const vector = checkVector(input.vector, dimension, `${path}${vectorField}`)
  const metric = checkEnum<Metric>(input.similarity, metrics, `${path}similarity`)
  const limit = checkLimit(input.limit, limits.maxLimit, `${path}limit`)
  const ef = Math.max(checkEf(input.ef, `${path}ef`) || limits.hnswEf, limit)
  return { vector, metric, limit, ef }
}

/** A well-formed id in lower case, the form in which ids are stored. */
export function checkId(id: string | undefined, path: string): string {
  if (id === undefined || id === '') throw invalid(`${path} is missing: a point id is a UUID`)
  if (!isWellFormedId(id)) throw invalid(`${path} ${shown(id)} is not a UUID`)
  return id.toLowerCase()
}

/**
 * The items of a batch, decoded by a transport while they are iterated, once. An undefined is not an item: it is yielded
 * when decoding takes long without finding one, so that other work may have a turn.
 */
export type BatchItems<Input> = Iterable<Input | undefined>

/**
 * Runs `check` over the items of a batch; fails with the error of the first bad item. Items are decoded while they
 * are iterated, so this is also where a large batch yields to other work.
 *
 * @throws what `check` throws, and the cancellation of `signal`
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
    if (item !== undefined) checked.push(check(item, `${path}[${checked.length}].`))
    if (!turn.isOver) continue
    await turn.next()
    if (signal?.aborted) throw cancellation(signal)
  }
  return checked
}

/**
 * Checks the lengths of a batch again if the dimension has changed since the first check: while the batch yielded,
 * another call can have stored the first point.
 */
export function recheckDimension(
  items: readonly { readonly vector: Float32Array }[],
  before: number | undefined,
  now: number | undefined,
  pathOf: (index: number) => string,
): void {
  if (now === undefined || now === before) return
  const index = items.findIndex(({ vector }) => vector.length !== now)
  if (index !== -1) throw wrongDimension(pathOf(index), items[index]!.vector.length, now)
}

function checkVector(
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
    throw invalid(`${path} has ${vector.length} dimensions, the most is ${dimensionMax}`)
  }
  for (let index = 0; index < vector.length; index += 1) {
    if (!Number.isFinite(vector[index])) {
      throw invalid(`${path}[${index}] is ${vector[index]}, it must be a finite float32 number`)
    }
  }
  return vector
}

function checkPayload(payload: PayloadInput | undefined, path: string): Payload {
  if (payload === undefined) throw invalid(`${path} is missing`)
  const contentType = checkEnum<ContentType>(payload.contentType, contentTypes, `${path}.content_type`)
  if (payload.content === undefined) throw invalid(`${path}.content is missing`)
  return { contentType, content: payload.content }
}

function checkEnum<Name extends string>(
  value: EnumInput | undefined,
  names: readonly Name[],
  path: string,
): Name {
  const name = typeof value === 'number' ? names[value] : names.find((each) => each === value)
  if (name !== undefined) return name
  const choices = names.map((each, number) => (typeof value === 'number' ? `${number} (${each})` : each))
  const fault = value === undefined ? 'is missing' : `is ${shown(value)}`
  throw invalid(`${path} ${fault}, it must be one of ${choices.join(', ')}`)
}

function checkLimit(limit: IntegerInput | undefined, maxLimit: number, path: string): number {
  if (limit === undefined) throw invalid(`${path} is missing, it must be 1 to ${maxLimit} (MAX_LIMIT)`)
  const whole = typeof limit === 'bigint' || Number.isInteger(limit)
  if (!whole || limit < 1 || limit > maxLimit) {
    throw invalid(`${path} is ${limit}, it must be a whole number from 1 to ${maxLimit} (MAX_LIMIT)`)
  }
  return Number(limit)
}

/** Any ef is allowed: one larger than the number of points searches them all. */
function checkEf(ef: IntegerInput | undefined, path: string): number {
  if (ef === undefined) return 0
  const whole = typeof ef === 'bigint' || Number.isInteger(ef)
  if (!whole || ef < 0) throw invalid(`${path} is ${ef}, it must be a whole number, 0 for the default`)
  return Number(ef)
}

/** A value as messages show it: quoted, and cut if it is long. */
function shown(value: EnumInput): string {
  if (typeof value === 'number') return String(value)
  return JSON.stringify(value.length > 64 ? `${value.slice(0, 64)}…` : value)
}
