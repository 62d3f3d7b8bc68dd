import type { CollectionSettings } from '../../base/collection.ts'
import { DatabaseError } from '../../base/errors.ts'
import { PartitionSet, partitionOf } from '../../base/partitions.ts'
import type { NewPoint } from '../../base/point.ts'
import { atOnce, inTurns } from '../../base/turns.ts'
import { filterMessage, filterOf } from '../../messages/filters.ts'
import {
  type Insert,
  InsertSchema,
  type LogRequest,
  LogRequestSchema,
} from '../../messages/generated/cluster_pb.js'
import {
  conditionMessage,
  conditionOf,
  newPointMessage,
  newPointOf,
  patchMessage,
  patchOf,
  storedOf,
  wordSettingsOf,
} from '../../messages/points.ts'
import { Encoded, type Fields, valuesIn } from '../../messages/reader.ts'
import { idIn, idMessage, payloadMessage } from '../../messages/values.ts'
import { bytesOfIds, copiesOf, idsOf } from '../../messages/vectors.ts'
import { type Init, MessageWriter } from '../../messages/writer.ts'
import type { LoggedInsert, LoggedRequest } from '../../write/requests.ts'
import { UnknownRecord } from './records.ts'

/** What one record of a cluster's log requests from every replica. */
export type ClusterRequest =
  | LoggedRequest
  /** Changes nothing. Advances the clock, and shows its sender that everything before it is applied. */
  | { readonly kind: 'barrier' }
  /** All replicas compare what they hold of a collection at this record. */
  | { readonly kind: 'audit' }
  /** Changes nothing. What a node held of a collection at an audit record, for the others to compare. */
  | ({ readonly kind: 'digest' } & NodeDigest)
  /** Changes nothing. Nodes open snapshots of a collection at this record. */
  | ({ readonly kind: 'cut' } & SnapshotCut)
  | { readonly kind: 'create'; readonly name: string; readonly settings: CollectionSettings }
  | { readonly kind: 'drop'; readonly name: string }
  | {
      readonly kind: 'aliases'
      readonly set: ReadonlyMap<string, string>
      readonly remove: readonly string[]
    }

export interface SnapshotCut {
  /** Drawn by the node that reads the snapshots. */
  readonly token: string
  /** Those that open one. */
  readonly nodes: readonly string[]
}

/** What a node held of a collection. */
export interface NodeDigest {
  readonly node: string
  /** The position of the audit record. */
  readonly position: number
  /** See `PartitionDigest`. */
  readonly digest: Uint8Array
  readonly held: PartitionSet
}

/** A request with the clock of the node that received it, in microseconds since 1970. */
interface TimedRequest {
  readonly request: ClusterRequest
  readonly timeUs: number
}

/** Encodes the payload of a record: a `LogRequest` of proto/cluster.proto. */
export function encodeRequest(timed: TimedRequest): Buffer {
  return atOnce(encodeSteps(timed))
}

/** The same in turns, for requests with any number of points. */
export function encodeInTurns(timed: TimedRequest): Buffer | Promise<Buffer> {
  return inTurns(encodeSteps(timed))
}

function* encodeSteps({ request, timeUs }: TimedRequest): Generator<void, Buffer> {
  const writer = new MessageWriter(undefined, expectedBytes(request))
  if (request.kind === 'insert') yield* writeInsert(writer, request)
  else writer.write(LogRequestSchema, { request: yield* messageOf(request) })
  const keyFilter = 'keyFilter' in request ? request.keyFilter : undefined
  writer.write(LogRequestSchema, {
    version: keyFilter === undefined ? version : keyedVersion,
    timeUs,
    keyFilter: keyFilter && filterMessage(keyFilter),
  })
  return writer.finish()
}

/**
 * Decodes the payload of a record, whose checksum was right, in turns.
 *
 * @throws UnknownRecord for what this program does not write
 */
export function decodeInTurns(bytes: Uint8Array): TimedRequest | Promise<TimedRequest> {
  return inTurns(decodeSteps(bytes))
}

function* decodeSteps({ buffer, byteOffset, byteLength }: Uint8Array): Generator<void, TimedRequest> {
  const bytes = Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength)
  try {
    const { version: found, timeUs, request, keyFilter } = Encoded.of(LogRequestSchema, bytes).read()
    if (found === version) return { request: yield* requestOf(request, bytes), timeUs }
    if (found === keyedVersion && keyFilter !== undefined) {
      const keyed = { ...(yield* requestOf(request, bytes)), keyFilter: yield* filterOf(keyFilter) }
      return { request: keyed as ClusterRequest, timeUs }
    }
    throw new UnknownRecord(`a request in the log has version ${found}: this program reads ${keyedVersion}`)
  } catch (error) {
    if (!(error instanceof RangeError) && !(error instanceof DatabaseError)) throw error
    throw new UnknownRecord(
      `a request in the log has parts that this program does not know: ${error.message}`,
    )
  }
}

const version = 1
/** With the filter of a key, which no node may ignore. */
const keyedVersion = 2

type RequestMessage = NonNullable<Init<LogRequest>['request']>

function* messageOf(request: Exclude<ClusterRequest, LoggedInsert>): Generator<void, RequestMessage> {
  switch (request.kind) {
    case 'barrier':
    case 'audit':
      return { case: request.kind, value: {} }
    case 'cut':
      return { case: 'cut', value: request }
    case 'digest':
      return { case: 'digest', value: { ...request, held: request.held.bytes } }
    case 'put': {
      const { id, point, when } = request
      const stored = { vector: { values: point.vector }, payload: payloadMessage(point.payload) }
      return { case: 'put', value: { id: idMessage(id), ...stored, when: conditionMessage(when) } }
    }
    case 'patch': {
      const { id, patch, when } = request
      const value = { id: idMessage(id), patch: patchMessage(patch), when: conditionMessage(when) }
      return { case: 'patch', value }
    }
    case 'remove':
      return { case: 'remove', value: idMessage(request.id) }
    case 'each': {
      const { ids, filter, change } = request
      const patch = change === 'delete' ? undefined : patchMessage(change)
      return { case: 'each', value: { ids: yield* bytesOfIds(ids), filter: filterMessage(filter), patch } }
    }
    case 'expire':
      return { case: 'expire', value: yield* bytesOfIds(request.ids) }
    case 'create': {
      const { words, ...settings } = request.settings
      const declared = { words: words ?? undefined, withoutWords: words === null }
      return { case: 'create', value: { ...settings, ...declared, name: request.name } }
    }
    case 'drop':
      return { case: 'drop', value: request.name }
    case 'aliases':
      return { case: 'aliases', value: request }
  }
}

function* requestOf(request: Fields<LogRequest>['request'], bytes: Buffer): Generator<void, ClusterRequest> {
  switch (request.case) {
    case 'barrier':
    case 'audit':
      return { kind: request.case }
    case 'cut':
      return { kind: 'cut', ...request.value.read() }
    case 'digest': {
      const { node, position, digest, held } = request.value.read()
      const found = { node, position: Number(position), digest: new Uint8Array(digest) }
      return { kind: 'digest', ...found, held: new PartitionSet(held) }
    }
    case 'insert':
      return yield* insertOf(request.value, bytes)
    case 'put': {
      const { id, when, ...point } = request.value.read()
      const stored = storedOf(point, copiesOf(bytes))
      return { kind: 'put', id: given(id, idIn), point: stored, when: yield* conditionOf(when) }
    }
    case 'patch': {
      const { id, patch, when } = request.value.read()
      const change = given(patch, (each) => patchOf(each, copiesOf(bytes)))
      return { kind: 'patch', id: given(id, idIn), patch: change, when: yield* conditionOf(when) }
    }
    case 'remove':
      return { kind: 'remove', id: idIn(request.value) }
    case 'each': {
      const { ids, filter, patch } = request.value.read()
      const change = patch === undefined ? 'delete' : patchOf(patch, copiesOf(bytes))
      return { kind: 'each', ids: yield* idsOf(ids), filter: yield* given(filter, filterOf), change }
    }
    case 'expire':
      return { kind: 'expire', ids: yield* idsOf(request.value) }
    case 'create': {
      const { name, dimension, hnsw, words, withoutWords, quotas } = request.value.read()
      const { m, efConstruction } = given(hnsw, (each) => each.read())
      const declared = withoutWords ? { words: null } : words && { words: wordSettingsOf(words) }
      const bounded = quotas && { quotas: valuesIn(quotas.read()) }
      const settings = { dimension, hnsw: { m, efConstruction }, ...declared, ...bounded }
      return { kind: 'create', name, settings }
    }
    case 'drop':
      return { kind: 'drop', name: request.value }
    case 'aliases':
      return {
        kind: 'aliases',
        set: new Map(request.value.entries('set')),
        remove: request.value.read().remove,
      }
    case undefined:
      throw new RangeError('its kind')
  }
}

/** Reads a part that a message must have. */
function given<Part, Value>(part: Part | undefined, read: (part: Part) => Value): Value {
  if (part === undefined) throw new RangeError('a part is missing')
  return read(part)
}

/** Writes the points one by one, the last one first. */
function* writeInsert(
  writer: MessageWriter,
  { points, onError, identity, idSeed }: LoggedInsert,
): Generator<void, void> {
  for (let at = points.length - 1; at >= 0; at -= 1) {
    writer.item(InsertSchema.field.points, newPointMessage(points[at]!))
    if (at % pointsPerStep === 0) yield
  }
  writer.write(InsertSchema, { continueOnError: onError === 'continue', idSeed, identity })
  writer.head(LogRequestSchema.field.insert.number, 0)
}

function* insertOf(message: Encoded<Insert>, bytes: Buffer): Generator<void, LoggedInsert> {
  const { continueOnError, idSeed, identity } = message.read()
  const vectorOf = copiesOf(bytes)
  const points: NewPoint[] = []
  for (const point of message.items('points')) {
    points.push(newPointOf(point, vectorOf))
    if (points.length % pointsPerStep === 0) yield
  }
  const { keyHash, bodyHash } = identity?.read() ?? {}
  return {
    kind: 'insert',
    points,
    onError: continueOnError ? 'continue' : 'abort',
    idSeed: new Uint8Array(idSeed),
    ...(keyHash &&
      bodyHash && { identity: { keyHash: new Uint8Array(keyHash), bodyHash: new Uint8Array(bodyHash) } }),
  }
}

/** This many take about 0.1 ms. */
const pointsPerStep = 32

/** Estimates the size, so that a large insert is not copied while its buffer grows. */
function expectedBytes(request: ClusterRequest): number {
  if (request.kind !== 'insert') return 0
  return request.points.reduce(
    (sum, { vector, payload }) => sum + vector.byteLength + payload.content.length + 96,
    96,
  )
}

/** The partitions whose points a request is about. */
export function partitionsOf(request: LoggedRequest): PartitionSet {
  if (request.kind === 'insert') {
    const drawn = request.idSeed[0]!
    return PartitionSet.of(request.points.map(({ id }) => (id === undefined ? drawn : partitionOf(id))))
  }
  if ('ids' in request) return PartitionSet.of(request.ids.map(partitionOf))
  return PartitionSet.of([partitionOf(request.id)])
}

/**
 * Whether a node that holds some partitions must apply a request. Every node keeps all idempotency keys: a key can be
 * used again for points of another partition, and the eviction of keys must not depend on what a node holds.
 */
export function concerns(request: LoggedRequest, held: PartitionSet): boolean {
  if (request.kind === 'insert' && request.identity !== undefined) return true
  return partitionsOf(request).common(held).size > 0
}
