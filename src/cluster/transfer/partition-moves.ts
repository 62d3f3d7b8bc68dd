import { DatabaseError } from '../../base/errors.ts'
import type { Logger } from '../../base/log.ts'
import { PartitionSet, partitionCount } from '../../base/partitions.ts'
import type { Collection } from '../../collections/collection.ts'
import type { CollectionSet } from '../../collections/collection-set.ts'
import { differingPartitions, PartitionDigest } from '../../storage/applied.ts'
import type { HeldPartitions } from '../../write/replica.ts'
import type { Applier } from '../log/applier.ts'
import type { Peers } from '../requests.ts'
import { attemptOf } from '../waiting.ts'
import { copyPoints, mostLinked, PointsReader, type PointsSource } from './points-stream.ts'

interface PartitionMovesOptions {
  readonly partitions: HeldPartitions
  readonly main: Collection
  readonly set: CollectionSet
  readonly applier: Applier
  readonly peers: Peers
  readonly logger: Logger
  /** A move that holds the log for longer is given up, so that the log can continue. */
  readonly logHoldMs?: number | undefined
  /** Aborts when the node is closed. */
  readonly stop: AbortSignal
}

/**
 * Changes the partitions that a node holds while it applies the log and answers reads, one move at a time:
 *
 *   take  copy, again while much has changed ─> hold the log ─> get what has changed up to a position G of the
 *           other node ─> apply the log up to G ─> store the changes ─> store that the node holds them
 *           ─> the log continues
 *   drop  hold the log ─> store the node's partitions without them ─> the log continues ─> remove their points
 *
 * At G, both nodes have decided everything up to there and nothing beyond. The decision about a point depends on its
 * partition, the clock and the keys of requests, which all nodes have. So the receiving node continues as if it had
 * always held the partitions. Both nodes hold the log for as long as it takes to send what has changed since the
 * copy.
 *
 * The meta record of the default collection stores which partitions a node holds. When a process dies during a move,
 * points of other partitions remain. Reads do not show them, and they are removed after the next start.
 *
 * Main thread only.
 */
export class PartitionMoves {
  readonly #options: PartitionMovesOptions
  #last: Promise<unknown> = Promise.resolve()
  /** What a take that failed has copied. The next one continues from there. */
  #copied: Copied | undefined

  constructor(options: PartitionMovesOptions) {
    this.#options = options
  }

  /** Removes the points that an earlier run has left behind. */
  start(): void {
    const { logger, stop } = this.#options
    this.#options.partitions.mayDelete = true
    this.#alone(() => this.#options.main.clearPartitions(stop)).catch((error: unknown) => {
      if (!stop.aborted)
        logger.warn({ err: error }, 'points of partitions that this node does not hold could not be removed')
    })
  }

  /** Resolves when no move is in progress. */
  async ended(): Promise<void> {
    await this.#last.catch(() => {})
  }

  /**
   * Drops partitions. Resolves when that is durable and their points are removed.
   *
   * @throws the signal's reason when that aborts; the next move removes what is left
   */
  async drop(gone: PartitionSet, signal: AbortSignal): Promise<void> {
    const either = AbortSignal.any([signal, this.#options.stop])
    await this.#alone(async () => {
      either.throwIfAborted()
      const { partitions } = this.#options
      const kept = partitions.now.without(gone)
      if (!kept.equals(partitions.now)) await this.#hold(kept, either)
      this.#copied = undefined
      await this.#clearAll(either)
    })
  }

  /**
   * Copies partitions from another node. Resolves when this node holds them durably.
   *
   * @throws DatabaseError `not_ready` when the other node does not hold them, or goes away; `disk_full`,
   *   `memory_full`. Then `HeldPartitions.now` has the partitions that did arrive. The next attempt uses what was
   *   copied of the others, or another move removes it.
   */
  async take(wanted: PartitionSet, from: string, signal: AbortSignal): Promise<void> {
    const { partitions, peers, stop } = this.#options
    const source = { peers, node: from, signal: AbortSignal.any([signal, stop]) }
    await this.#alone(async () => {
      source.signal.throwIfAborted()
      partitions.coming = wanted.without(partitions.now)
      if (partitions.coming.size === 0) return
      try {
        await this.#clearAll(source.signal)
        await this.#take(source)
      } finally {
        partitions.coming = new PartitionSet()
      }
    })
  }

  async #take(source: PointsSource): Promise<void> {
    const { partitions } = this.#options
    const before = this.#copied
    // If it is no longer here, the attempt fails, and the next one copies everything.
    this.#copied = undefined
    const isKnown = before !== undefined && partitions.coming.without(before.partitions).size === 0
    let since = isKnown ? before.positions : new Map<string, number>()
    for (let round = 0; round < roundsMax; round += 1) {
      const copied = await this.#copyAll(since, source)
      since = copied.positions
      this.#copied = { partitions: partitions.coming, positions: since }
      if (copied.points <= pointsMin) break
    }
    for (const group of await this.#groups()) {
      await this.#reach(group, since, source)
      partitions.coming = partitions.coming.without(group)
    }
    this.#copied = undefined
  }

  /** Copies what has changed since the last copy, while the log is applied. */
  async #copyAll(
    since: ReadonlyMap<string, number>,
    source: PointsSource,
  ): Promise<{ readonly positions: ReadonlyMap<string, number>; readonly points: number }> {
    const { coming } = this.#options.partitions
    const question = { after: 0, partitions: coming.bytes, since, forNewNode: false }
    await using stream = await PointsReader.open('points', question, source)
    const positions = new Map<string, number>()
    let points = 0
    if ((await stream.take('head')) === undefined) throw mismatch('it has no head')
    for (let each = await stream.take('collection'); each; each = await stream.take('collection')) {
      const { name, position } = each
      const isHere = await this.#withCollection(name, async (collection) => {
        const linked = (): Promise<void> => mostLinked(collection, source.signal)
        points += await copyPoints(collection, coming, stream, linked)
        positions.set(name, position)
      })
      // It is on its way here through the log, or was dropped here.
      if (!isHere) await stream.skipPoints()
    }
    return { positions, points }
  }

  /**
   * Groups the partitions to take. A group is taken with one hold of the log; the length of the list of its points
   * limits it.
   */
  async #groups(): Promise<readonly PartitionSet[]> {
    const points = new Float64Array(partitionCount)
    for (const { name } of this.#options.set.list()) {
      await this.#withCollection(name, async ({ replica }) => {
        const digest = new PartitionDigest(replica.digest)
        for (const each of this.#options.partitions.coming) points[each]! += digest.pointsIn(each)
      })
    }
    const groups: PartitionSet[] = []
    let count = Number.POSITIVE_INFINITY
    for (const each of this.#options.partitions.coming) {
      count += points[each]!
      if (count > pointsPerHold) {
        groups.push(new PartitionSet())
        count = points[each]!
      }
      groups.at(-1)!.add(each)
    }
    return groups
  }

  /** Holds the log until this node has reached the position of the other one and holds the partitions. */
  async #reach(group: PartitionSet, since: ReadonlyMap<string, number>, source: PointsSource): Promise<void> {
    const { applier, main, partitions, logger, logHoldMs = usualLogHoldMs } = this.#options
    const message = `the log was held for ${logHoldMs} ms, and not all of the partitions had arrived: try again`
    const reason = (): unknown =>
      source.signal.aborted ? source.signal.reason : new DatabaseError('not_ready', message)
    using attempt = attemptOf([source.signal], reason, logHoldMs)
    const { signal } = attempt
    const begun = performance.now()
    using hold = applier.hold()
    await hold.reached(0, signal)
    const question = { after: hold.position, partitions: group.bytes, since, forNewNode: false }
    await using stream = await PointsReader.open('pointsHeld', question, { ...source, signal })
    const head = await stream.take('head')
    if (head === undefined) throw mismatch('it has no head')
    const { position } = head
    await hold.reached(position, signal)
    if (hold.position !== position) throw mismatch(`it is of position ${position}`)
    await this.#reachAll(head.collections, group, stream)
    await main.replica.mark(PartitionSet.of([...partitions.now, ...group]))
    const heldMs = Math.round(performance.now() - begun)
    logger.info({ partitions: group.size, from: source.node, position, heldMs }, 'took partitions')
  }

  async #reachAll(collections: number, group: PartitionSet, stream: PointsReader): Promise<void> {
    const { set } = this.#options
    // Collections change through the log, too, so both nodes must have the same ones.
    if (set.list().length !== collections) throw mismatch(`it has ${collections} collections`)
    for (let reached = 0; reached < collections; reached += 1) {
      const head = await stream.take('collection')
      if (head === undefined) throw mismatch('a collection is missing')
      using lease = await set.lease(head.name)
      await copyPoints(lease.database, group, stream)
      const different = differingPartitions(lease.database.replica.digest, head.digest)
      if (different.some((each) => group.has(each))) throw mismatch(`its collection ${head.name} differs`)
    }
  }

  /** Stores which partitions this node holds, between two log records. */
  async #hold(held: PartitionSet, signal: AbortSignal): Promise<void> {
    const { applier, main } = this.#options
    using hold = applier.hold()
    await hold.reached(0, signal)
    await main.replica.mark(held)
  }

  async #clearAll(signal: AbortSignal): Promise<void> {
    for (const { name } of this.#options.set.list()) {
      signal.throwIfAborted()
      await this.#withCollection(name, (collection) => collection.clearPartitions(signal))
    }
  }

  /** @returns whether the collection is there */
  async #withCollection(name: string, work: (collection: Collection) => Promise<void>): Promise<boolean> {
    try {
      using lease = await this.#options.set.lease(name)
      await work(lease.database)
      return true
    } catch (error) {
      const isGone = error instanceof DatabaseError && error.reason === 'collection_not_found'
      if (!isGone) throw error
      return false
    }
  }

  async #alone<Result>(work: () => Promise<Result>): Promise<Result> {
    const move = this.#last.then(work, work)
    this.#last = move.catch(() => {})
    return await move
  }
}

/** Points that were copied and not taken. */
interface Copied {
  readonly partitions: PartitionSet
  /** By collection, the log position up to which they have all changes. */
  readonly positions: ReadonlyMap<string, number>
}

function mismatch(fault: string): DatabaseError {
  return new DatabaseError('internal', 'what another node sent cannot be used', {
    cause: new Error(`the state of the other node does not match that of this one: ${fault}`),
  })
}

/** So few points are sent quickly while the log is held. */
const pointsMin = 256
const roundsMax = 4
/** Comparing this many takes some tenths of a second. */
const pointsPerHold = 250_000
const usualLogHoldMs = 15_000
