import { createHash, type Hash, hash } from 'node:crypto'
import { cancellation, DatabaseError, invalid, wrongDimension } from '../base/errors.ts'
import type { NewPoint } from '../base/point.ts'
import { hashPoint } from '../base/point-hash.ts'
import { faultOfIdempotencyKey } from '../base/request-headers.ts'
import { Turn } from '../base/turns.ts'
import type { Inserted, ItemError, RequestIdentity } from '../points/database.ts'
import type { ApiContext, Call } from './call.ts'
import { embedText, embedTexts, type PlacedText, pathOfText, textOfPoint, wrongEmbedding } from './texts.ts'
import {
  type BatchItems,
  checkEnum,
  checkPoint,
  checkPointOfText,
  type EnumInput,
  type PointInput,
  unembedded,
} from './validation.ts'

export type { ItemError }

export interface InsertVectorsBatchInput {
  readonly vectors?: BatchItems<PointInput> | undefined
  /** Absent: `abort`. */
  readonly onError?: OnErrorInput | undefined
}

/** What to do about items that cannot be stored. The field may follow the items in the request. */
export interface OnErrorInput {
  /** The field's value; known when all items have been read. */
  readonly value: EnumInput | undefined
  /** Finds the value earlier, by scanning the whole request; yields when that takes long. */
  find(): Generator<undefined, EnumInput | undefined, void>
}

/** Ids by item. With `on_error: continue` there are `errors`, and the ids of the items with an error are null. */
export interface InsertedBatch {
  readonly ids: readonly (string | null)[]
  readonly errors?: readonly ItemError[] | undefined
}

const errorRules = ['abort', 'continue'] as const

/**
 * Stores all points atomically and resolves with their ids in input order; an empty batch stores nothing. In an empty
 * database, the first item fixes the dimension of the others.
 *
 * Fails with `invalid_argument`, naming the first bad item; then nothing is stored. With `on_error: continue` it stores
 * the valid items and reports the others. A call with an idempotency key stores its points once, however often it is
 * repeated; it fails with `key_reused` when it carries other points, or when other texts cannot be embedded.
 */
export async function insertVectorsBatch(
  context: ApiContext,
  input: InsertVectorsBatchInput,
  call: Call,
): Promise<InsertedBatch> {
  const identity = identityOf(call, 'InsertVectorsBatch')
  const items = new BatchChecker(context, identity, input.onError)
  await items.read(input.vectors, call.signal)
  await items.embed(call.signal)
  items.recheckDimension()
  const continues = items.continues
  const { points, errors } = items
  call.decoded?.()
  if (points.length === 0) return answerOf(items, { ids: [], errors: [] })
  if (continues) {
    const bad = errors.map(({ index }) => index).filter((at) => !items.refused.has(at))
    identity?.addContinue(bad, [...items.refused])
  }
  const options = {
    signal: call.signal,
    identity: identity?.whole(),
    ...(continues ? { onError: 'continue' as const } : {}),
  }
  let inserted: Inserted
  try {
    inserted = await context.database.insert(points, options)
  } catch (error) {
    const isReused = error instanceof DatabaseError && error.reason === 'key_reused'
    throw isReused && continues && items.hasTexts ? otherTextsRefused() : error
  }
  return answerOf(items, inserted)
}

/** Checks the items of a batch in turns, and separates those that can be stored from those that cannot. */
class BatchChecker {
  /** The points that can be stored. */
  points: NewPoint[] = []
  readonly errors: ItemError[] = []
  /**
   * The items whose texts could not be embedded. When the request is repeated, others may be refused. What is stored
   * under its key has only the points, so it answers a repetition only if the same texts are refused.
   */
  readonly refused = new Set<number>()
  readonly #context: ApiContext
  readonly #identity: RequestIdentityBuilder | undefined
  readonly #onError: OnErrorInput | undefined
  readonly #dimensionBefore: number | undefined
  #dimension: number | undefined
  #items = 0
  /** The texts of points that have one in place of a vector; `at` is the point's index in `points`. */
  readonly #texts: (PlacedText & { readonly at: number })[] = []
  /** Whether to continue after a bad item; undefined until there is one. */
  #continues: boolean | undefined

  constructor(
    context: ApiContext,
    identity: RequestIdentityBuilder | undefined,
    onError: OnErrorInput | undefined,
  ) {
    this.#context = context
    this.#identity = identity
    this.#onError = onError
    this.#dimensionBefore = context.database.dimension
    this.#dimension = this.#dimensionBefore
  }

  get length(): number {
    return this.#items
  }

  get hasTexts(): boolean {
    return this.#texts.length > 0
  }

  /** Whether the request continues after bad items; call when all items have been read. */
  get continues(): boolean {
    return isContinue(this.#onError?.value)
  }

  async read(items: BatchItems<PointInput> | undefined, signal: AbortSignal | undefined): Promise<void> {
    if (items === undefined) throw invalid('vectors is missing')
    const turn = new Turn()
    for (const item of items) {
      const fault = item === undefined ? undefined : this.#faultOf(item)
      if (fault !== undefined) await this.#note(fault, turn)
      if (!turn.isOver) continue
      await turn.next()
      if (signal?.aborted) throw cancellation(signal)
    }
  }

  /** Embeds the texts, once everything else has been checked. */
  async embed(signal: AbortSignal | undefined): Promise<void> {
    if (this.#texts.length === 0) return
    const vectors = await embedTexts(this.#context, this.#texts, signal)
    const indexes = this.indexes()
    const bad = new Set<number>()
    for (const [position, { at, path }] of this.#texts.entries()) {
      const vector = this.#checkLength(vectors[position]!, path)
      if (!(vector instanceof DatabaseError)) {
        this.points[at] = { ...this.points[at]!, vector }
        continue
      }
      if (!this.continues) throw vector
      bad.add(at)
      this.refused.add(indexes[at]!)
      this.#addError({ index: indexes[at]!, error: vector })
    }
    if (bad.size === 0) return
    this.points = this.points.filter((_, at) => !bad.has(at))
    this.errors.sort((a, b) => a.index - b.index)
  }

  /** In an empty database, the first vector of the request fixes the dimension. */
  #checkLength(vector: Float32Array | DatabaseError, path: string): Float32Array | DatabaseError {
    if (vector instanceof DatabaseError) return vector
    this.#dimension ??= vector.length
    if (vector.length === this.#dimension) return vector
    return wrongEmbedding(path, this.#context, vector, this.#dimension)
  }

  /** While the batch yielded, another call may have stored the first point, with a different dimension. */
  recheckDimension(): void {
    const { dimension } = this.#context.database
    if (dimension === undefined || dimension === this.#dimensionBefore) return
    const indexes = this.indexes()
    const fits: NewPoint[] = []
    for (const [at, point] of this.points.entries()) {
      if (point.vector.length === dimension) {
        fits.push(point)
        continue
      }
      const index = indexes[at]!
      const error = wrongDimension(`vectors[${index}].vector`, point.vector.length, dimension)
      if (!this.continues) throw error
      this.errors.push({ index, error })
    }
    this.errors.sort((a, b) => a.index - b.index)
    this.points = fits
  }

  /** The index of each point's item in the request. */
  indexes(): number[] {
    const bad = new Set(this.errors.map(({ index }) => index))
    return Array.from({ length: this.#items }, (_, index) => index).filter((index) => !bad.has(index))
  }

  #faultOf(item: PointInput | DatabaseError): DatabaseError | undefined {
    const index = this.#items
    this.#items += 1
    if (item instanceof DatabaseError) return item
    try {
      const path = `vectors[${index}].`
      const { nowUs } = this.#context.database
      const text = textOfPoint(item, this.#context.embeddings, path)
      if (text === undefined) this.#add(item, checkPoint(item, this.#dimension, path, nowUs))
      else {
        const at = this.points.length
        this.#add(item, checkPointOfText(item, path, nowUs))
        this.#texts.push({ at, text, path: pathOfText(item, path) })
      }
      return undefined
    } catch (error) {
      if (error instanceof DatabaseError) return error
      throw error
    }
  }

  #add({ payload, text }: PointInput, point: NewPoint): void {
    if (point.vector !== unembedded) this.#dimension ??= point.vector.length
    this.#identity?.add(point, payload?.ttlSeconds, text)
    this.points.push(point)
  }

  async #note(error: DatabaseError, turn: Turn): Promise<void> {
    this.#continues ??= await this.#findContinues(turn)
    if (!this.#continues) throw error
    this.#addError({ index: this.#items - 1, error })
  }

  #addError(bad: ItemError): void {
    if (this.errors.length === itemErrorsMax) {
      throw invalid(`more than ${itemErrorsMax} of vectors are invalid; one of them: ${bad.error.message}`)
    }
    this.errors.push(bad)
  }

  async #findContinues(turn: Turn): Promise<boolean> {
    if (this.#onError === undefined) return false
    try {
      const steps = this.#onError.find()
      for (;;) {
        const { done, value } = steps.next()
        if (done) return isContinue(value)
        if (turn.isOver) await turn.next()
      }
    } catch (error) {
      // The rest of the request is malformed, but the bad item precedes it: that error is the one to report.
      if (error instanceof DatabaseError) return false
      throw error
    }
  }
}

function isContinue(value: EnumInput | undefined): boolean {
  return value !== undefined && checkEnum(value, errorRules, 'on_error') === 'continue'
}

/** Converts ids and errors by point to ids and errors by item of the request. */
function answerOf(items: BatchChecker, inserted: Inserted): InsertedBatch {
  if (!items.continues) return { ids: inserted.ids }
  if (items.errors.length === 0 && inserted.errors.length === 0) return inserted
  const indexes = items.indexes()
  const ids = new Array<string | null>(items.length).fill(null)
  for (const [at, id] of inserted.ids.entries()) ids[indexes[at]!] = id
  const refused = inserted.errors.map(({ index: at, error }): ItemError => {
    const index = indexes[at]!
    const named = nameConflict(error, items.points[at]!, `vectors[${index}].`)
    return { index, error: named === error ? renumbered(error, indexes) : (named as DatabaseError) }
  })
  return { ids, errors: [...items.errors, ...refused].sort((a, b) => a.index - b.index) }
}

/** The engine counts the valid items alone; the caller counts all of them. */
export function renumbered(error: DatabaseError, indexes: readonly number[]): DatabaseError {
  const message = error.message.replace(/vectors\[(\d+)\]/g, (_, at) => `vectors[${indexes[Number(at)]}]`)
  return message === error.message ? error : new DatabaseError(error.reason, message)
}

/** The error for a used key if an unchanged request can get it, too. */
function otherTextsRefused(): DatabaseError {
  return new DatabaseError(
    'key_reused',
    'another request was stored under this idempotency key, or this one when other texts could not be embedded: repeat a request unchanged, or give this one a different key',
  )
}

/** Bounds the memory of errors: an invalid item takes as little as three bytes of a request. */
const itemErrorsMax = 10_000

/**
 * Stores one point and resolves with its id once it is durable and searchable. A text is embedded first. The id is new
 * unless the caller chose it.
 *
 * Fails with `invalid_argument` on a vector with the wrong number of dimensions and on missing fields. Fails with
 * `already_exists` for an id that exists, unless `on_conflict` says otherwise. A call with an idempotency key stores
 * its point once, however often it is repeated; it fails with `key_reused` when it carries another point.
 */
export async function insertVector(context: ApiContext, input: PointInput, call: Call): Promise<string> {
  const identity = identityOf(call, 'InsertVector')
  const text = textOfPoint(input, context.embeddings, '')
  const { dimension, nowUs } = context.database
  const checked =
    text === undefined ? checkPoint(input, dimension, '', nowUs) : checkPointOfText(input, '', nowUs)
  // The text is hashed instead of its embedding, which may differ in the last bits from call to call.
  identity?.add(checked, input.payload?.ttlSeconds, input.text)
  const point =
    text === undefined
      ? checked
      : { ...checked, vector: await embedText(context, text, pathOfText(input, ''), call.signal) }
  call.decoded?.()
  try {
    const options = { signal: call.signal, identity: identity?.whole() }
    const { ids } = await context.database.insert([point], options)
    return ids[0]!
  } catch (error) {
    throw nameConflict(error, point, '')
  }
}

/**
 * Rewrites the engine's error, which names an item by its index in the engine's list, to name it as the caller does.
 */
function nameConflict(error: unknown, { id }: NewPoint, path: string): unknown {
  if (!(error instanceof DatabaseError) || id === undefined) return error
  // Of a repeated request in a cluster.
  if (error.reason === 'precondition_failed')
    return new DatabaseError(error.reason, error.message.replace(/^(vectors\[\d+\]\.)?/, path))
  if (error.reason !== 'already_exists') return error
  return new DatabaseError('already_exists', `${path}id ${id} exists: send on_conflict to replace or skip it`)
}

/**
 * Builds the identity of a request that has an idempotency key, point by point as the points are checked. It hashes the
 * values: requests with equal values are the same, over either transport and however JSON spells the values.
 */
class RequestIdentityBuilder {
  readonly #keyHash: Uint8Array
  readonly #body: Hash

  constructor(key: string, operation: KeyedOperation) {
    this.#keyHash = hash('sha256', key, 'buffer').subarray(0, hashBytes)
    // The two inserts have different answers: one key cannot be used for both.
    this.#body = createHash('sha256').update(operation)
  }

  /**
   * @param ttlSeconds as sent: the expiry computed from it differs with each repetition
   * @param text as sent in place of a vector
   */
  add(point: NewPoint, ttlSeconds?: number, text?: string): void {
    hashPoint(this.#body, point, ttlSeconds, text)
  }

  /**
   * For a request that continues after bad items.
   *
   * @param bad the indexes of the items that are not among the points, except for those in `refused`
   * @param refused the indexes of the items whose texts could not be embedded; they were added
   */
  addContinue(bad: readonly number[], refused: readonly number[]): void {
    // No point begins with these bytes: see `hashPoint`.
    this.#body.update(`\xffcontinue:${bad.join(',')}`, 'latin1')
    // Without refused texts the bytes are those of earlier versions, so stored hashes stay valid.
    if (refused.length > 0) this.#body.update(`;refused:${refused.join(',')}`, 'latin1')
  }

  /** Returns the identity; call when all points have been added. */
  whole(): RequestIdentity {
    return { keyHash: this.#keyHash, bodyHash: this.#body.digest().subarray(0, hashBytes) }
  }
}

/**
 * Returns a builder for the request's identity, or undefined for a request without a key.
 *
 * @throws DatabaseError `invalid_argument` for a malformed key
 */
function identityOf({ idempotencyKey }: Call, operation: KeyedOperation): RequestIdentityBuilder | undefined {
  if (idempotencyKey === undefined) return undefined
  const fault = faultOfIdempotencyKey(idempotencyKey)
  if (fault !== undefined) throw invalid(`idempotency-key ${fault}`)
  return new RequestIdentityBuilder(idempotencyKey, operation)
}

type KeyedOperation = 'InsertVector' | 'InsertVectorsBatch'

/** The first bytes of SHA-256: enough that no two keys and no two bodies share a hash. */
const hashBytes = 16
