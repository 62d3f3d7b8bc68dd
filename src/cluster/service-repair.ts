import type { RepairedLog } from '../base/cluster-status.ts'
import { DatabaseError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import { partitionsIn, type RepairPlan } from '../base/repair-plan.ts'
import type { ServedData } from '../collections/served-data.ts'
import { replacementReason } from '../storage/replacement.ts'
import type { DataStore } from '../storage/store.ts'
import { storedPosition } from '../storage/stored-position.ts'
import type { ClusterServiceOptions } from './cluster-service-options.ts'
import type { CommitLog, SharedDocuments } from './commit-log.ts'
import { shortIdOf } from './log-id.ts'
import { adoptLog, logIdIn, skippedPositions } from './log-repair.ts'
import { type ReplaceLog, replaceNatsLog } from './nats-cluster.ts'
import type { NextLog } from './nats-stream.ts'
import { adoptAsLeader, adoptAsOther, preparedRepair, readRepair, writeRepair } from './part-repair.ts'
import { withRepaired } from './places.ts'
import { finishAsLeader, repairLeaderOf, writeRepairLeader } from './repair-leader.ts'
import { fromServingNode, type ServingNodes } from './replica-fetch.ts'
import { changeTopology } from './topology.ts'

export interface ServiceRepairOptions
  extends Pick<ClusterServiceOptions, 'node' | 'fetchRetryMs' | 'replaceLog'> {
  /** How to reach the log servers. */
  readonly nats: ClusterServiceOptions
  readonly logger: Logger
  readonly stop: AbortSignal
}

/** What an operator requests from a node whose log is lost. */
export interface RepairWish {
  /** The position up to which the node has applied the lost log. */
  readonly position: number
  /** Present when each node holds only some of the points. */
  readonly plan: RepairPlan | undefined
}

/** Begins a new log in place of a lost one, or continues with one that another node has begun. */
export class ServiceRepair {
  readonly #options: ServiceRepairOptions
  #wanted: (RepairWish & { readonly done: PromiseWithResolvers<RepairedLog> }) | undefined

  constructor(options: ServiceRepairOptions) {
    this.#options = options
  }

  get isWanted(): boolean {
    return this.#wanted !== undefined
  }

  /**
   * Requests a repair, which is carried out as soon as nothing uses the data.
   *
   * @throws DatabaseError `precondition_failed` while another repair is in progress, and when it cannot be done
   */
  want(wish: RepairWish): Promise<RepairedLog> {
    if (this.#wanted !== undefined)
      throw new DatabaseError('precondition_failed', 'a new log of the cluster is already being created')
    const done = Promise.withResolvers<RepairedLog>()
    this.#wanted = { ...wish, done }
    return done.promise
  }

  /** Rejects the requested repair. */
  giveUp(reason: unknown): void {
    this.#wanted?.done.reject(reason)
    this.#wanted = undefined
  }

  /** Replaces the lost log with a new one, if that was requested. */
  async carryOut(data: ServedData): Promise<void> {
    const wanted = this.#wanted
    if (wanted === undefined) return
    const { position, plan, done } = wanted
    const { node, logger } = this.#options
    try {
      const store = await data.openStore()
      const last = Math.max(position, await storedPosition(store), plan?.position ?? 0)
      const made = await (plan === undefined
        ? this.#beginWith(store, last)
        : this.#beginInParts(store, plan, last))
      logger.warn({ node, position: last, ...made }, 'a new log of the cluster has begun')
      done.resolve({ node, position: last, first: made.first })
    } catch (error) {
      done.reject(error)
    } finally {
      if (this.#wanted === wanted) this.#wanted = undefined
    }
  }

  /** Begins a log with the data of this node. */
  async #beginWith(store: DataStore, last: number): ReturnType<ReplaceLog> {
    const { node } = this.#options
    const made = await this.#replaceLog({
      ...{ former: [logIdIn(store)], first: last + skippedPositions + 1 },
      prepare: async (documents, { logId, first }) =>
        await writeRepairLeader(documents, logId, repairLeaderOf(store, { node, first })),
    })
    await adoptLog(store, made)
    return made
  }

  /** Begins a log with the data of all nodes. */
  async #beginInParts(store: DataStore, plan: RepairPlan, last: number): ReturnType<ReplaceLog> {
    const { node } = this.#options
    const { applied, databaseId } = store.main
    if (applied === undefined || plan.nodes[node]?.database_id !== databaseId)
      throw new DatabaseError('precondition_failed', 'the plan does not match the data of this node')
    const begun = await preparedRepair(store, plan)
    const made = await this.#replaceLog({
      ...{ former: [applied.logId], first: last + skippedPositions + 1 },
      prepare: async (documents, { logId, first }) => {
        await writeRepair(documents, logId, { ...begun, position: first - 1 })
        await writeRepairLeader(documents, logId, repairLeaderOf(store, { node, first, plan }))
        await changeTopology(documents, (topology) => withRepaired(topology, plan))
      },
    })
    await adoptAsLeader(store, made.logId, { ...begun, position: made.first - 1 }, plan)
    return made
  }

  async #replaceLog(next: NextLog): ReturnType<ReplaceLog> {
    const { nats, logger, stop, replaceLog = replaceNatsLog } = this.#options
    return await replaceLog(nats, next, logger, AbortSignal.any([stop, AbortSignal.timeout(repairMs)]))
  }

  /**
   * Continues with a log that this node has begun without adopting it, or that another node has begun, if that log
   * begins with data of this node, too.
   *
   * @param onWait called before it waits for another node
   * @returns whether it continues; otherwise this node holds nothing that others lack
   * @throws the signal's reason when that aborts
   */
  async adopt(
    data: ServedData,
    { log, documents }: { readonly log: CommitLog; readonly documents: SharedDocuments },
    serving: Pick<ServingNodes, 'announced' | 'sourceOf'>,
    onWait: () => void,
  ): Promise<boolean> {
    const { node, logger, stop: signal, fetchRetryMs: retryMs } = this.#options
    if (replacementReason(data.dataDir) !== undefined) return false
    // Damaged data are fetched again.
    const store = await data.openStore().catch(() => undefined)
    const { databaseId, applied } = store?.main ?? {}
    if (store === undefined || applied === undefined || !log.former?.includes(applied.logId)) return false
    if (await finishAsLeader(store, node, { log, documents })) {
      logger.warn(
        { node },
        'this node has finished a repair: it continues with the new log that it has begun',
      )
      return true
    }
    const logId = shortIdOf(log)
    const repair = await readRepair(documents, logId)
    const own = repair?.nodes[node]
    if (own === undefined || own.database_id !== databaseId || partitionsIn(own.keeps).size === 0)
      return false
    onWait()
    await fromServingNode({ ...serving, node, logger, signal, retryMs }, async (from) => {
      await adoptAsOther(store, logId, repair!, own, { from, signal })
    })
    logger.info({ node, position: repair!.position }, 'this node continues with the new log')
    return true
  }
}

const repairMs = 60_000
