import { DatabaseError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import { PartitionSet, partitionCount } from '../base/partitions.ts'
import type { Collection } from '../engine/collection.ts'
import type { CollectionSet } from '../engine/collection-set.ts'
import type { HeldPartitions } from '../engine/held-partitions.ts'
import { differingPartitions, PartitionDigest } from '../storage/partition-digest.ts'
import type { Applier } from './applier.ts'
import { CutReader, copyPartitions, type PartitionSource, reachCut } from './partition-taking.ts'
import type { Peers } from './peers.ts'

export interface PartitionMovesOptions {
  readonly partitions: HeldPartitions
  readonly main: Collection
  readonly set: CollectionSet
  readonly applier: Applier
  readonly peers: Peers
  readonly logger: Logger
  /** Aborts when the node is closed. */
  readonly stop: AbortSignal
}

/**
 * How a node comes to have other partitions while it applies the log and answers reads, one move at a time:
 *
 *   take  copy, again while much has changed ─> the log is held ─> the other node's state at a position G
 *           ─> the log is applied up to G ─> what has changed since the copy ─> it is stored that the node has them
 *           ─> the log goes on
 *   drop  the log is held ─> what the node has is stored without them ─> the log goes on ─> their points are removed
 *
 * At G, both nodes have decided everything up to there and nothing beyond, and what is decided about a point depends on its
 * partition, the clock and keys of requests, which all nodes have. So the node that takes goes on as if it had always had them.
 * The log is held on both for as long as it takes to pass on what has changed since the copy.
 *
 * What a node has is told by the meta record of the default collection. Points of other partitions are left when a process dies
 * in the middle; reads do not show them, and they are removed after the next start.
 *
 * Main thread only.
 */
export class PartitionMoves {
  readonly #options: PartitionMovesOptions
  #last: Promise<unknown> = Promise.resolve()

  constructor(options: PartitionMovesOptions) {
    this.#options = options
  }

  /** Removes what an earlier run has left. */
  start(): void {
    const { logger, stop } = this.#options
    this.#options.partitions.mayDelete = true
    this.#alone(() => this.#options.main.clearPartitions(stop)).catch((error: unknown) => {
      if (!stop.aborted)
        logger.warn({ err: error }, 'points of partitions that this node does not have are not removed')
    })
  }

  /** Resolves when no move is under way. */
  async ended(): Promise<void> {
    await this.#last.catch(() => {})
  }

  /**
   * The node has these partitions no more: resolves when that is durable, and their points are removed.
   *
   * @throws the reason of the signal when that aborts; what is left then is removed with the next move
   */
  async drop(gone: PartitionSet, signal: AbortSignal): Promise<void> {
    const either = AbortSignal.any([signal, this.#options.stop])
    await this.#alone(async () => {
      either.throwIfAborted()
      const { partitions } = this.#options
      const kept = without(partitions.now, gone)
      if (!kept.equals(partitions.now)) await this.#hold(kept, either)
      await this.#clearAll(either)
    })
  }

  /**
   * The node gets these partitions from another one: resolves when it has them, durably.
   *
   * @throws DatabaseError `not_ready` when the other node does not have them, or goes; `disk_full`, `memory_full`. The node
   *   has those then that it says, and what came of the others is used by the next attempt, or removed by another move.
   */
  async take(wanted: PartitionSet, from: string, signal: AbortSignal): Promise<void> {
    const { partitions, peers, stop } = this.#options
    const source = { peers, node: from, signal: AbortSignal.any([signal, stop]) }
    await this.#alone(async () => {
      source.signal.throwIfAborted()
      partitions.coming = without(wanted, partitions.now)
      if (partitions.coming.size === 0) return
      try {
        await this.#clearAll(source.signal)
        await this.#take(source)
      } finally {
        partitions.coming = new PartitionSet()
      }
    })
  }

  async #take(source: PartitionSource): Promise<void> {
    const { partitions } = this.#options
    let since = await this.#copyAll(source)
    for (let round = 1; since.fetched > fetchedMin && round < roundsMax; round += 1) {
      since = await this.#copyAll(source)
    }
    for (const group of await this.#groups()) {
      await this.#reach(group, since.positions, source)
      partitions.coming = without(partitions.coming, group)
    }
  }

  async #copyAll(
    source: PartitionSource,
  ): Promise<{ positions: ReadonlyMap<string, number>; fetched: number }> {
    const positions = new Map<string, number>()
    let fetched = 0
    for (const { name } of this.#options.set.list()) {
      source.signal.throwIfAborted()
      await this.#withCollection(name, async (collection) => {
        const copied = await copyPartitions(name, collection, this.#options.partitions.coming, source)
        positions.set(name, copied.position)
        fetched += copied.fetched
      })
    }
    return { positions, fetched }
  }

  /** Partitions that are taken with one hold of the log: as many as a list of their points allows. */
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

  /** Holds the log until this node is where the other one is, and has the partitions. */
  async #reach(
    group: PartitionSet,
    since: ReadonlyMap<string, number>,
    source: PartitionSource,
  ): Promise<void> {
    const { applier, main, partitions, logger } = this.#options
    const timeout = AbortSignal.timeout(holdMsMax)
    const signal = AbortSignal.any([source.signal, timeout])
    const hold = applier.hold()
    const begun = performance.now()
    try {
      await hold.reached(0, signal)
      const cut = await CutReader.open(
        { after: hold.position, partitions: group, since },
        { ...source, signal },
      )
      try {
        const head = await cut.take('head')
        if (head === undefined) throw unlike('it has no head')
        await hold.reached(head.position, signal)
        if (hold.position !== head.position) throw unlike(`it is of position ${head.position}`)
        await this.#reachAll(head.collections, group, cut)
      } finally {
        await cut.close()
      }
      await main.replica.mark(PartitionSet.of([...partitions.now, ...group]))
      const heldMs = Math.round(performance.now() - begun)
      const { position } = hold
      logger.info({ partitions: group.size, from: source.node, position, heldMs }, 'took partitions')
    } catch (cause) {
      if (!timeout.aborted || source.signal.aborted) throw cause
      const message = `the log was held for ${holdMsMax} ms, and not all of the partitions had come: try again`
      throw new DatabaseError('not_ready', message, { cause })
    } finally {
      hold.end()
    }
  }

  async #reachAll(collections: number, group: PartitionSet, cut: CutReader): Promise<void> {
    const { set } = this.#options
    // Changes of collections are records of the log, too.
    if (set.list().length !== collections) throw unlike(`it has ${collections} collections`)
    for (let reached = 0; reached < collections; reached += 1) {
      const head = await cut.take('collection')
      if (head === undefined) throw unlike('a collection is missing')
      using lease = await set.lease(head.name)
      await reachCut(lease.database, group, cut)
      const different = differingPartitions(lease.database.replica.digest, head.digest)
      if (different.some((each) => group.has(each))) throw unlike(`its collection ${head.name} differs`)
    }
  }

  /** Between two records of the log. */
  async #hold(held: PartitionSet, signal: AbortSignal): Promise<void> {
    const { applier, main } = this.#options
    const hold = applier.hold()
    try {
      await hold.reached(0, signal)
      await main.replica.mark(held)
    } finally {
      hold.end()
    }
  }

  async #clearAll(signal: AbortSignal): Promise<void> {
    for (const { name } of this.#options.set.list()) {
      signal.throwIfAborted()
      await this.#withCollection(name, (collection) => collection.clearPartitions(signal))
    }
  }

  /** Passes over a collection that has been removed. */
  async #withCollection(name: string, work: (collection: Collection) => Promise<void>): Promise<void> {
    try {
      using lease = await this.#options.set.lease(name)
      await work(lease.database)
    } catch (error) {
      const isGone = error instanceof DatabaseError && error.reason === 'collection_not_found'
      if (!isGone) throw error
    }
  }

  async #alone<Result>(work: () => Promise<Result>): Promise<Result> {
    const move = this.#last.then(work, work)
    this.#last = move.catch(() => {})
    return await move
  }
}

function without(partitions: PartitionSet, others: PartitionSet): PartitionSet {
  return PartitionSet.of([...partitions].filter((partition) => !others.has(partition)))
}

function unlike(fault: string): DatabaseError {
  return new DatabaseError('internal', 'what another node sent cannot be used', {
    cause: new Error(`the state of the other node does not go with that of this one: ${fault}`),
  })
}

/** As many points do not take long to be passed on while the log is held. */
const fetchedMin = 256
const roundsMax = 4
/** Comparing so many takes some tenths of a second. */
const pointsPerHold = 250_000
/** A move that takes longer is given up, so that the log goes on. */
const holdMsMax = 15_000
