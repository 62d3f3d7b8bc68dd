import { type Attributes, attributeLimits, checkPath } from '../base/attributes.ts'
import { cancellation, DatabaseError, invalid, wrongDimension } from '../base/errors.ts'
import {
  type AskedInclude,
  type ContentType,
  conflictRules,
  contentTypes,
  dimensionMax,
  type Include,
  isUuid,
  type NewPoint,
  type OnConflict,
  type Payload,
  ttlSecondsMax,
} from '../base/point.ts'
import { Turn } from '../base/turns.ts'

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
 * The items of a batch, which a transport decodes during the only iteration. An undefined is not an item: the decoder
 * yields it when it takes long to find the next one, so that other work can run. An error is an item that could not be
 * decoded.
 */
export type BatchItems<Input> = Iterable<Input | DatabaseError | undefined>

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
  const index = items.findIndex(
    ({ vector }) => typeof vector !== 'string' && vector !== noVector && vector.length !== now,
  )
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
export function checkEf(ef: IntegerInput | undefined, path: string): number {
  if (ef === undefined) return 0
  if (!isWhole(ef) || ef < 0) throw invalid(`${path} is ${ef}, it must be a whole number, 0 for the default`)
  return Number(ef)
}

/** Checks of single values. `path` is a value's path in the request, in the transport's spelling. */

/** An enum value on the wire: its name in HTTP, its number in gRPC. */
export type EnumInput = string | number

/** An unsigned 64-bit number on the wire; a bigint only where a number would lose digits. */
export type IntegerInput = number | bigint

/** Returns a well-formed id in lower case, the form in which ids are stored. */
export function checkId(id: string | undefined, path: string): string {
  if (id === undefined || id === '') throw invalid(`${path} is missing: a point id is a UUID`)
  if (!isUuid(id)) throw invalid(`${path} ${shown(id)} is not a UUID`)
  return id.toLowerCase()
}

export function checkEnum<Name extends string>(
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

/** @param setting the name of the setting that `max` comes from, for the message */
export function checkWhole(
  value: IntegerInput,
  path: string,
  { min, max, setting }: { readonly min: number; readonly max: number; readonly setting?: string },
): number {
  if (isWhole(value) && value >= min && value <= max) return Number(value)
  const bounds = setting === undefined ? `${min} to ${max}` : `${min} to ${max} (${setting})`
  throw invalid(`${path} is ${value}, it must be a whole number from ${bounds}`)
}

/** Returns a number that is within bounds. */
export function checkBetween(value: number, path: string, min: number, max: number): number {
  if (value >= min && value <= max) return value
  throw invalid(`${path} is ${value}, it must be a number from ${min} to ${max}`)
}

function isWhole(value: IntegerInput): boolean {
  return typeof value === 'bigint' || Number.isInteger(value)
}

/** A value for a message: quoted, and truncated if it is long. */
export function shown(value: EnumInput): string {
  if (typeof value === 'number') return String(value)
  return JSON.stringify(value.length > 64 ? `${value.slice(0, 64)}…` : value)
}

export interface PayloadInput {
  readonly contentType?: EnumInput | undefined
  readonly content?: string | undefined
  /** Checked by the transport's reader, which knows the path of each attribute; undefined if there are none. */
  readonly attributes?: Attributes | undefined
  /** Checked by the transport's reader. */
  readonly expiresAtUs?: number | undefined
  /** From the arrival of the request; instead of `expiresAtUs`. */
  readonly ttlSeconds?: number | undefined
}

/** @param nowUs see `checkExpiry` */
export function checkPayload(payload: PayloadInput | undefined, path: string, nowUs: number): Payload {
  if (payload === undefined) throw invalid(`${path} is missing`)
  const contentType = checkEnum<ContentType>(payload.contentType, contentTypes, `${path}.content_type`)
  const { content, attributes } = payload
  if (content === undefined) throw invalid(`${path}.content is missing`)
  const expiresAtUs = checkExpiry(payload, `${path}.`, nowUs)
  if (attributes === undefined && expiresAtUs === undefined) return { contentType, content }
  return {
    contentType,
    content,
    ...(attributes === undefined ? {} : { attributes }),
    ...(expiresAtUs === undefined ? {} : { expiresAtUs }),
  }
}

/**
 * Returns when a point expires, in microseconds since 1970.
 *
 * @param path of the fields' parent, with a trailing dot, or empty
 * @param nowUs the time of the collection, by which its points expire
 */
export function checkExpiry<Expiry extends number | null | undefined>(
  input: { readonly expiresAtUs?: Expiry; readonly ttlSeconds?: number | undefined },
  path: string,
  nowUs: number,
): Expiry | number | undefined {
  const { expiresAtUs, ttlSeconds } = input
  if (ttlSeconds === undefined) return expiresAtUs
  if (expiresAtUs !== undefined) {
    throw invalid(`${path}expires_at and ${path}ttl_seconds are both given: a point has one of them`)
  }
  if (!(ttlSeconds > 0 && ttlSeconds <= ttlSecondsMax)) {
    throw invalid(
      `${path}ttl_seconds is ${ttlSeconds}, it must be greater than 0 and at most ${ttlSecondsMax} (100 years)`,
    )
  }
  return nowUs + Math.round(ttlSeconds * 1e6)
}

/**
 * The maximum size of an answer with contents or vectors: callers choose how many of them there are, and how large. The
 * limits of a request already bound an answer of ids alone.
 */
export const answerBytesMax = 268_435_456

export function answerTooLarge(): DatabaseError {
  return invalid(`the answer would have more than ${answerBytesMax} bytes: lower the limit, or include less`)
}

/** @param path of the field in the request, like `queries[3].include` */
export function checkInclude(input: AskedInclude, path: string): Include {
  const { distance = false, payload = false, vector = false, version = false } = input
  const attributes = checkSelected(input.attributes, `${path}.attributes`)
  return {
    distance,
    payload,
    vector,
    version,
    ...(attributes === undefined ? {} : { attributes }),
    ...(input.scores === true && { scores: true }),
    ...(input.highlight === true && { highlight: true }),
  }
}

function checkSelected(
  input: AskedInclude['attributes'],
  path: string,
): readonly string[] | 'all' | undefined {
  if (input === undefined || input === false) return undefined
  if (input === true) return 'all'
  if (input.length > pathsMax) throw tooManyPaths(path)
  return input.map((each, index) => checkPath(each, `${path}[${index}]`))
}

/** The maximum number of paths in one field of a request. Readers stop there: a body has room for millions. */
export const pathsMax: number = attributeLimits.paths

export function tooManyPaths(path: string): DatabaseError {
  return invalid(`${path} has more than ${pathsMax} paths`)
}

/** The vector of a query for words alone. */
export const noVector: Float32Array = new Float32Array(0)

/** The vector of a point or query whose text is not embedded yet. */
export const unembedded: Float32Array = new Float32Array(0)
