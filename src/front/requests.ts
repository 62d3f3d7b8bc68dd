import { idBytes } from '../base/ids.ts'
import { contentTypes, metrics, type NewPoint, type SearchQuery } from '../base/point.ts'
import type { RequestIdentity } from '../engine/database.ts'
import type { Parts } from './parts.ts'
import { type RecordReader, type RecordWriter, textBytes, vectorBytes } from './record.ts'

/** What a front asks of the engine, as `Database` has it. */
export type FrontRequest = GetRequest | RemoveRequest | SearchRequest | InsertRequest

export interface GetRequest {
  readonly kind: 'get'
  readonly id: string
}

export interface RemoveRequest {
  readonly kind: 'remove'
  readonly id: string
}

export interface SearchRequest {
  readonly kind: 'search'
  readonly queries: readonly SearchQuery[]
}

export interface InsertRequest {
  readonly kind: 'insert'
  readonly points: readonly NewPoint[]
  /** Of a request with an idempotency key. */
  readonly identity?: RequestIdentity | undefined
}

const kinds = ['get', 'remove', 'search', 'insert'] as const

/**
 * The bytes of a request's record:
 *
 *   number, kind                                          2 x i32
 *   get, remove:  id                                      16 bytes
 *   search:       queries; each: metric, limit, ef        i32; 3 x i32
 *                   vector                                i32 length, f32 each
 *   insert:       whether it has a key                    i32
 *                   hashes of key and body, if so         2 x 16 bytes
 *                 points; each: content type              i32; i32
 *                   vector, content                       i32 length, f32 each; i32 bytes, UTF-8
 */
export function requestBytes(request: FrontRequest): number {
  const head = 2 * 4
  if (request.kind === 'search') {
    return request.queries.reduce((sum, { vector }) => sum + 3 * 4 + vectorBytes(vector), head + 4)
  }
  if (request.kind === 'insert') {
    return request.points.reduce(
      (sum, { vector, payload }) => sum + 4 + vectorBytes(vector) + textBytes(payload.content),
      head + 2 * 4 + (request.identity === undefined ? 0 : 2 * idBytes),
    )
  }
  return head + idBytes
}

export function* writeRequest(number: number, request: FrontRequest, target: RecordWriter): Parts<void> {
  target.integer(number)
  target.integer(kinds.indexOf(request.kind))
  if (request.kind === 'search') {
    target.integer(request.queries.length)
    for (const query of request.queries) yield writeQuery(target, query)
  } else if (request.kind === 'insert') {
    writeIdentity(target, request.identity)
    target.integer(request.points.length)
    for (const point of request.points) yield writePoint(target, point)
  } else {
    target.id(request.id)
  }
}

/** Reads what stands behind the request's number. */
export function* readRequest(record: RecordReader): Parts<FrontRequest> {
  const kind = kinds[record.integer()]!
  if (kind === 'search') return { kind, queries: yield* listOf(record, readQuery) }
  if (kind === 'insert') {
    const identity = readIdentity(record)
    const points = yield* listOf(record, readPoint)
    return identity === undefined ? { kind, points } : { kind, points, identity }
  }
  return { kind, id: record.id() }
}

/** Also in answers: content type, vector and content. */
export function writePoint(target: RecordWriter, { vector, payload }: NewPoint): void {
  target.integer(contentTypes.indexOf(payload.contentType))
  target.vector(vector)
  target.text(payload.content)
}

export function readPoint(record: RecordReader): NewPoint {
  const contentType = contentTypes[record.integer()]!
  return { vector: record.vector(), payload: { contentType, content: record.text() } }
}

/** Its hashes are as long as ids. */
function writeIdentity(target: RecordWriter, identity: RequestIdentity | undefined): void {
  target.integer(identity === undefined ? 0 : 1)
  if (identity === undefined) return
  target.ids(identity.keyHash)
  target.ids(identity.bodyHash)
}

function readIdentity(record: RecordReader): RequestIdentity | undefined {
  return record.integer() === 0 ? undefined : { keyHash: record.ids(1), bodyHash: record.ids(1) }
}

function writeQuery(target: RecordWriter, { vector, metric, limit, ef }: SearchQuery): void {
  target.integer(metrics.indexOf(metric))
  target.integer(limit)
  // Any breadth may be asked for, and one that 32 bits do not hold is a scan, which does not look at it.
  target.integer(Math.min(ef, 0x7fff_ffff))
  target.vector(vector)
}

function readQuery(record: RecordReader): SearchQuery {
  const metric = metrics[record.integer()]!
  const limit = record.integer()
  const ef = record.integer()
  return { metric, limit, ef, vector: record.vector() }
}

function* listOf<Item>(record: RecordReader, read: (record: RecordReader) => Item): Parts<Item[]> {
  const items: Item[] = []
  for (let left = record.integer(); left > 0; left -= 1) {
    items.push(read(record))
    yield
  }
  return items
}
