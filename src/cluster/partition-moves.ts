import { DatabaseError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import { PartitionSet } from '../base/partitions.ts'
import type { Collection } from '../engine/collection.ts'
import type { CollectionSet } from '../engine/collection-set.ts'
import type { HeldPartitions } from '../engine/held-partitions.ts'
import type { Applier } from './applier.ts'

export interface PartitionMovesOptions {
  readonly partitions: HeldPartitions
  readonly main: Collection
  readonly set: CollectionSet
  readonly applier: Applier
  readonly logger: Logger
  /** Aborts when the node is closed. */
  readonly stop: AbortSignal
}

/**
 * How a node comes to have other partitions while it applies the log and answers reads, one move at a time:
 *
 *   drop  the log is held ─> what the node has is stored without them ─> the log goes on ─> their points are removed
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
      const kept = PartitionSet.of([...partitions.now].filter((partition) => !gone.has(partition)))
      if (!kept.equals(partitions.now)) await this.#hold(kept, either)
      await this.#clearAll(either)
    })
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
