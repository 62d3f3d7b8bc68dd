import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { defaultCollection } from '../base/collection.ts'
import { DatabaseError, damageIn } from '../base/errors.ts'
import type { PartitionSet } from '../base/partitions.ts'
import type { Collection } from '../collections/collection.ts'
import type { CollectionSet } from '../collections/collection-set.ts'
import type { Collections, Moment, PointsOnNodes, PointsSnapshot, StatsOfNodes } from '../points/database.ts'
import type { DataStore } from '../storage/store.ts'
import { HeldPartitions, type ReplicaHooks } from '../write/replica.ts'
import type { LoggedRequest, LoggedResults } from '../write/requests.ts'
import { Admission, Barriers } from './admission.ts'
import { Audits, NodeChores } from './audits.ts'
import { ClusterCollections, ClusterDatabase } from './cluster-database.ts'
import type { ClusterNodeOptions, LocalStatus, ReadPosition } from './cluster-node-options.ts'
import { Applier } from './log/applier.ts'
import { LogLost, lostIn, shortIdOf } from './log/commit-log.ts'
import { type LogPlace, NeedsReplica, placeIn } from './log/founding.ts'
import { Publisher } from './log/publisher.ts'
import { writtenBytesMax } from './log/records.ts'
import type { ClusterRequest, NodeDigest } from './log/request-codec.ts'
import { type Announcement, fromJson, isWhole } from './membership/topology.ts'
import { Outcomes, uncertain } from './outcomes.ts'
import { statsHandler, statsOnNodes } from './reads/node-stats.ts'
import { Placement } from './reads/placement.ts'
import { type AskingNode, Scatter } from './reads/scatter.ts'
import { readHandlers, ScatteredReads } from './reads/scattered-reads.ts'
import type { PeerHandler, PeerHandlers } from './requests.ts'
import { type Cut, openMergedSnapshot, SnapshotPartSender } from './transfer/cluster-snapshot.ts'
import { PartitionMoves } from './transfer/partition-moves.ts'
import { PointsSender } from './transfer/points-stream.ts'
import { isNoOutage, untilAnswered } from './waiting.ts'
import { freesSpace, Writes, type WriteTarget } from './writes.ts'

/** The open directory of a node. */
export interface NodeData {
  readonly store: DataStore
  /** Opens the collections with these hooks. */
  readonly load: (replicaOf: (collection: string) => ReplicaHooks) => Promise<OpenCollections>
}

interface OpenCollections {
  readonly main: Collection
  readonly set: CollectionSet
}

/**
 * A node of a cluster: an engine whose collections change only through the cluster's log.
 *
 *   ClusterNode.open: its collections are opened ─> it applies the log ─> caught up: ready ─> close
 *
 * A node that holds all points answers every read alone; otherwise it also asks other nodes. A write can be sent to
 * any node. It goes through the log, and is answered when this node has applied it durably.
 *
 * Main thread only.
 */
export class ClusterNode {
  readonly #options: ClusterNodeOptions
  readonly #main: Collection
  /** The collections on this node. */
  readonly set: CollectionSet
  readonly collections: ClusterCollections
  /** The partitions that this node holds, and those that it receives. */
  readonly partitions: HeldPartitions
  readonly #outcomes = new Outcomes()
  readonly #publisher: Publisher
  readonly #applier: Applier
  readonly #admission: Admission
  /** What reads and writes need to ask other nodes. */
  readonly #asking: AskingNode & Pick<ClusterNodeOptions, 'statsMs'>
  readonly writes: Writes
  readonly #audits: Audits
  readonly #chores: NodeChores
  readonly #moves: PartitionMoves
  readonly #snapshotSender: SnapshotPartSender
  /** The handlers that answer other nodes. */
  readonly peerHandlers: PeerHandlers
  readonly #stop = new AbortController()
  #caughtUp: Promise<void> = Promise.resolve()
  #isCaughtUp = false
  /** Why this node should not be read from; undefined: it can be. */
  #doubt: string | undefined
  /** By collection, why it cannot apply its changes for now. */
  readonly #stalls = new Map<string, Error>()
  #acknowledged = 0
  /** The highest log position in an answer of another node. */
  #seen = 0
  #working: Promise<void> | undefined
  readonly #unusable = Promise.withResolvers<string>()

  /**
   * Opens the collections of a node, and starts to apply the log to them.
   *
   * @param signal aborts the opening
   * @throws Error when their data do not belong to this log
   */
  static async open(
    options: ClusterNodeOptions,
    { store, load }: NodeData,
    signal: AbortSignal,
  ): Promise<ClusterNode> {
    const { log, documents, name, logger, retryMs: againMs, sharding } = options
    const attempt = { what: 'joining the cluster', isFinal: isNoOutage, logger, signal, againMs }
    const from = await untilAnswered(() => placeIn(store, { log, documents, node: name }), attempt)
    const partitions = new HeldPartitions(sharding.held)
    const opened = Promise.withResolvers<ClusterNode>()
    opened.promise.catch(() => {})
    let node: ClusterNode | undefined
    try {
      const collections = await load((collection) => ({
        logId: shortIdOf(log),
        held: partitions,
        floor: () => (node === undefined ? from : node.#applier.applied),
        onVisible: (position) => {
          if (node !== undefined) node.#applier.show(position)
        },
        onDue: () => void node?.tick(),
        expire: async (take) => await (await opened.promise).#expire(collection, take),
        onStall: (stall) => {
          if (node !== undefined) node.#noteStall(collection, stall)
        },
        retryMs: againMs,
      }))
      node = new ClusterNode(options, collections, partitions, from)
      // Before anything is applied, so that a program without cluster support never opens the data of a replica.
      await collections.main.replica.mark()
      const { last } = await untilAnswered(() => log.bounds(), attempt)
      node.#start(last)
      opened.resolve(node)
      return node
    } catch (error) {
      opened.reject(error)
      throw error
    }
  }

  /** @param from the place in the log that the data have reached */
  private constructor(
    options: ClusterNodeOptions,
    { main, set }: OpenCollections,
    partitions: HeldPartitions,
    from: LogPlace,
  ) {
    this.#options = options
    this.#main = main
    this.set = set
    this.collections = new ClusterCollections(set, this)
    this.partitions = partitions
    const { log, name, run = Date.now().toString(36), logger, timeoutMs, logHoldMs, timings } = options
    const { retryMs = usualRetryMs, maxBufferedBytes, maxRequestBytes } = options
    const { owners, isLive, hasFault, peers } = options.sharding
    const { signal } = this.#stop
    this.#publisher = new Publisher({
      log,
      origin: `${name}.${run}`,
      outcomes: this.#outcomes,
      nowUs: options.nowUs ?? (() => Date.now() * 1000),
      bytesMax: maxBufferedBytes,
      writtenBytesMax: writtenBytesMax(maxRequestBytes),
      timeoutMs,
      retryMs,
      timings,
    })
    const publisher = this.#publisher
    const placement = new Placement({ self: name, owners, isLive, hasFault, held: () => this.held })
    const onPosition = (position: number): void => {
      this.#seen = Math.max(this.#seen, position)
    }
    const scatter = new Scatter({ placement, self: name })
    const { statsMs } = options
    this.#asking = { self: name, node: this, peers, placement, scatter, onPosition, statsMs }
    this.#audits = new Audits({
      node: name,
      logger,
      othersWith: (partition) => placement.owners(partition).filter((each) => each !== name).length,
      onMinority: (reason) => {
        this.#doubt = reason
        this.#unusable.resolve(reason)
      },
    })
    this.#chores = new NodeChores(
      {
        position: () => this.position,
        mark: () => main.replica.mark(),
        audit: (collection) => publisher.submit({ kind: 'audit' }, { collection, signal }),
        set,
        logger,
        signal,
        markMs: options.markMs,
        auditMs: options.auditMs,
      },
      from.position,
    )
    this.#applier = new Applier({
      log,
      main,
      set,
      outcomes: this.#outcomes,
      from,
      logger,
      bytesInFlightMax: maxBufferedBytes,
      chunkCacheBytesMax: writtenBytesMax(maxRequestBytes),
      retryMs,
      timings,
      onGap: options.onGap,
      held: () => (this.held.isAll ? undefined : this.held),
      onAudit: (...audit) => this.#onAudit(...audit),
      onCut: (...cut) => this.#snapshotSender.cut(...cut),
      onDigest: (collection, found) => this.#audits.compare(collection, found),
      isAppliedElsewhere: (position) => this.#isAppliedElsewhere(position),
      onFailure: (error) => this.#fail(error),
    })
    const applier = this.#applier
    this.#admission = new Admission({
      barriers: new Barriers(() => publisher.barrier()),
      applier,
      last: async () => (await log.bounds()).last,
      timeoutMs,
    })
    this.writes = new Writes({
      ...this.#asking,
      publisher,
      outcomes: this.#outcomes,
      waitFor: (position, signal) => this.#admission.waitFor(position, signal),
      stall: () => this.#stall,
      timeoutMs,
      retryMs,
      stop: signal,
    })
    const transfer = { partitions, set, applier, logHoldMs }
    this.#moves = new PartitionMoves({ ...transfer, main, peers, logger, stop: signal })
    const isLogLost = (): boolean => this.lostLog !== undefined
    this.#snapshotSender = new SnapshotPartSender({ ...transfer, self: name, isLogLost })
    const serves = (): boolean => this.status.answers && !isLogLost()
    const points = new PointsSender({ ...transfer, logId: shortIdOf(log), serves })
    this.peerHandlers = new Map<string, PeerHandler>([
      ...readHandlers(this),
      ['stats', statsHandler(this)],
      ...this.writes.handlers,
      ...points.handlers,
      ...this.#snapshotSender.handlers,
    ])
  }

  /** @param last the end of the log: when this node has applied that, it has caught up */
  #start(last: number): void {
    this.#applier.start()
    this.#moves.start()
    this.#working = this.#chores.run()
    this.#caughtUp = this.#applier.waitFor(last, this.#stop.signal).then(() => {
      this.#isCaughtUp = true
    })
    // `#fail` has reported the error, or the node was closed.
    this.#caughtUp.catch(() => {})
  }

  /**
   * Resolves with the reason when this node's data become unusable: a copy of another node's data has to replace
   * them.
   */
  get unusable(): Promise<string> {
    return this.#unusable.promise
  }

  /** Lets a copy of another node's data replace those of this node, if an error says that files are damaged. */
  noteDamage(error: unknown): void {
    const reason = damageIn(error)?.message
    if (reason === undefined) return
    this.#options.logger.error({ err: error }, 'files of this node are damaged')
    this.#unusable.resolve(reason)
  }

  /** The default collection, for the api. */
  get database(): ClusterDatabase {
    const name = defaultCollection
    return new ClusterDatabase({ name, alias: name, collection: this.#main }, this)
  }

  get status(): LocalStatus {
    const { failure } = this
    return {
      position: this.position,
      floor: this.#chores.floor,
      answers:
        this.#isCaughtUp &&
        this.#doubt === undefined &&
        (failure === undefined || this.lostLog !== undefined),
      digestMismatches: this.#audits.mismatches,
      fault: (failure ?? this.#stall)?.message ?? this.#applier.obstacle ?? this.#doubt,
    }
  }

  /** All log records up to here are applied. */
  get position(): number {
    return this.#applier.applied.position
  }

  /** See `Applier.visible`. */
  get visible(): number {
    return this.#applier.visible
  }

  /**
   * Position of the last change that this node acknowledged. Reads through this node include it, whichever nodes
   * answer them.
   */
  get acknowledged(): number {
    return this.#acknowledged
  }

  /** The highest position that an answer may include: other nodes may have been ahead of this one. */
  get answeredPosition(): number {
    return Math.max(this.visible, this.#seen, this.#acknowledged)
  }

  /** How often a second node was asked because the first one was slow. */
  get hedges(): number {
    return this.#asking.scatter.hedges
  }

  /** The partitions that this node holds completely: a new object after each change. */
  get held(): PartitionSet {
    return this.partitions.now
  }

  /**
   * Reads a collection together with other nodes; undefined while this node holds all of it.
   *
   * @param collection its own name: an alias could already be another collection's on other nodes
   * @param position the log position that answers must include
   */
  readsOf(collection: string, local: Collection, position: number): ScatteredReads | undefined {
    if (this.held.isAll) return undefined
    return new ScatteredReads({ ...this.#asking, collection, local, position })
  }

  /**
   * A snapshot of a collection made by several nodes; undefined while this node holds all of it.
   *
   * @throws DatabaseError with which a node refuses the snapshot; `not_ready` when no live node holds some of the
   *   points
   */
  async snapshotOf(
    name: string,
    signal: AbortSignal | undefined,
    since: Moment | undefined,
  ): Promise<PointsSnapshot | undefined> {
    if (this.held.isAll) return undefined
    const sender = this.#snapshotSender
    const { name: collection } = this.set.get(name)
    const cut = async (nodes: readonly string[]): Promise<Cut> => {
      if (this.lostLog !== undefined) return { token: '', position: this.position }
      const token = randomUUID()
      const { position } = await this.#publisher.submit({ kind: 'cut', token, nodes }, { collection, signal })
      return { token, position }
    }
    return await openMergedSnapshot({ ...this.#asking, sender, collection, cut, since, signal })
  }

  /** See `Collections`. */
  countOnNodes(
    ...[name, position, signal]: Parameters<NonNullable<Collections['countOnNodes']>>
  ): Promise<PointsOnNodes> | undefined {
    if (this.held.isAll) return undefined
    const counted = statsOnNodes(this.#asking, { name, position, hasFigures: false }, signal)
    return counted.then(({ points, missing }) => ({ points, missing }))
  }

  /** See `Database`. */
  statsOfNodes(
    name: string,
    position: number,
    signal: AbortSignal | undefined,
  ): Promise<StatsOfNodes> | undefined {
    if (this.held.isAll) return undefined
    const counted = statsOnNodes(this.#asking, { name, position, hasFigures: true }, signal)
    return counted.then(({ points, ...others }) => ({ points: points.get(name) ?? 0, ...others }))
  }

  /** Resolves when everything that was in the log at the start is applied. */
  async caughtUp(): Promise<void> {
    await this.#caughtUp
  }

  /** See `Admission.admit`. */
  async admit(read: ReadPosition, signal?: AbortSignal): Promise<number> {
    // A write of a client may have been answered by another node, and not be applied here yet.
    const own = read.consistency === 'session' ? this.#acknowledged : 0
    return await this.#admission.admit({ ...read, position: Math.max(read.position ?? 0, own) }, signal)
  }

  /** See `Admission.latest`. */
  async latest(signal: AbortSignal | undefined): Promise<number> {
    return await this.#admission.latest(signal)
  }

  /** See `Admission.tick`. */
  async tick(): Promise<void> {
    await this.#admission.tick()
  }

  /** Why this node no longer applies the log; undefined while it does. */
  get failure(): Error | undefined {
    return this.#applier.failure
  }

  /** Why the log is lost, as far as this node knows. */
  get lostLog(): string | undefined {
    return lostIn(this.failure)
  }

  /** Stops applying a log that is lost, and accepts no more writes. */
  giveUpLog(why: string): void {
    this.#applier.fail(new LogLost(why))
  }

  /**
   * Carries out a request through the log; resolves when owners of its points have applied it.
   *
   * @throws DatabaseError of the operation; `not_ready` when it is not known whether the request was stored
   */
  async write<Request extends LoggedRequest>(
    request: Request,
    to: WriteTarget,
  ): Promise<LoggedResults[Request['kind']]> {
    if (this.#stall instanceof DatabaseError && !freesSpace(request)) throw this.#stall
    this.#checkApplies()
    const { result, position } = await this.writes.write(request, to)
    this.#acknowledged = Math.max(this.#acknowledged, position)
    return result as LoggedResults[Request['kind']]
  }

  /** The most points of a collection that one request by a filter can change. */
  changesMax(...asked: Parameters<Publisher['changesMax']>): number {
    return this.#publisher.changesMax(...asked)
  }

  /** Changes collections or aliases on all replicas. */
  async change(
    request: Extract<ClusterRequest, { readonly kind: 'create' | 'drop' | 'aliases' }>,
  ): Promise<unknown> {
    this.#checkApplies()
    const { result, position } = await this.#publisher.submit(request, { collection: '' })
    this.#acknowledged = Math.max(this.#acknowledged, position)
    return result
  }

  /** See `PartitionMoves.take`. */
  async takePartitions(wanted: PartitionSet, from: string, signal: AbortSignal): Promise<void> {
    await this.#moves.take(wanted, from, signal)
  }

  /** See `PartitionMoves.drop`. */
  async dropPartitions(gone: PartitionSet, signal: AbortSignal): Promise<void> {
    await this.#moves.drop(gone, signal)
  }

  /** Finishes the records that are being applied, and stops. The caller closes the collections afterwards. */
  async close(): Promise<void> {
    this.#stop.abort(new DatabaseError('shutting_down', 'the server is shutting down'))
    this.#publisher.close()
    this.#snapshotSender.close()
    await this.#applier.close()
    await this.#moves.ended()
    await this.#working
    this.#outcomes.end(uncertain(this.#stop.signal.reason))
  }

  /** Tells the others what this node holds of a collection, and compares it with what they tell. */
  #onAudit(collection: string, position: number, digest: Uint8Array): void {
    this.#chores.noteAudit()
    // Audits from before the start were compared long ago, and a collection can be ahead of them.
    if (!this.#isCaughtUp) return
    const own: NodeDigest = { node: this.#options.name, position, digest, held: this.held }
    this.#audits.add(collection, own)
    const { signal } = this.#stop
    this.#publisher.submit({ kind: 'digest', ...own }, { collection, signal }).catch((err: unknown) => {
      if (!signal.aborted) this.#options.logger.warn({ err }, 'the replicas could not be compared')
    })
  }

  /** @throws the failure of the applier: this node would never have the outcome of a write */
  #checkApplies(): void {
    if (this.failure !== undefined) throw this.failure
  }

  async #isAppliedElsewhere(position: number): Promise<boolean> {
    const { documents, name } = this.#options
    for (const [node, value] of await documents.announced()) {
      if (node === name) continue
      const said = fromJson<Announcement>(value)
      if (isWhole(said) && said.position >= position) return true
    }
    return false
  }

  async #expire(collection: string, take: () => readonly string[]): Promise<void> {
    await delay(Math.random() * (this.#options.expireMs ?? expireMs), undefined, {
      signal: this.#stop.signal,
      ref: false,
    })
    const ids = take()
    if (ids.length === 0) return
    this.#checkApplies()
    // This node holds these points, and every other owner deletes its own copies alike.
    await this.#publisher.submit({ kind: 'expire', ids }, { collection })
  }

  get #stall(): Error | undefined {
    return this.#stalls.values().next().value
  }

  #noteStall(collection: string, stall: Error | undefined): void {
    const { logger } = this.#options
    const wasStalled = this.#stalls.size > 0
    if (stall === undefined) this.#stalls.delete(collection)
    else this.#stalls.set(collection, stall)
    const isStalled = this.#stalls.size > 0
    if (isStalled && !wasStalled)
      logger.error({ err: stall, collection }, 'this node cannot apply the changes of the cluster for now')
    if (wasStalled && !isStalled) logger.info('this node applies the changes of the cluster again')
  }

  #fail(error: Error): void {
    this.#options.logger.fatal({ err: error }, 'this node no longer applies the log of its cluster')
    this.#outcomes.end(uncertain(error))
    const reason = needIn(error)
    if (reason !== undefined) this.#unusable.resolve(reason)
  }
}

/** Why a node needs a copy of another node's data, if the error or one of its causes says so. */
export function needIn(error: unknown): string | undefined {
  for (let each = error; each instanceof Error; each = each.cause) {
    if (each instanceof NeedsReplica) return each.message
  }
  return damageIn(error)?.message
}

const usualRetryMs = 200
const expireMs = 500
