import { DatabaseError } from '../../base/errors.ts'
import type { PartitionSet } from '../../base/partitions.ts'
import { type Collection, unindexedBytesMax } from '../../collections/collection.ts'
import { pointsIn } from '../../collections/live-points.ts'
import { pointBytes, type TakenPoint } from '../../write/requests.ts'
import type { Peers } from '../requests.ts'
import { pause } from '../waiting.ts'
import {
  type CutPart,
  readCutPart,
  readPointsAnswer,
  readPointVersions,
  writeCutQuestion,
  writeListQuestion,
  writePointsQuestion,
} from './partition-codec.ts'

export interface PartitionSource {
  readonly peers: Peers
  /** The node that holds the partitions. */
  readonly node: string
  readonly signal: AbortSignal
}

/** The result of copying a collection. */
interface Copied {
  /** All changes up to this log position are copied. */
  readonly position: number
  /** Points that were fetched. */
  readonly fetched: number
}

/**
 * Replaces the points that a collection has of some partitions with those of another node, as of some moment after
 * the call. This node does not hold the partitions meanwhile, and skips log records about them.
 *
 * @throws DatabaseError with which the other node refuses; `disk_full`, `memory_full`
 */
export async function copyPartitions(
  name: string,
  collection: Collection,
  partitions: PartitionSet,
  { peers, node, signal }: PartitionSource,
): Promise<Copied> {
  const question = writeListQuestion({ collection: name, partitions })
  const seen = new SeenPoints(collection)
  let position: number | undefined
  let fetched = 0
  let wanted = new Set<string>()
  const fetch = async (): Promise<void> => {
    const ids = [...wanted]
    wanted = new Set()
    if (ids.length > 0) await collection.replica.clear(ids)
    for (let at = 0; at < ids.length; ) {
      const body = writePointsQuestion({ collection: name, ids: ids.slice(at) })
      const answer = await peers.ask(node, 'partitionPoints', body, { signal })
      const { looked, points } = readPointsAnswer(answer)
      if (looked === 0) throw new DatabaseError('internal', `node ${node} sent no points`)
      await takeAll(collection, points, () => mostLinked(collection, signal))
      for (const { id } of points) seen.add(id)
      fetched += points.length
      at += looked
    }
  }
  for await (const message of peers.stream(node, 'partitionList', question, { signal })) {
    const listed = readPointVersions(message)
    position ??= listed.position
    for (const [at, id] of listed.ids.entries()) {
      if (!seen.has(id, listed.versions[at]!)) wanted.add(id)
    }
    if (wanted.size >= idsPerFetch) await fetch()
  }
  await fetch()
  await seen.clearOthers(partitions)
  if (position === undefined) throw new DatabaseError('internal', `node ${node} sent no list`)
  return { position, fetched }
}

/** Reads the messages of a cut in order. The opener closes it. */
export class CutReader {
  readonly #parts: AsyncIterator<CutPart>
  #next: CutPart | undefined

  private constructor(parts: AsyncIterator<CutPart>) {
    this.#parts = parts
  }

  static async open(
    question: Parameters<typeof writeCutQuestion>[0],
    { peers, node, signal }: PartitionSource,
  ): Promise<CutReader> {
    async function* parts(): AsyncGenerator<CutPart, void> {
      const body = writeCutQuestion(question)
      for await (const message of peers.stream(node, 'partitionCut', body, { signal }))
        yield readCutPart(message)
    }
    const reader = new CutReader(parts())
    await reader.#advance()
    return reader
  }

  /** Returns the next part if it is of this kind. */
  async take<Kind extends CutPart['kind']>(
    kind: Kind,
  ): Promise<Extract<CutPart, { readonly kind: Kind }> | undefined> {
    const part = this.#next
    if (part?.kind !== kind) return undefined
    await this.#advance()
    return part as Extract<CutPart, { readonly kind: Kind }>
  }

  async close(): Promise<void> {
    await this.#parts.return?.()
  }

  async #advance(): Promise<void> {
    const { value, done } = await this.#parts.next()
    this.#next = done ? undefined : value
  }
}

/**
 * Replaces the points of some partitions with those of a cut. This node has reached the position of the cut, too.
 *
 * @throws DatabaseError `not_ready` when the cut lacks points that have changed
 */
export async function reachCut(
  collection: Collection,
  partitions: PartitionSet,
  cut: CutReader,
): Promise<void> {
  const seen = new SeenPoints(collection)
  const missing = new Set<string>()
  for (;;) {
    const versions = await cut.take('versions')
    const points = versions === undefined ? await cut.take('points') : undefined
    if (versions !== undefined) {
      for (const [at, id] of versions.ids.entries())
        if (!seen.has(id, versions.versions[at]!)) missing.add(id)
    } else if (points !== undefined) {
      const wanted = points.points.filter(({ id }) => missing.delete(id))
      if (wanted.length > 0) await collection.replica.clear(wanted.map(({ id }) => id))
      await takeAll(collection, wanted)
      for (const { id } of wanted) seen.add(id)
    } else break
  }
  if (missing.size > 0) {
    throw new DatabaseError('not_ready', `${missing.size} points have changed and did not arrive: copy again`)
  }
  await seen.clearOthers(partitions)
}

/** The points of a collection that are the same on another node, by slot. */
class SeenPoints {
  readonly #collection: Collection
  #bits: Uint8Array

  constructor(collection: Collection) {
    this.#collection = collection
    this.#bits = new Uint8Array(Math.ceil(collection.livePoints.table.slotCount / 8))
  }

  /** Whether a point is here in this version; marks it as seen if so. */
  has(id: string, version: number): boolean {
    const { livePoints } = this.#collection
    const slot = livePoints.table.slotOf(id)
    if (slot === -1 || livePoints.table.versionOf(slot) !== version) return false
    this.#mark(slot)
    return true
  }

  add(id: string): void {
    this.#mark(this.#collection.livePoints.table.slotOf(id))
  }

  /** Removes the points of some partitions that were not seen. */
  async clearOthers(partitions: PartitionSet): Promise<void> {
    const { livePoints, replica } = this.#collection
    for await (const { slots, ids } of pointsIn(livePoints, (each) => partitions.has(each))) {
      const others = ids.filter((_, at) => !this.#isSeen(slots[at]!))
      if (others.length > 0) await replica.clear(others)
    }
  }

  #isSeen(slot: number): boolean {
    return ((this.#bits[slot >> 3] ?? 0) & (1 << (slot & 7))) !== 0
  }

  #mark(slot: number): void {
    const at = slot >> 3
    if (at >= this.#bits.length) {
      const larger = new Uint8Array(Math.max(at + 1, 2 * this.#bits.length))
      larger.set(this.#bits)
      this.#bits = larger
    }
    this.#bits[at]! |= 1 << (slot & 7)
  }
}

/**
 * Stores points in groups that do not hold up the log for long.
 *
 * @param before called before each group
 */
async function takeAll(
  { replica }: Collection,
  points: readonly TakenPoint[],
  before: () => Promise<void> | undefined = () => undefined,
): Promise<void> {
  let group: TakenPoint[] = []
  let bytes = 0
  for (const point of points) {
    group.push(point)
    bytes += pointBytes(point.point)
    if (bytes < groupBytes) continue
    await before()
    await replica.take(group)
    group = []
    bytes = 0
  }
  if (group.length === 0) return
  await before()
  await replica.take(group)
}

/**
 * Resolves when few points wait to be linked: changes from the log should not wait for points that nobody reads yet.
 */
async function mostLinked(collection: Collection, signal: AbortSignal): Promise<void> {
  for (let waitedMs = 0; waitedMs < linkingMsMax; waitedMs += pauseMs) {
    const { unindexed, dimension } = collection.stats
    if (unindexed * dimension * Float32Array.BYTES_PER_ELEMENT <= unindexedBytesMax / 4) return
    await pause(pauseMs, signal)
    signal.throwIfAborted()
  }
}

const idsPerFetch = 2048
const groupBytes = 256 * 1024
const pauseMs = 10
/** A group is stored after this time in any case: reading or building a graph can take longer. */
const linkingMsMax = 1_000
