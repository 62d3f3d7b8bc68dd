import { DatabaseError } from '../base/errors.ts'
import type { PartitionSet } from '../base/partitions.ts'
import type { Collection } from '../collections/collection.ts'
import type { CollectionSet } from '../collections/collection-set.ts'
import type { HeldPartitions } from '../points/held-partitions.ts'
import { PartitionDigest } from '../storage/applied.ts'
import type { Snapshot } from '../storage/store.ts'
import type { Applier, LogHold } from './applier.ts'
import { checkHolds, checkNotAhead } from './check-holds.ts'
import { PackedReader, PackedWriter } from './packed-bytes.ts'
import { readPartitions } from './partition-codec.ts'
import { type PeerMethod, peerMethods } from './peer-methods.ts'
import type { PeerHandler } from './peers.ts'

/** Asks a node to stop applying the log until a snapshot has begun. */
export interface HoldQuestion {
  /** Identifies the hold; drawn by the asking node. */
  readonly token: string
  readonly collection: string
  /** The partitions that the snapshot takes from this node. */
  readonly partitions: PartitionSet
}

/** Asks for the points as they are at a log position. The answer is the bytes of a snapshot of them. */
export interface PartQuestion {
  readonly token: string
  /** Not below the position that the node is held at. */
  readonly position: number
}

export interface SnapshotPartSenderOptions {
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

  get handlers(): [PeerMethod, PeerHandler][] {
    return [
      [peerMethods.snapshotHold, async (body) => writePosition(await this.hold(readHoldQuestion(body)))],
      [peerMethods.snapshotPart, (body, { signal }) => this.part(readPartQuestion(body), signal)],
      [peerMethods.snapshotRelease, async (body) => this.release(body.toString())],
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

export function writeHoldQuestion({ token, collection, partitions }: HoldQuestion): Buffer {
  const to = new PackedWriter()
  to.text(token)
  to.text(collection)
  to.raw(partitions.bytes)
  return to.written
}

function readHoldQuestion(bytes: Uint8Array): HoldQuestion {
  const from = new PackedReader(bytes)
  return { token: from.text(), collection: from.text(), partitions: readPartitions(from) }
}

export function writePartQuestion({ token, position }: PartQuestion): Buffer {
  const to = new PackedWriter()
  to.text(token)
  to.count(position)
  return to.written
}

function readPartQuestion(bytes: Uint8Array): PartQuestion {
  const from = new PackedReader(bytes)
  return { token: from.text(), position: from.count() }
}

function writePosition(position: number): Buffer {
  const to = new PackedWriter()
  to.count(position)
  return to.written
}

export function readHeldPosition(bytes: Uint8Array): number {
  return new PackedReader(bytes).count()
}

const noBytes = Buffer.alloc(0)
const usualLogHoldMs = 5_000
const waitingMax = 16
