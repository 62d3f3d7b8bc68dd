import { assert, DatabaseError } from '../base/errors.ts'
import { canBeRefused, payloadBytes } from '../base/point.ts'
import { type BulkOptions, type CallOptions, type InsertOptions, optionsIn, ServiceError } from './calls.ts'
import type { Hit, InsertReport, ListQuery, PointsClient, PointToInsert } from './client.ts'
import { type CheckedPoint, checkPoints, pointIn } from './input.ts'
import { optional, wholeIn, wrongKind } from './values.ts'

/** Stores a batch of checked points: all or none, or, with `continue`, those that can be stored. */
export interface BatchInsert {
  insertChecked(
    points: readonly CheckedPoint[],
    options?: InsertOptions,
    onError?: 'continue',
  ): Promise<InsertReport>
}

/**
 * Whether a cluster has refused a batch of all or nothing because no node can decide about all of its ids: then it can
 * be sent with `continue`. The error has no reason of its own, because to all other callers it is one of many faults of
 * a request. So the start of its message tells, which names the field.
 */
export function isUndecidable(error: unknown): boolean {
  return (
    error instanceof DatabaseError &&
    error.reason === 'invalid_argument' &&
    error.message.startsWith('on_error is "abort"')
  )
}

/** The method of a client for the importer, which checks its points itself. Users of the client do not see it. */
export function insertCheckedOf(client: PointsClient & Partial<BatchInsert>): BatchInsert['insertChecked'] {
  assert(client.insertChecked !== undefined, 'a client of this package can insert checked points')
  return client.insertChecked
}

interface Batch {
  /** Index of its first point in the whole call. */
  readonly start: number
  readonly points: CheckedPoint[]
  readonly ids: Set<string>
  bytes: number
}

interface SentBatch {
  readonly ids: ReadonlySet<string>
  readonly stored: Promise<readonly string[]>
}

/**
 * Inserts points in batches. Reads points only as fast as requests finish. Yields the ids of each batch, in the order
 * of the points. After a failure, the yielded batches are stored; later batches may be, and in a cluster the other points
 * of a batch with an id that exists.
 *
 * Points with the same id are never in the same batch, nor in two batches that are sent at the same time: otherwise the
 * service would refuse them, or store them in any order.
 */
export async function* insertInBatches(
  insertChecked: BatchInsert['insertChecked'],
  points: AsyncIterable<PointToInsert> | Iterable<PointToInsert>,
  options: BulkOptions | undefined,
): AsyncGenerator<readonly string[]> {
  const { batchSize, concurrency, ...details } = optionsIn<BulkOptions>(options, ['batchSize', 'concurrency'])
  const size = optional(atLeastOne)(batchSize, 'batchSize') ?? 500
  const window = optional(atLeastOne)(concurrency, 'concurrency') ?? 2
  const iterable = points as Partial<AsyncIterable<unknown> & Iterable<unknown>> | undefined | null
  if (!iterable?.[Symbol.asyncIterator] && !iterable?.[Symbol.iterator]) {
    throw wrongKind(points, 'points', 'an iterable of points')
  }
  const sent: SentBatch[] = []
  let isCluster = false
  const store = async (some: readonly CheckedPoint[]): Promise<InsertReport> => {
    if (!isCluster || !some.some(canBeRefused)) {
      try {
        return await insertChecked(some, details)
      } catch (error) {
        if (!isUndecidable(error)) throw error
        isCluster = true
      }
    }
    return await insertChecked(some, details, 'continue')
  }
  try {
    for await (const { start, points: some, ids } of batchesOf(points, size)) {
      while (sent.length >= window || sent.some((earlier) => haveCommon(earlier.ids, ids))) {
        yield await sent.shift()!.stored
      }
      const stored = store(some)
        .then(allIds)
        .catch((error: unknown) => {
          throw withPlaceInCall(error, start)
        })
      // The failure is thrown later, when this batch is the first in the queue.
      stored.catch(() => {})
      sent.push({ ids, stored })
    }
    while (sent.length > 0) yield await sent.shift()!.stored
  } finally {
    await Promise.allSettled(sent.map(({ stored }) => stored))
  }
}

/** @throws DatabaseError of the first point that was refused */
function allIds({ ids, errors: [first] }: InsertReport): readonly string[] {
  if (first !== undefined) throw new DatabaseError(first.reason, first.message)
  return ids as readonly string[]
}

async function* batchesOf(
  points: AsyncIterable<PointToInsert> | Iterable<PointToInsert>,
  size: number,
): AsyncGenerator<Batch> {
  let index = 0
  let batch = emptyBatch(index)
  for await (const given of points) {
    const point = pointIn(given, `vectors[${index}].`)
    const bytes = bytesOf(point)
    const id = point.id?.toLowerCase()
    const isRepeated = id !== undefined && batch.ids.has(id)
    if (isRepeated || (batch.points.length > 0 && batch.bytes + bytes > batchBytesMax)) {
      yield batch
      batch = emptyBatch(index)
    }
    batch.points.push(point)
    batch.bytes += bytes
    if (id !== undefined) batch.ids.add(id)
    index += 1
    if (batch.points.length < size) continue
    yield batch
    batch = emptyBatch(index)
  }
  if (batch.points.length > 0) yield batch
}

function emptyBatch(start: number): Batch {
  return { start, points: [], ids: new Set(), bytes: 0 }
}

function haveCommon(some: ReadonlySet<string>, others: ReadonlySet<string>): boolean {
  for (const id of others) if (some.has(id)) return true
  return false
}

function bytesOf({ vector, text = '', payload }: CheckedPoint): number {
  return (vector?.length ?? 0) * Float32Array.BYTES_PER_ELEMENT + text.length + payloadBytes(payload)
}

/** Well below the server's default MAX_REQUEST_BYTES, in any format of the numbers. */
export const batchBytesMax: number = 8 * 1024 * 1024

function atLeastOne(value: unknown, at: string): number {
  return wholeIn(value, at, 1)
}

/** Replaces the place of a point in its batch by its place in the whole call. */
function withPlaceInCall(error: unknown, start: number): unknown {
  if (!(error instanceof DatabaseError)) return error
  const { reason, cause } = error
  const message = moved(error.message, (index) => start + index)
  if (!(error instanceof ServiceError)) return new DatabaseError(reason, message, { cause })
  const { retryAfterMs, isUncertain } = error
  return new ServiceError(reason, message, { cause, retryAfterMs, isUncertain })
}

function moved(message: string, indexOf: (index: number) => number): string {
  return message.replaceAll(/vectors\[(\d+)\]/g, (_, index) => `vectors[${indexOf(Number(index))}]`)
}

/** Stores the points that can be sent and are valid; reports the others. @param send stores valid points */
export async function insertEachOf(
  points: readonly PointToInsert[],
  send: (points: readonly CheckedPoint[]) => Promise<InsertReport>,
): Promise<InsertReport> {
  checkPoints(points)
  const checked: CheckedPoint[] = []
  const indexes: number[] = []
  const errors: InsertReport['errors'][number][] = []
  for (let index = 0; index < points.length; index += 1) {
    try {
      checked.push(pointIn(points[index]!, `vectors[${index}].`))
      indexes.push(index)
    } catch (error) {
      if (!(error instanceof DatabaseError)) throw error
      errors.push({ index, reason: error.reason, message: error.message })
    }
  }
  const report = await send(checked)
  const ids = new Array<string | null>(points.length).fill(null)
  for (const [at, id] of report.ids.entries()) ids[indexes[at]!] = id
  for (const { index, reason, message } of report.errors) {
    errors.push({ index: indexes[index]!, reason, message: moved(message, (at) => indexes[at]!) })
  }
  return { ids, errors: errors.sort((a, b) => a.index - b.index) }
}

/** Yields all points of a list; requests a page when the caller has read the previous one. */
export async function* pagesOf(
  list: PointsClient['list'],
  query: Omit<ListQuery, 'cursor'> | undefined,
  options: CallOptions | undefined,
): AsyncGenerator<Hit> {
  let cursor: string | undefined
  do {
    const page = await list({ limit: pointsPerPage, ...query, cursor }, options)
    yield* page.points
    cursor = page.nextCursor
  } while (cursor !== undefined)
}

const pointsPerPage = 1000
