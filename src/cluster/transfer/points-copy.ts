import { DatabaseError } from '../../base/errors.ts'
import type { PartitionSet } from '../../base/partitions.ts'
import { fromBytes } from '../../base/plain-values.ts'
import { atOnce, inTurns } from '../../base/turns.ts'
import { type Collection, unindexedBytesMax } from '../../collections/collection.ts'
import { pointsIn } from '../../collections/live-points.ts'
import { idsOf } from '../../messages/vectors.ts'
import { pointBytes } from '../../write/requests.ts'
import { encodeQuestion, type PeerOperation, type Peers } from '../requests.ts'
import { pause } from '../waiting.ts'
import { grouped, type PointsPart, type PointsQuestion } from './points-stream.ts'

/** The node that points are copied from. */
export interface PointsSource {
  readonly peers: Peers
  readonly node: string
  readonly signal: AbortSignal
}

/** Reads the parts of a stream of points in order. The opener disposes of it. */
export class PointsReader implements AsyncDisposable {
  readonly #parts: AsyncIterator<Buffer>
  #next: PointsPart | undefined

  private constructor(parts: AsyncIterator<Buffer>) {
    this.#parts = parts
  }

  static async open(
    operation: Extract<PeerOperation, 'points' | 'pointsHeld'>,
    question: PointsQuestion,
    { peers, node, signal }: PointsSource,
  ): Promise<PointsReader> {
    const stream = peers.stream(node, operation, await encodeQuestion(question), { signal })
    const reader = new PointsReader(stream[Symbol.asyncIterator]())
    await reader.#advance()
    return reader
  }

  /** Returns the next part if it is of this kind. */
  async take<Kind extends PointsPart['kind']>(
    kind: Kind,
  ): Promise<Extract<PointsPart, { readonly kind: Kind }> | undefined> {
    const part = this.#next
    if (part?.kind !== kind) return undefined
    await this.#advance()
    return part as Extract<PointsPart, { readonly kind: Kind }>
  }

  /** Skips to the next collection. */
  async skipPoints(): Promise<void> {
    while (this.#next?.kind === 'kept' || this.#next?.kind === 'points') await this.#advance()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#parts.return?.()
  }

  async #advance(): Promise<void> {
    const { value, done } = await this.#parts.next()
    this.#next = done ? undefined : ((await inTurns(fromBytes(value))) as PointsPart)
  }
}

/**
 * Replaces the points that a collection has of some partitions with those of a stream. This node does not hold the
 * partitions meanwhile, and skips log records about them.
 *
 * @param before called before each group is stored
 * @returns how many points were stored
 * @throws DatabaseError `not_ready` when the stream lacks points that have changed; `disk_full`, `memory_full`
 */
export async function copyPoints(
  collection: Collection,
  partitions: PartitionSet,
  stream: PointsReader,
  before?: () => Promise<void>,
): Promise<number> {
  const seen = new SeenPoints(collection)
  let missing = 0
  let stored = 0
  for (;;) {
    const kept = await stream.take('kept')
    const points = kept === undefined ? (await stream.take('points'))?.points : undefined
    if (kept !== undefined) {
      const { ids, versions } = kept
      for (const [at, id] of atOnce(idsOf(ids)).entries()) if (!seen.has(id, versions[at]!)) missing += 1
    } else if (points !== undefined) {
      const wanted = points.filter(({ id, version }) => !seen.has(id, version))
      if (wanted.length > 0) await collection.replica.clear(wanted.map(({ id }) => id))
      // In groups that do not hold up the log for long.
      for await (const group of grouped(wanted, ({ point }) => pointBytes(point), groupBytes)) {
        await before?.()
        await collection.replica.take(group)
      }
      for (const { id } of wanted) seen.add(id)
      stored += wanted.length
    } else break
  }
  if (missing > 0)
    throw new DatabaseError('not_ready', `${missing} points have changed and did not arrive: copy again`)
  await seen.clearOthers(partitions)
  return stored
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
 * Resolves when few points wait to be linked: changes from the log should not wait for points that nobody reads yet.
 */
export async function mostLinked(collection: Collection, signal: AbortSignal): Promise<void> {
  for (let waitedMs = 0; waitedMs < linkingMsMax; waitedMs += pauseMs) {
    const { unindexed, dimension } = collection.stats
    if (unindexed * dimension * Float32Array.BYTES_PER_ELEMENT <= unindexedBytesMax / 4) return
    await pause(pauseMs, signal)
    signal.throwIfAborted()
  }
}

const groupBytes = 256 * 1024
const pauseMs = 10
/** A group is stored after this time in any case: reading or building a graph can take longer. */
const linkingMsMax = 1_000
