import { randomUUID } from 'node:crypto'
import { cancellation, DatabaseError } from '../../base/errors.ts'
import { PartitionSet } from '../../base/partitions.ts'
import { Turn } from '../../base/turns.ts'
import type { Collection } from '../../collections/collection.ts'
import type { CollectionSet } from '../../collections/collection-set.ts'
import {
  SnapshotHeldSchema,
  SnapshotHoldSchema,
  SnapshotPartSchema,
} from '../../messages/generated/cluster_pb.js'
import { Encoded } from '../../messages/reader.ts'
import { encode } from '../../messages/writer.ts'
import type { PointsSnapshot } from '../../points/database.ts'
import { PartitionDigest } from '../../storage/applied.ts'
import { SnapshotWriter } from '../../storage/snapshot/snapshot-format.ts'
import { SnapshotReader } from '../../storage/snapshot/snapshot-reader.ts'
import type { Snapshot } from '../../storage/store.ts'
import type { HeldPartitions } from '../../write/replica.ts'
import type { Applier, LogHold } from '../log/applier.ts'
import { type CoverPart, checkHolds, checkNotAhead } from '../reads/placement.ts'
import type { PeerHandler, PeerOperation, Peers } from '../requests.ts'

export interface MergedSnapshotOptions {
  /** This node. */
  readonly self: string
  /** Sends this node's own part. */
  readonly sender: SnapshotPartSender
  readonly peers: Peers
  /**
   * Returns the fewest nodes that hold all partitions together, without the given ones.
   *
   * @throws DatabaseError `not_ready` when there are none
   */
  readonly cover: (avoid: ReadonlySet<string>) => Promise<readonly CoverPart[]>
  /** The collection's own name, not an alias: an alias can change meanwhile. */
  readonly collection: string
  /** The snapshot is of this log position or a later one. */
  readonly position: number
  /** How long a node is asked to hold its log. */
  readonly holdMs?: number | undefined
  /** Aborts the opening of the snapshot; an open snapshot ends with `close`. */
  readonly signal: AbortSignal | undefined
}

/**
 * Opens a snapshot of a collection whose points are on several nodes. The fewest nodes that hold all of it stop
 * applying the log. Each opens a snapshot of its part at the highest position that one of them has reached, and
 * continues. Before the first byte is sent, another owner can replace a node that fails.
 *
 * @throws DatabaseError with which a node refuses the snapshot; `not_ready` when no owner of a partition answers
 */
export async function openMergedSnapshot(options: MergedSnapshotOptions): Promise<MergedSnapshot> {
  const failed = new Set<string>()
  for (let attempt = 1; ; attempt += 1) {
    const parts = await options.cover(failed)
    const stop = new AbortController()
    const begun = await new Beginning(options, parts, stop).begin()
    if ('parts' in begun) return new MergedSnapshot(begun.position, begun.parts, stop)
    stop.abort()
    if (options.signal?.aborted) throw cancellation(options.signal)
    if (!begun.error.isTransient || attempt === attemptsMax) throw begun.error.error
    failed.add(begun.error.node)
  }
}

/** The part of one node, open at its first point. */
interface OpenPart {
  readonly node: string
  readonly reader: SnapshotReader
}

interface Failure {
  readonly node: string
  readonly error: unknown
  /** Whether another node, or another attempt, may succeed. */
  readonly isTransient: boolean
}

type Begun = { readonly position: number; readonly parts: readonly OpenPart[] } | { readonly error: Failure }

/** One attempt to open a snapshot on several nodes at the same log position. */
class Beginning {
  readonly #options: MergedSnapshotOptions
  readonly #parts: readonly CoverPart[]
  readonly #stop: AbortSignal
  readonly #token: string = randomUUID()

  /** @param stop ends everything that was opened */
  constructor(options: MergedSnapshotOptions, parts: readonly CoverPart[], stop: AbortController) {
    this.#options = options
    this.#parts = parts
    const { signal } = options
    this.#stop = signal === undefined ? stop.signal : AbortSignal.any([signal, stop.signal])
  }

  async begin(): Promise<Begun> {
    const holds = await this.#each((part) => this.#hold(part))
    if ('error' in holds) {
      await this.#release()
      return holds
    }
    const position = Math.max(this.#options.position, ...holds.values)
    const parts: OpenPart[] = []
    const opened = await this.#each(async ({ node }) => {
      parts.push({ node, reader: await SnapshotReader.open(this.#partOf(node, position)) })
    })
    if (!('error' in opened)) return { position, parts }
    closeAll(parts)
    await this.#release()
    return opened
  }

  /**
   * Asks all nodes in parallel and waits for all of them. Returns their answers, or the error of the first that
   * failed.
   */
  async #each<Value>(
    ask: (part: CoverPart) => Promise<Value>,
  ): Promise<{ readonly values: readonly Value[] } | { readonly error: Failure }> {
    const answers = await Promise.allSettled(this.#parts.map(ask))
    const at = answers.findIndex(({ status }) => status === 'rejected')
    if (at === -1) {
      return { values: answers.map((each) => (each as PromiseFulfilledResult<Value>).value) }
    }
    const { reason: error } = answers[at] as PromiseRejectedResult
    return { error: { node: this.#parts[at]!.node, error, isTransient: isTransient(error) } }
  }

  async #hold({ node, partitions }: CoverPart): Promise<number> {
    const { self, sender, peers, collection, holdMs = defaultHoldMs } = this.#options
    const question = { token: this.#token, collection, partitions }
    if (node === self) return await sender.hold(question)
    const asked = { signal: this.#stop, timeoutMs: holdMs }
    const held = await peers.ask(node, 'snapshotHold', encodeHold(question), asked)
    return Number(Encoded.of(SnapshotHeldSchema, held).read().position)
  }

  #partOf(node: string, position: number): AsyncIterable<Buffer> {
    const { self, sender, peers } = this.#options
    const question = { token: this.#token, position }
    if (node === self) return sender.part(question, this.#stop)
    return peers.stream(node, 'snapshotPart', encode(SnapshotPartSchema, question), { signal: this.#stop })
  }

  /** Releases all holds. A node that cannot be reached releases its own hold after a while. */
  async #release(): Promise<void> {
    const { self, sender, peers, holdMs = defaultHoldMs } = this.#options
    const token = Buffer.from(this.#token)
    const ask = (node: string): Promise<unknown> =>
      peers.ask(node, 'snapshotRelease', token, { timeoutMs: holdMs })
    sender.release(this.#token)
    const others = this.#parts.filter(({ node }) => node !== self)
    await Promise.allSettled(others.map(({ node }) => ask(node)))
  }
}

/**
 * The points of all parts as one snapshot. They are read and verified while the snapshot is read. The opener closes
 * it.
 */
export class MergedSnapshot implements PointsSnapshot {
  /** The log position of the snapshot. */
  readonly position: number
  readonly databaseId: string
  readonly sequence: number
  readonly points: number
  readonly #parts: readonly OpenPart[]
  readonly #stop: AbortController

  constructor(position: number, parts: readonly OpenPart[], stop: AbortController) {
    const headers = parts.map(({ reader }) => reader.header)
    this.position = position
    this.databaseId = headers[0]!.databaseId
    this.sequence = Math.max(...headers.map(({ sequence }) => sequence))
    this.points = headers.reduce((sum, { points }) => sum + points, 0)
    this.#parts = parts
    this.#stop = stop
  }

  async *chunks(): AsyncGenerator<Buffer> {
    const { databaseId, sequence, points } = this
    const headers = this.#parts.map(({ reader }) => reader.header)
    const dimension = headers.find((header) => header.dimension !== undefined)?.dimension
    const writer = new SnapshotWriter({ databaseId, dimension, sequence, points })
    yield writer.begin()
    const turn = new Turn()
    for (const { node, reader } of this.#parts) {
      try {
        for await (const point of reader.packedPoints()) {
          const chunk = writer.add(point)
          if (chunk !== undefined) yield chunk
          if (turn.isOver) await turn.next()
        }
      } catch (cause) {
        throw new DatabaseError('internal', `the part of node ${node} ended too early`, { cause })
      }
    }
    yield* writer.end()
  }

  close(): void {
    this.#stop.abort()
    closeAll(this.#parts)
  }
}

/** Does not wait for the nodes: nobody needs their answers any more. */
function closeAll(parts: readonly OpenPart[]): void {
  for (const { reader } of parts) reader.close().catch(() => {})
}

function isTransient(error: unknown): boolean {
  if (!(error instanceof DatabaseError)) return false
  return ['not_ready', 'shutting_down', 'deadline_exceeded'].includes(error.reason)
}

const attemptsMax = 4
/** A node that takes longer would keep the others from applying the log. */
const defaultHoldMs = 2_000

/** Asks a node to stop applying the log until a snapshot has begun. */
interface HoldQuestion {
  /** Identifies the hold; drawn by the asking node. */
  readonly token: string
  readonly collection: string
  /** The partitions that the snapshot takes from this node. */
  readonly partitions: PartitionSet
}

/** Asks for the points as they are at a log position. The answer is the bytes of a snapshot of them. */
interface PartQuestion {
  readonly token: string
  /** Not below the position that the node is held at. */
  readonly position: number
}

interface SnapshotPartSenderOptions {
  readonly partitions: HeldPartitions
  readonly set: CollectionSet
  readonly applier: Applier
  /**
   * How long the log is held for a question that does not arrive, and how long to wait when this node is behind the
   * others.
   */
  readonly logHoldMs?: number | undefined
}

/**
 * Sends this node's part of a snapshot that several nodes make together, all at the same log position:
 *
 *   hold ─> starts no further record, and returns its position ─> part ─> applies the log up to the requested position
 *     ─> opens a snapshot of its store, which shows that position from then on ─> the log continues ─> sends the points
 *
 * The log is held from the first question to the second one: for as long as the slowest node takes to answer the
 * first. A node that gets no second question continues after some seconds, and has no hold then.
 *
 * Main thread only.
 */
export class SnapshotPartSender {
  readonly #options: SnapshotPartSenderOptions
  readonly #waiting = new Map<string, Waiting>()

  constructor(options: SnapshotPartSenderOptions) {
    this.#options = options
  }

  get handlers(): [PeerOperation, PeerHandler][] {
    return [
      [
        'snapshotHold',
        async (body) => encode(SnapshotHeldSchema, { position: await this.hold(decodeHold(body)) }),
      ],
      ['snapshotPart', (body, { signal }) => this.part(decodePart(body), signal)],
      ['snapshotRelease', async (body) => this.release(body.toString())],
    ]
  }

  /**
   * Holds the log.
   *
   * @returns the position it is held at
   * @throws DatabaseError `not_ready` when this node does not hold the partitions; `collection_not_found`;
   *   `overloaded`
   */
  async hold({ token, collection, partitions }: HoldQuestion): Promise<number> {
    checkHolds(this.#options.partitions.now, partitions)
    if (this.#waiting.size >= waitingMax) {
      throw new DatabaseError('overloaded', `${waitingMax} snapshots are being opened: try again later`)
    }
    const lease = await this.#options.set.lease(collection)
    const hold = this.#options.applier.hold()
    const timer = setTimeout(() => this.release(token), this.#logHoldMs)
    this.#waiting.set(token, { lease, hold, partitions, timer })
    return hold.position
  }

  /**
   * Yields the points of the partitions when the log is applied up to the position.
   *
   * @throws DatabaseError `not_ready` when the log is no longer held, or a partition was dropped; `overloaded` while
   *   another snapshot of the collection is being read
   */
  async *part({ token, position }: PartQuestion, signal: AbortSignal): AsyncGenerator<Buffer, void> {
    const { lease: claimed, hold, partitions } = this.#claim(token)
    using lease = claimed
    const begun = await this.#begin(lease.database, { hold, partitions, position }, signal)
    try {
      yield* begun.snapshot.chunks({ partitions, points: begun.points })
    } finally {
      begun.snapshot.close()
    }
  }

  /** Lets the log continue without a snapshot. Idempotent. */
  release(token: string): Buffer {
    if (this.#waiting.has(token)) {
      const { lease, hold } = this.#claim(token)
      hold.end()
      lease[Symbol.dispose]()
    }
    return noBytes
  }

  /** Ends all holds. */
  close(): void {
    for (const token of [...this.#waiting.keys()]) this.release(token)
  }

  async #begin(
    collection: Collection,
    { hold, partitions, position }: Pick<Waiting, 'hold' | 'partitions'> & { readonly position: number },
    signal: AbortSignal,
  ): Promise<{ readonly snapshot: Snapshot; readonly points: number }> {
    const waitMs = this.#logHoldMs
    const timeout = AbortSignal.timeout(waitMs)
    try {
      await hold.reached(position, AbortSignal.any([signal, timeout])).catch((error: unknown) => {
        if (!timeout.aborted) throw error
        throw new DatabaseError('not_ready', `this node has not reached position ${position} in ${waitMs} ms`)
      })
      checkHolds(this.#options.partitions.now, partitions)
      checkNotAhead(collection, position)
      const digest = new PartitionDigest(collection.replica.digest)
      const points = [...partitions].reduce((sum, each) => sum + digest.pointsIn(each), 0)
      return { snapshot: collection.snapshot(), points }
    } finally {
      hold.end()
    }
  }

  get #logHoldMs(): number {
    return this.#options.logHoldMs ?? usualLogHoldMs
  }

  #claim(token: string): Waiting {
    const waiting = this.#waiting.get(token)
    if (waiting === undefined) {
      throw new DatabaseError('not_ready', 'this node no longer holds the log for this snapshot')
    }
    clearTimeout(waiting.timer)
    this.#waiting.delete(token)
    return waiting
  }
}

/** A hold of the log that waits for the second question. */
interface Waiting {
  readonly lease: Disposable & { readonly database: Collection }
  readonly hold: LogHold
  readonly partitions: PartitionSet
  readonly timer: NodeJS.Timeout
}

function encodeHold({ partitions, ...question }: HoldQuestion): Buffer {
  return encode(SnapshotHoldSchema, { ...question, partitions: partitions.bytes })
}

function decodeHold(bytes: Buffer): HoldQuestion {
  const { partitions, ...question } = Encoded.of(SnapshotHoldSchema, bytes).read()
  return { ...question, partitions: new PartitionSet(partitions) }
}

function decodePart(bytes: Buffer): PartQuestion {
  const { token, position } = Encoded.of(SnapshotPartSchema, bytes).read()
  return { token, position: Number(position) }
}

const noBytes = Buffer.alloc(0)
const usualLogHoldMs = 5_000
const waitingMax = 16
