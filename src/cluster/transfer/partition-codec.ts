import type { PartitionSet } from '../../base/partitions.ts'
import type { TakenPoint } from '../../write/requests.ts'
import {
  PackedReader,
  PackedWriter,
  readCounts,
  readIds,
  readPartitions,
  readPayload,
  writeCounts,
  writeIds,
  writePayload,
} from '../log/packed-bytes.ts'

/** Asks which points of some partitions another node has in a collection. The answer is a stream of `PointVersions`. */
interface ListQuestion {
  readonly collection: string
  readonly partitions: PartitionSet
}

/** Points by id and version. */
interface PointVersions {
  /** What is listed from here on includes all changes up to this log position, and perhaps later ones. */
  readonly position: number
  readonly ids: readonly string[]
  readonly versions: Float64Array
}

/** Asks for points by id. */
interface PointsQuestion {
  readonly collection: string
  readonly ids: readonly string[]
}

/** The points that were found for the first `looked` ids. */
interface PointsAnswer {
  readonly looked: number
  readonly points: readonly TakenPoint[]
}

/** Asks for the state of some partitions at one log position. The answer is a stream of `CutPart`s, a head first. */
export interface CutQuestion {
  /** The cut is of this position or a later one. */
  readonly after: number
  readonly partitions: PartitionSet
  /** By collection, the position of its last list: points that have changed since are sent with their contents. */
  readonly since: ReadonlyMap<string, number>
}

export type CutPart =
  | { readonly kind: 'head'; readonly position: number; readonly collections: number }
  /** Begins a collection; the digest covers all that the node has of it. */
  | { readonly kind: 'collection'; readonly name: string; readonly digest: Uint8Array }
  | ({ readonly kind: 'versions' } & Omit<PointVersions, 'position'>)
  | { readonly kind: 'points'; readonly points: readonly TakenPoint[] }

export function writeListQuestion({ collection, partitions }: ListQuestion): Buffer {
  const to = new PackedWriter()
  to.text(collection)
  to.raw(partitions.bytes)
  return to.written
}

/** @throws RangeError when the bytes are invalid, like all readers here */
export function readListQuestion(bytes: Uint8Array): ListQuestion {
  const from = new PackedReader(bytes)
  return { collection: from.text(), partitions: readPartitions(from) }
}

export function writePointVersions({ position, ...listed }: PointVersions): Buffer {
  const to = new PackedWriter(16 + listed.ids.length * 24)
  to.count(position)
  writeVersions(to, listed)
  return to.written
}

export function readPointVersions(bytes: Uint8Array): PointVersions {
  const from = new PackedReader(bytes)
  return { position: from.count(), ...readVersions(from) }
}

export function writePointsQuestion({ collection, ids }: PointsQuestion): Buffer {
  const to = new PackedWriter()
  to.text(collection)
  writeIds(to, ids)
  return to.written
}

export function readPointsQuestion(bytes: Uint8Array): PointsQuestion {
  const from = new PackedReader(bytes)
  return { collection: from.text(), ids: readIds(from) }
}

export function writePointsAnswer({ looked, points }: PointsAnswer): Buffer {
  const to = new PackedWriter(64 * 1024)
  to.count(looked)
  writePoints(to, points)
  return to.written
}

export function readPointsAnswer(bytes: Uint8Array): PointsAnswer {
  const from = new PackedReader(bytes)
  return { looked: from.count(), points: readPoints(from) }
}

export function writeCutQuestion({ after, partitions, since }: CutQuestion): Buffer {
  const to = new PackedWriter()
  to.count(after)
  to.raw(partitions.bytes)
  writeCounts(to, since)
  return to.written
}

export function readCutQuestion(bytes: Uint8Array): CutQuestion {
  const from = new PackedReader(bytes)
  const [after, partitions] = [from.count(), readPartitions(from)]
  return { after, partitions, since: readCounts(from) }
}

export function writeCutPart(part: CutPart): Buffer {
  const to = new PackedWriter()
  to.byte(kinds.indexOf(part.kind))
  if (part.kind === 'head') {
    to.count(part.position)
    to.count(part.collections)
  } else if (part.kind === 'collection') {
    to.text(part.name)
    to.bytes(part.digest)
  } else if (part.kind === 'versions') writeVersions(to, part)
  else writePoints(to, part.points)
  return to.written
}

export function readCutPart(bytes: Uint8Array): CutPart {
  const from = new PackedReader(bytes)
  const kind = kinds[from.byte()]
  if (kind === 'head') return { kind, position: from.count(), collections: from.count() }
  if (kind === 'collection') return { kind, name: from.text(), digest: from.bytes() }
  if (kind === 'versions') return { kind, ...readVersions(from) }
  if (kind === 'points') return { kind, points: readPoints(from) }
  throw new RangeError('there is no such part of a cut')
}

const kinds = ['head', 'collection', 'versions', 'points'] as const

function writeVersions(to: PackedWriter, { ids, versions }: Omit<PointVersions, 'position'>): void {
  writeIds(to, ids)
  to.float64s(versions)
}

function readVersions(from: PackedReader): Omit<PointVersions, 'position'> {
  const length = from.length(24)
  return { ids: Array.from({ length }, () => from.id()), versions: from.float64s(length) }
}

function writePoints(to: PackedWriter, points: readonly TakenPoint[]): void {
  to.count(points.length)
  for (const { id, sequence, version, order, point } of points) {
    to.id(id)
    to.float64s(Float64Array.of(sequence, version, order))
    to.vector(point.vector)
    writePayload(to, point.payload)
  }
}

function readPoints(from: PackedReader): TakenPoint[] {
  return Array.from({ length: from.length(40) }, () => {
    const id = from.id()
    const [sequence, version, order] = [from.float64(), from.float64(), from.float64()]
    return { id, sequence, version, order, point: { vector: from.vector(), payload: readPayload(from) } }
  })
}
