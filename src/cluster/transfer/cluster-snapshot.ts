import { assert, cancellation, DatabaseError } from '../../base/errors.ts'
import { newId, PartitionSet } from '../../base/partitions.ts'
import { Turn } from '../../base/turns.ts'
import type { Collection } from '../../collections/collection.ts'
import type { CollectionSet } from '../../collections/collection-set.ts'
import type { PointsSnapshot } from '../../points/database.ts'
import { addSums, PartitionDigest } from '../../storage/applied.ts'
import {
  type Changes,
  type SnapshotHeader,
  SnapshotWriter,
  sortOrders,
} from '../../storage/snapshot/snapshot-format.ts'
import { SnapshotReader } from '../../storage/snapshot/snapshot-reader.ts'
import type { Moment, Snapshot } from '../../storage/store.ts'
import type { HeldPartitions } from '../../write/replica.ts'
import type { Applier } from '../log/applier.ts'
import type { SnapshotCut } from '../log/request-codec.ts'
import { type CoverPart, checkHolds } from '../reads/placement.ts'
import { type AskingNode, foundParts } from '../reads/scatter.ts'
import { decodeQuestion, encodeQuestion, type PeerHandler, type PeerOperation } from '../requests.ts'

interface MergedSnapshotOptions extends Pick<AskingNode, 'self' | 'peers' | 'placement'> {
  /** Sends this node's own part. */
  readonly sender: SnapshotPartSender
  /** The collection's own name, not an alias: an alias can change meanwhile. */
  readonly collection: string
  /** Makes nodes open snapshots of the collection at one position of the log; resolves when this node is there. */
  readonly cut: (nodes: readonly string[]) => Promise<Cut>
  /** Only the points that changed after this moment, if it is one of the same history. */
  readonly since: Moment | undefined
  /** Aborts the opening of the snapshot; an open snapshot ends with `close`. */
  readonly signal: AbortSignal | undefined
}

/** A position at which nodes have opened snapshots. */
export interface Cut {
  /** Empty when the log is lost: it does not change what nodes have any more. */
  readonly token: string
  readonly position: number
}

/**
 * Opens a snapshot of a collection whose points are on several nodes:
 *
 *   append a record that names the fewest nodes which hold all of it ─> each opens a snapshot of its store when it
 *     applies the record ─> ask each for its part ─> one snapshot, of the record's position
 *
 * Before the first byte is sent, another owner can replace a node that fails.
 *
 * @throws DatabaseError with which a node refuses the snapshot; `not_ready` when no owner of a partition answers
 */
export async function openMergedSnapshot(options: MergedSnapshotOptions): Promise<MergedSnapshot> {
  const { placement, signal } = options
  const failed = new Set<string>()
  for (let attempt = 1; ; attempt += 1) {
    const parts = await foundParts(() => placement.cover(PartitionSet.all(), failed), signal)
    const cut = await options.cut(parts.map(({ node }) => node))
    const stop = new AbortController()
    const opened = await Promise.allSettled(parts.map((part) => openPart(options, part, cut, stop.signal)))
    const open = opened.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
    const at = opened.findIndex(({ status }) => status === 'rejected')
    if (at === -1) return new MergedSnapshot(cut.position, open, stop)
    stop.abort()
    closeAll(open)
    if (signal?.aborted) throw cancellation(signal)
    const { reason } = opened[at] as PromiseRejectedResult
    if (!isTransient(reason) || attempt === attemptsMax) throw reason
    failed.add(parts[at]!.node)
  }
}

/** Asks for the points that a node had at a cut. The answer is the bytes of a snapshot of them. */
interface PartQuestion extends Cut {
  readonly collection: string
  readonly partitions: Uint8Array
  /** Only what changed after this moment is needed. */
  readonly since: Moment | undefined
}

/** The part of one node, open at its first point. */
interface OpenPart {
  readonly node: string
  readonly reader: SnapshotReader
}

async function openPart(
  { self, sender, peers, collection, since, signal }: MergedSnapshotOptions,
  { node, partitions }: CoverPart,
  cut: Cut,
  stop: AbortSignal,
): Promise<OpenPart> {
  // What nodes have without a log can be older than the moment.
  const from = cut.token === '' ? undefined : since
  const question: PartQuestion = { ...cut, collection, partitions: partitions.bytes, since: from }
  const either = signal === undefined ? stop : AbortSignal.any([signal, stop])
  const body = await encodeQuestion(question)
  const chunks =
    node === self ? sender.part(body, either) : peers.stream(node, 'snapshotPart', body, { signal: either })
  return { node, reader: await SnapshotReader.open(chunks) }
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
    // A node without points may not have begun the history.
    const filled = headers.filter(({ points, changes }) => points + (changes?.orders.length ?? 0) > 0)
    const ids = new Set((filled.length > 0 ? filled : headers).map(({ databaseId }) => databaseId))
    this.databaseId = ids.size === 1 ? [...ids][0]! : newId()
    // The nodes that have the parts now need not have had the last change before the moment.
    this.sequence = Math.max(
      ...headers.map(({ sequence, changes }) => Math.max(sequence, changes?.since ?? 0)),
    )
    this.points = headers.reduce((sum, { points, changes }) => sum + (changes?.orders.length ?? points), 0)
    this.#parts = parts
    this.#stop = stop
  }

  async *chunks(): AsyncGenerator<Buffer> {
    const { databaseId, sequence } = this
    const headers = this.#parts.map(({ reader }) => reader.header)
    const dimension = headers.find((header) => header.dimension !== undefined)?.dimension
    const points = headers.reduce((sum, header) => sum + header.points, 0)
    const changes = await mergedChanges(headers)
    const writer = new SnapshotWriter({ databaseId, dimension, sequence, points, changes })
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

/** What the changes of all parts say together; undefined if the parts have all points. */
async function mergedChanges(headers: readonly SnapshotHeader[]): Promise<Changes | undefined> {
  const all = headers.flatMap(({ changes }) => changes ?? [])
  if (all.length === 0) return undefined
  const others = headers.filter(({ changes }) => changes === undefined)
  assert(
    others.every(({ points }) => points === 0),
    'nodes with points that apply one log have one history',
  )
  const orders = new Float64Array(all.reduce((sum, each) => sum + each.orders.length, 0))
  let at = 0
  for (const each of all) {
    orders.set(each.orders, at)
    at += each.orders.length
  }
  const digest = addSums(all.map((each) => each.digest))
  return { since: all[0]!.since, digest, orders: await sortOrders(orders) }
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

interface SnapshotPartSenderOptions {
  /** This node. */
  readonly self: string
  readonly partitions: HeldPartitions
  readonly set: CollectionSet
  readonly applier: Applier
  /** Whether the log is lost, so that this node's points do not change any more. */
  readonly isLogLost: () => boolean
}

/** A collection of this node, kept open. */
type Lease = Disposable & { readonly database: Collection }

/** A snapshot that this node has opened at a cut. */
interface Opened extends Disposable {
  /** The partitions that the node held then. */
  readonly held: PartitionSet
  readonly snapshot: Snapshot
}

/** A cut whose snapshot nobody has asked for yet. */
interface Waiting {
  readonly token: string
  readonly timer: NodeJS.Timeout
  readonly opened: Opened | { readonly error: unknown }
}

/**
 * Sends this node's part of a snapshot that several nodes make together. The snapshot is opened when the log is applied
 * up to the record of the cut, and kept for some seconds, until the asking node wants it.
 *
 * Main thread only.
 */
export class SnapshotPartSender {
  readonly #options: SnapshotPartSenderOptions
  /** By collection; a later cut replaces an earlier one. */
  readonly #waiting = new Map<string, Waiting>()

  constructor(options: SnapshotPartSenderOptions) {
    this.#options = options
  }

  get handlers(): [PeerOperation, PeerHandler][] {
    return [['snapshotPart', (body, { signal }) => this.part(body, signal)]]
  }

  /** Called at the record of a cut, when this node has applied everything before it and nothing after it. */
  cut(collection: string, { token, nodes }: SnapshotCut, lease: Lease): void {
    if (!nodes.includes(this.#options.self)) {
      lease[Symbol.dispose]()
      return
    }
    this.#discard(collection)
    const timer = setTimeout(() => this.#discard(collection), keptMs)
    this.#waiting.set(collection, { token, timer, opened: this.#opened(lease) })
  }

  #discard(collection: string): void {
    const opened = this.#taken(collection)
    if (opened !== undefined && !('error' in opened)) opened[Symbol.dispose]()
  }

  #taken(collection: string): Waiting['opened'] | undefined {
    const waiting = this.#waiting.get(collection)
    clearTimeout(waiting?.timer)
    this.#waiting.delete(collection)
    return waiting?.opened
  }

  #opened(lease: Lease): Waiting['opened'] {
    try {
      const snapshot = lease.database.snapshot()
      const held = this.#options.partitions.now
      const dispose = (): void => {
        snapshot.close()
        lease[Symbol.dispose]()
      }
      return { held, snapshot, [Symbol.dispose]: dispose }
    } catch (error) {
      lease[Symbol.dispose]()
      return { error }
    }
  }

  /**
   * Yields the points of some partitions as they were at a cut.
   *
   * @throws DatabaseError `not_ready` when this node has not opened a snapshot there, or does not hold the partitions;
   *   `overloaded` while another snapshot of the collection is being read
   */
  async *part(body: Buffer, signal: AbortSignal): AsyncGenerator<Buffer, void> {
    const { token, position, collection, since, ...asked } = await decodeQuestion<PartQuestion>(body)
    const partitions = new PartitionSet(asked.partitions)
    if (token !== '') await this.#options.applier.waitFor(position, signal, keptMs)
    using opened = await this.#claim(collection, token)
    checkHolds(opened.held, partitions)
    const points = new PartitionDigest(opened.snapshot.applied?.digest).pointsOf(partitions)
    yield* opened.snapshot.chunks({ since, part: { partitions, points } })
  }

  async #claim(collection: string, token: string): Promise<Opened> {
    const { set, isLogLost } = this.#options
    let opened: Waiting['opened'] | undefined
    if (token === '' && isLogLost()) opened = this.#opened(await set.lease(collection))
    else if (this.#waiting.get(collection)?.token === token) opened = this.#taken(collection)
    if (opened === undefined)
      throw new DatabaseError('not_ready', 'this node has no snapshot for the others: try again')
    if ('error' in opened) throw opened.error
    return opened
  }

  /** Closes all snapshots that nobody has asked for. */
  close(): void {
    for (const collection of [...this.#waiting.keys()]) this.#discard(collection)
  }
}

/** How long a snapshot is kept for the asking node, and how long that waits for a node that is behind. */
const keptMs = 10_000
