import { attributesFromJson, attributeToJson } from '../../base/attribute-json.ts'
import type { AttributeValue } from '../../base/attributes.ts'
import type { CollectionSettings } from '../../base/collection.ts'
import { idBytes } from '../../base/ids.ts'
import { PartitionSet, partitionOf } from '../../base/partitions.ts'
import {
  conflictRules,
  contentTypes,
  type NewPoint,
  type Patch,
  type Precondition,
} from '../../base/point.ts'
import { atOnce, inTurns } from '../../base/turns.ts'
import type { RequestIdentity } from '../../points/database.ts'
import type { FoundPoints, LoggedInsert, LoggedRequest } from '../../write/requests.ts'
import { readFilter, writeFilter } from './filter-bytes.ts'
import {
  nameOf,
  PackedReader,
  PackedWriter,
  readOptional,
  readPayload,
  writeOptional,
  writePayload,
} from './packed-bytes.ts'
import { UnknownRecord } from './records.ts'

/** What one record of a cluster's log requests from every replica. */
export type ClusterRequest =
  | LoggedRequest
  /** Changes nothing. Advances the clock, and shows its sender that everything before it is applied. */
  | { readonly kind: 'barrier' }
  /** All replicas compare what they hold of a collection at this record. */
  | { readonly kind: 'audit' }
  | { readonly kind: 'create'; readonly name: string; readonly settings: CollectionSettings }
  | { readonly kind: 'drop'; readonly name: string }
  | {
      readonly kind: 'aliases'
      readonly set: ReadonlyMap<string, string>
      readonly remove: readonly string[]
    }

/** A request with the clock of the node that received it, in microseconds since 1970. */
interface TimedRequest {
  readonly request: ClusterRequest
  readonly timeUs: number
}

/**
 * Encodes the payload of a record:
 *
 *   ├ version u8 │ kind u8 │ the sender's clock, µs since 1970, f64 │ fields of the kind ┤
 *
 * Fields follow each other without names, in the formats of `PackedWriter`. Attributes are canonical JSON, as on
 * disk; vectors are float32. The numbers of versions and kinds never change.
 */
export function encodeRequest(timed: TimedRequest): Buffer {
  return atOnce(encodeSteps(timed))
}

/** The same in turns, for requests with any number of points. */
export function encodeInTurns(timed: TimedRequest): Buffer | Promise<Buffer> {
  return inTurns(encodeSteps(timed))
}

function* encodeSteps({ request, timeUs }: TimedRequest): Generator<void, Buffer> {
  const to = new PackedWriter(expectedBytes(request))
  to.byte(version)
  const isOfFound = request.kind === 'insert' && request.found !== undefined
  to.byte(isOfFound ? insertOfFound : kinds[request.kind])
  to.float64(timeUs)
  yield* writers[request.kind](to, request as never) ?? []
  return to.written
}

/**
 * Decodes the payload of a record, whose checksum was right.
 *
 * @throws UnknownRecord for what this program does not write
 */
export function decodeRequest(bytes: Uint8Array): TimedRequest {
  return atOnce(decodeSteps(bytes))
}

/** The same in turns, for requests with any number of points. */
export function decodeInTurns(bytes: Uint8Array): TimedRequest | Promise<TimedRequest> {
  return inTurns(decodeSteps(bytes))
}

function* decodeSteps(bytes: Uint8Array): Generator<void, TimedRequest> {
  try {
    return yield* decodeKnown(bytes)
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    throw new UnknownRecord(
      `a request in the log has parts that this program does not know: ${error.message}`,
    )
  }
}

/** @throws UnknownRecord, RangeError */
function* decodeKnown(bytes: Uint8Array): Generator<void, TimedRequest> {
  const from = new PackedReader(bytes)
  const found = from.byte()
  if (found !== version) {
    throw new UnknownRecord(`a request in the log has version ${found}: this program reads ${version}`)
  }
  const number = from.byte()
  const kind = number === insertOfFound ? 'insert' : kindsByNumber.get(number)
  if (kind === undefined) throw new UnknownRecord(`a request in the log is of the unknown kind ${number}`)
  const timeUs = from.float64()
  const request =
    number === insertOfFound ? yield* readInsertOfFound(from) : yield* steps(readers[kind](from))
  if (!from.isAtEnd) throw new RangeError('there are bytes after the end')
  return { request, timeUs }
}

/** Takes the steps of a result that is made in steps. */
function* steps<Result extends object>(made: Result | Generator<void, Result>): Generator<void, Result> {
  return Symbol.iterator in made ? yield* made : made
}

const version = 1

type Kind = ClusterRequest['kind']
type OfKind<Name extends Kind> = Extract<ClusterRequest, { readonly kind: Name }>

const kinds: Readonly<Record<Kind, number>> = {
  barrier: 1,
  insert: 2,
  put: 3,
  patch: 4,
  remove: 5,
  each: 6,
  expire: 7,
  create: 8,
  drop: 9,
  aliases: 10,
  audit: 11,
}

/**
 * An insert with the result of looking up its points. A program that does not know this kind must not decide the
 * insert by its own points.
 */
const insertOfFound = 12

const kindsByNumber: ReadonlyMap<number, Kind> = new Map(
  (Object.keys(kinds) as Kind[]).map((kind) => [kinds[kind], kind]),
)

/** Long requests are written in steps. */
const writers: {
  readonly [Name in Kind]: (to: PackedWriter, request: OfKind<Name>) => Generator<void, void> | void
} = {
  barrier: () => {},
  audit: () => {},
  insert: writeInsert,
  put: (to, { id, point, when }) => {
    to.id(id)
    writePoint(to, point)
    writeCondition(to, when)
  },
  patch: (to, { id, patch, when }) => {
    to.id(id)
    writePatch(to, patch)
    writeCondition(to, when)
  },
  remove: (to, { id }) => to.id(id),
  each: function* (to, { ids, filter, change }) {
    yield* writeIdsInSteps(to, ids)
    writeFilter(to, filter)
    writeOptional(to, change === 'delete' ? undefined : change, (patch) => writePatch(to, patch))
  },
  expire: (to, { ids }) => writeIdsInSteps(to, ids),
  create: (to, { name, settings: { dimension, hnsw } }) => {
    to.text(name)
    for (const each of [dimension, hnsw.m, hnsw.efConstruction]) writeOptional(to, each, (n) => to.count(n))
  },
  drop: (to, { name }) => to.text(name),
  aliases: (to, { set, remove }) => {
    to.count(set.size)
    for (const [alias, target] of set) {
      to.text(alias)
      to.text(target)
    }
    to.count(remove.length)
    for (const each of remove) to.text(each)
  },
}

/** Long requests are read in steps. */
const readers: {
  readonly [Name in Kind]: (from: PackedReader) => OfKind<Name> | Generator<void, OfKind<Name>>
} = {
  barrier: () => ({ kind: 'barrier' }),
  audit: () => ({ kind: 'audit' }),
  insert: readInsert,
  put: (from) => ({ kind: 'put', id: from.id(), point: readPoint(from), when: readCondition(from) }),
  patch: (from) => ({ kind: 'patch', id: from.id(), patch: readPatch(from), when: readCondition(from) }),
  remove: (from) => ({ kind: 'remove', id: from.id() }),
  each: function* (from) {
    const ids = yield* readIdsInSteps(from)
    const filter = readFilter(from)
    return { kind: 'each', ids, filter, change: readOptional(from, () => readPatch(from)) ?? 'delete' }
  },
  expire: function* (from) {
    return { kind: 'expire', ids: yield* readIdsInSteps(from) }
  },
  create: (from) => {
    const name = from.text()
    const [dimension, m, efConstruction] = [1, 2, 3].map(() => readOptional(from, () => from.count()))
    return { kind: 'create', name, settings: { dimension, hnsw: { m, efConstruction } } }
  },
  drop: (from) => ({ kind: 'drop', name: from.text() }),
  aliases: (from) => {
    const set = new Map(Array.from({ length: from.length(2) }, () => [from.text(), from.text()]))
    return { kind: 'aliases', set, remove: Array.from({ length: from.length(1) }, () => from.text()) }
  },
}

function* writeIdsInSteps(to: PackedWriter, ids: readonly string[]): Generator<void, void> {
  to.count(ids.length)
  for (const [at, id] of ids.entries()) {
    to.id(id)
    if (at % idsPerStep === 0) yield
  }
}

function* readIdsInSteps(from: PackedReader): Generator<void, string[]> {
  const ids: string[] = []
  for (let left = from.length(idBytes); left > 0; left -= 1) {
    ids.push(from.id())
    if (left % idsPerStep === 0) yield
  }
  return ids
}

/** This many take about 0.1 ms. */
const idsPerStep = 256
const pointsPerStep = 32

function* writeInsert(
  to: PackedWriter,
  { points, onError, identity, idSeed, found }: LoggedInsert,
): Generator<void, void> {
  to.byte(onError === 'continue' ? 1 : 0)
  to.bytes(idSeed)
  writeOptional(to, identity, ({ keyHash, bodyHash }) => {
    to.bytes(keyHash)
    to.bytes(bodyHash)
  })
  to.count(points.length)
  for (const [at, point] of points.entries()) {
    writePoint(to, point)
    writeOptional(to, point.id, (id) => to.id(id))
    writeOptional(to, point.onConflict, (rule) => to.byte(conflictRules.indexOf(rule)))
    if (at % pointsPerStep === 0) yield
  }
  if (found !== undefined) writeFound(to, found)
}

function writeFound(to: PackedWriter, { asOf, expiries }: FoundPoints): void {
  to.count(asOf)
  to.count(expiries.size)
  for (const [index, expiresAtUs] of expiries) {
    to.count(index)
    to.float64(expiresAtUs)
  }
}

function* readInsertOfFound(from: PackedReader): Generator<void, LoggedInsert> {
  const insert = yield* readInsert(from)
  const asOf = from.count()
  const expiries = Array.from({ length: from.length(9) }, () => [from.count(), from.float64()] as const)
  return { ...insert, found: { asOf, expiries: new Map(expiries) } }
}

function* readInsert(from: PackedReader): Generator<void, LoggedInsert> {
  const onError = from.byte() === 1 ? 'continue' : 'abort'
  const idSeed = from.bytes()
  const identity = readOptional(
    from,
    (): RequestIdentity => ({ keyHash: from.bytes(), bodyHash: from.bytes() }),
  )
  const points: NewPoint[] = []
  for (let left = from.length(6); left > 0; left -= 1) {
    const point = readPoint(from)
    const id = readOptional(from, () => from.id())
    const onConflict = readOptional(from, () => nameOf(conflictRules, from.byte()))
    points.push({ ...point, ...(id === undefined ? {} : { id }), ...(onConflict && { onConflict }) })
    if (left % pointsPerStep === 0) yield
  }
  return { kind: 'insert', points, onError, idSeed, ...(identity && { identity }) }
}

function writePoint(to: PackedWriter, { vector, payload }: Pick<NewPoint, 'vector' | 'payload'>): void {
  to.vector(vector)
  writePayload(to, payload)
}

function readPoint(from: PackedReader): Pick<NewPoint, 'vector' | 'payload'> {
  const vector = from.vector()
  return { vector, payload: readPayload(from) }
}

export function writePatch(
  to: PackedWriter,
  { set, unset, content, contentType, expiresAtUs, vector }: Patch,
): void {
  writeOptional(to, set, (paths) => {
    to.count(paths.size)
    // In order: a path can lead into the value of an earlier one.
    for (const [path, value] of paths) {
      to.text(path)
      to.text(`{"v":${attributeToJson(value)}}`)
    }
  })
  writeOptional(to, unset, (paths) => {
    to.count(paths.length)
    for (const path of paths) to.text(path)
  })
  writeOptional(to, content, (text) => to.text(text))
  writeOptional(to, contentType, (type) => to.byte(contentTypes.indexOf(type)))
  writeOptional(to, expiresAtUs, (us) => to.float64(us ?? Number.NaN))
  writeOptional(to, vector, (numbers) => to.vector(numbers))
}

export function readPatch(from: PackedReader): Patch {
  const set = readOptional(from, () => new Map(Array.from({ length: from.length(2) }, () => readPath(from))))
  const unset = readOptional(from, () => Array.from({ length: from.length(1) }, () => from.text()))
  const content = readOptional(from, () => from.text())
  const contentType = readOptional(from, () => nameOf(contentTypes, from.byte()))
  const expiresAtUs = readOptional(from, () => from.float64())
  const vector = readOptional(from, () => from.vector())
  return {
    ...(set && { set }),
    ...(unset && { unset }),
    ...(content === undefined ? {} : { content }),
    ...(contentType && { contentType }),
    ...(expiresAtUs === undefined ? {} : { expiresAtUs: Number.isNaN(expiresAtUs) ? null : expiresAtUs }),
    ...(vector && { vector }),
  }
}

function readPath(from: PackedReader): [string, AttributeValue] {
  const path = from.text()
  const value = attributesFromJson(from.text()).get('v')
  if (value === undefined) throw new RangeError('a patch sets a path to nothing')
  return [path, value]
}

const conditionKinds = { none: 0, absent: 1, version: 2, filter: 3 } as const

function writeCondition(to: PackedWriter, when: Precondition | undefined): void {
  to.byte(conditionKinds[when?.kind ?? 'none'])
  if (when?.kind === 'version') to.float64(when.version)
  else if (when?.kind === 'filter') writeFilter(to, when.filter)
}

function readCondition(from: PackedReader): Precondition | undefined {
  const kind = from.byte()
  if (kind === conditionKinds.absent) return { kind: 'absent' }
  if (kind === conditionKinds.version) return { kind: 'version', version: from.float64() }
  if (kind === conditionKinds.filter) return { kind: 'filter', filter: readFilter(from) }
  if (kind !== conditionKinds.none) throw new RangeError(`no condition has the number ${kind}`)
  return undefined
}

/** Estimates the size, so that a large insert is not copied while its buffer grows. */
function expectedBytes(request: ClusterRequest): number {
  if (request.kind !== 'insert') return 256
  return request.points.reduce(
    (sum, { vector, payload }) => sum + vector.byteLength + payload.content.length + 64,
    64,
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
 * used again for points of another partition, and the eviction of keys must not depend on what a node holds. Every
 * node also decides about inserts with looked-up points, so that the asking node learns immediately when the lookup
 * was stale.
 */
export function concerns(request: LoggedRequest, held: PartitionSet): boolean {
  if (request.kind === 'insert' && (request.identity ?? request.found) !== undefined) return true
  return partitionsOf(request).common(held).size > 0
}
