import { type CollectionInfo, defaultCollection } from '../../base/collection.ts'
import { DatabaseError } from '../../base/errors.ts'
import { PartitionSet } from '../../base/partitions.ts'
import { fromBytes, toBytes } from '../../base/plain-values.ts'
import { atOnce, inTurns, Turn } from '../../base/turns.ts'
import { type Collection, unindexedBytesMax } from '../../collections/collection.ts'
import type { CollectionSet } from '../../collections/collection-set.ts'
import { pointsIn } from '../../collections/live-points.ts'
import { bytesOfIds, idsOf } from '../../messages/vectors.ts'
import type { Applied } from '../../storage/applied.ts'
import type { HeldPartitions } from '../../write/replica.ts'
import { pointBytes, type TakenPoint } from '../../write/requests.ts'
import type { Applier } from '../log/applier.ts'
import { checkHolds, checkNotAhead } from '../reads/placement.ts'
import {
  decodeQuestion,
  encodeQuestion,
  type PeerCall,
  type PeerHandler,
  type PeerOperation,
  type Peers,
} from '../requests.ts'
import { pause } from '../waiting.ts'

/** Asks for the points of some partitions. */
interface PointsQuestion {
  /** The answer is of this log position or a later one. */
  readonly after: number
  /** The bytes of a `PartitionSet`. */
  readonly partitions: Uint8Array
  /** By collection, the log position of the last copy: points that have not changed since are sent without contents. */
  readonly since: ReadonlyMap<string, number>
  /** Whether the answer has what a node needs for an empty directory, too. */
  readonly forNewNode: boolean
}

/** A message of the answer: a head, then for each collection its own head and its points. */
type PointsPart =
  | {
      readonly kind: 'head'
      readonly logId: string
      readonly position: number
      /** The cluster's clock at that position, in microseconds since 1970. */
      readonly clockUs: number
      readonly collections: number
      /** Only for a new node. */
      readonly aliases: ReadonlyMap<string, string>
    }
  | CollectionHead
  | {
      /** Points that have not changed. */
      readonly kind: 'kept'
      /** 16 bytes each. */
      readonly ids: Uint8Array
      readonly versions: Float64Array
    }
  | { readonly kind: 'points'; readonly points: readonly TakenPoint[] }
  /** In the format of keyed-requests.ts. */
  | { readonly kind: 'keys'; readonly records: readonly Uint8Array[] }

interface CollectionHead {
  readonly kind: 'collection'
  readonly name: string
  readonly position: number
  /** Of all that the node has of it. */
  readonly digest: Uint8Array
  /** Only for a new node. */
  readonly settings?: NewCollection
}

/** What a new node needs of a collection besides its points. */
export interface NewCollection extends Pick<CollectionInfo, 'hnsw' | 'words' | 'quotas'> {
  readonly dimension: number | undefined
  /** The sequence number of its last change. */
  readonly sequence: number
  /** Undefined: it has applied nothing of the log. */
  readonly applied: Applied | undefined
}

interface PointsSenderOptions {
  readonly partitions: HeldPartitions
  readonly set: CollectionSet
  readonly applier: Applier
  /** The short id of the log. */
  readonly logId: string
  /** Whether others can begin with what this node has. */
  readonly serves: () => boolean
  /** How long the asking node waits while this node is behind it. */
  readonly logHoldMs?: number | undefined
}

/**
 * Sends points of partitions that this node holds, as a stream that the asking node pulls:
 *
 *   head ─> for each collection: its head ─> keyed requests, for a new node ─> points: with contents if they have
 *           changed since the last copy, otherwise only their versions
 *
 * There are two operations with the same answer. `points` goes on while the log is applied: what is sent has all
 * changes up to the position of the head of its collection, and perhaps later ones. `pointsHeld` is of one position:
 * the log is held while the answer is collected, for some milliseconds, so it must be short. Nothing is kept from one
 * question to the next.
 *
 * Main thread only.
 */
export class PointsSender {
  readonly #options: PointsSenderOptions

  constructor(options: PointsSenderOptions) {
    this.#options = options
  }

  get handlers(): [PeerOperation, PeerHandler][] {
    return [
      ['points', (body, call) => this.#points(body, call)],
      ['pointsHeld', (body, call) => this.#pointsHeld(body, call)],
    ]
  }

  async *#points(body: Buffer, { signal }: PeerCall): AsyncGenerator<Buffer, void> {
    const question = await decodeQuestion<PointsQuestion>(body)
    if (question.forNewNode && !this.#options.serves())
      throw new DatabaseError('not_ready', 'this node does not serve now')
    for await (const part of this.#parts(question, signal, () => {})) yield await inTurns(toBytes(part))
  }

  async *#pointsHeld(body: Buffer, { signal }: PeerCall): AsyncGenerator<Buffer, void> {
    yield* await this.#collected(await decodeQuestion(body), signal)
  }

  async #collected(question: PointsQuestion, signal: AbortSignal): Promise<readonly Buffer[]> {
    const { applier, logHoldMs = usualLogHoldMs } = this.#options
    using hold = applier.hold()
    await hold.reached(question.after, signal, logHoldMs)
    const parts: Buffer[] = []
    let bytes = 0
    for await (const part of this.#parts(question, signal, checkNotAhead)) {
      parts.push(await inTurns(toBytes(part)))
      bytes += parts.at(-1)!.length
      if (bytes > heldBytesMax) throw tooMany()
    }
    return parts
  }

  /** @param check throws for a collection that cannot be sent as it is at a log position */
  async *#parts(
    question: PointsQuestion,
    signal: AbortSignal,
    check: (collection: Collection, position: number) => void,
  ): AsyncGenerator<PointsPart, void> {
    const { applier, set, logId, partitions: held } = this.#options
    const partitions = new PartitionSet(question.partitions)
    checkHolds(held.now, partitions)
    const { position, clockUs } = applier.applied
    const names = set.list().map(({ name }) => name)
    // A new node opens its directory with the default collection.
    names.sort((one, other) => Number(other === defaultCollection) - Number(one === defaultCollection))
    // A copy: it is encoded in turns, and the log may change the aliases meanwhile.
    const aliases = new Map(question.forNewNode ? set.aliases : [])
    yield { kind: 'head', logId, position, clockUs, collections: names.length, aliases }
    for (const name of names) {
      signal.throwIfAborted()
      try {
        using lease = await set.lease(name)
        const collection = lease.database
        const { position: now } = applier.applied
        check(collection, now)
        if (question.forNewNode) yield* newCollection(set.get(name), collection)
        else yield { kind: 'collection', name, position: now, digest: collection.replica.digest }
        if (partitions.size > 0) yield* pointsOf(collection, partitions, question.since.get(name))
      } catch (error) {
        // Dropped meanwhile: the log tells the asking node, too.
        if (!(error instanceof DatabaseError) || error.reason !== 'collection_not_found') throw error
      }
    }
    // What was sent of a partition that was dropped meanwhile is not complete.
    checkHolds(held.now, partitions)
  }
}

/** The head of a collection for a new node, and its requests with idempotency keys. */
async function* newCollection(
  { name, hnsw, words, quotas }: CollectionInfo,
  collection: Collection,
): AsyncGenerator<PointsPart, void> {
  const snapshot = collection.snapshot()
  try {
    const { applied, dimension, sequence } = snapshot
    const settings = { hnsw, words, quotas, dimension, sequence, applied }
    const { digest } = collection.replica
    yield { kind: 'collection', name, position: applied?.position ?? 0, digest, settings }
    for await (const records of grouped(snapshot.keyedRequests(), (record) => record.length, partBytes))
      yield { kind: 'keys', records }
  } finally {
    snapshot.close()
  }
}

/** @param since the log position of the last copy */
async function* pointsOf(
  collection: Collection,
  partitions: PartitionSet,
  since: number | undefined,
): AsyncGenerator<PointsPart, void> {
  const changedFrom = since === undefined ? 0 : collection.replica.numberAfter(since)
  const turn = new Turn()
  let points: TakenPoint[] = []
  let bytes = 0
  for await (const { ids, versions } of pointsIn(collection.livePoints, (each) => partitions.has(each))) {
    const kept: { readonly ids: string[]; readonly versions: number[] } = { ids: [], versions: [] }
    for (const [at, id] of ids.entries()) {
      if (versions[at]! < changedFrom) {
        kept.ids.push(id)
        kept.versions.push(versions[at]!)
        continue
      }
      const point = collection.stored(id)
      // Deleted since it was listed.
      if (point === undefined) continue
      points.push(point)
      bytes += pointBytes(point.point)
      if (bytes >= partBytes) {
        yield { kind: 'points', points }
        points = []
        bytes = 0
      }
      if (turn.isOver) await turn.next()
    }
    if (kept.ids.length === 0) continue
    yield {
      kind: 'kept',
      ids: atOnce(bytesOfIds(kept.ids)),
      versions: Float64Array.from(kept.versions),
    }
  }
  if (points.length > 0) yield { kind: 'points', points }
}

/** Groups items: each group, except the last one, has the given number of bytes or just above it. */
async function* grouped<Item>(
  items: AsyncIterable<Item> | Iterable<Item>,
  bytesOf: (item: Item) => number,
  groupBytes: number,
): AsyncGenerator<readonly Item[], void> {
  let group: Item[] = []
  let bytes = 0
  for await (const item of items) {
    group.push(item)
    bytes += bytesOf(item)
    if (bytes < groupBytes) continue
    yield group
    group = []
    bytes = 0
  }
  if (group.length > 0) yield group
}

function tooMany(): DatabaseError {
  return new DatabaseError(
    'overloaded',
    `the points that were asked for, or that have changed since they were copied, exceed ${heldBytesMax} bytes: take fewer partitions at a time`,
  )
}

/** About as much as a node pulls at a time. */
const partBytes = 512 * 1024
/** Stays in memory until the other node has received it. */
const heldBytesMax = 64 * 1024 * 1024
const usualLogHoldMs = 10_000

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
