import type { ClusterStatus } from '../base/cluster-status.ts'
import { DatabaseError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import type { ServedData } from '../collections/served-data.ts'
import { storedPosition } from '../storage/data-store.ts'
import { damageIn } from '../storage/files/data-directory.ts'
import { replacementReason, requestReplacement } from '../storage/files/replacement.ts'
import { ClusterNode, needIn } from './cluster-node.ts'
import type { ReadPosition } from './cluster-node-options.ts'
import { lostIn, lostLogMessage, MeasuredLog, type SharedDocuments, shortIdOf } from './log/commit-log.ts'
import { placeOf } from './log/founding.ts'
import { type NatsCluster, openNatsCluster } from './log/nats-cluster.ts'
import { ClusterView } from './membership/cluster-view.ts'
import {
  type Announcement,
  checkSettings,
  decidingSettings,
  Membership,
  settingsFault,
} from './membership/membership.ts'
import { removeMember, setMemberState, setReplicas } from './membership/ownership.ts'
import { type MemberState, readTopology, toJson } from './membership/topology.ts'
import { NodeRequests } from './requests.ts'
import { type ClusterFigures, type ClusterServiceOptions, ServiceStatus } from './service-status.ts'
import { ServiceParts } from './transfer/partition-mover.ts'
import { fetchReplica } from './transfer/replica-fetch.ts'
import { isNoOutage, pause, retried } from './waiting.ts'

/**
 * A process's side of its cluster: the connection to the log servers, the node, its membership, and the status for
 * operators.
 *
 *   start ─> connected ─> a member ─> do its data belong to the log? ─> loaded ─> caught up ─> ready ─> close
 *                                       │ no        ^                     │ damaged, wrong,     │
 *                                       └> fetched ─┘<─────set aside──────┴ behind the log <────┘
 *
 * A node that has fetched holds no partitions at first: it copies them from their owners while it answers. A lost log
 * ends the cluster: a running node then only answers reads, and a starting one waits until it is stopped: see
 * docs/cluster.md.
 */
export class ClusterService {
  readonly #options: ClusterServiceOptions
  readonly #logger: Logger
  readonly #stop = new AbortController()
  #nats: NatsCluster | undefined
  #log: MeasuredLog | undefined
  #node: ClusterNode | undefined
  #data: ServedData | undefined
  #membership: Membership | undefined
  #requests: NodeRequests | undefined
  readonly #view: ClusterView
  #parts: ServiceParts | undefined
  #state: MemberState | undefined
  #watching: Promise<void> | undefined
  /** Why this node is not ready yet, when its `ClusterNode` does not report the reason. */
  #waitsFor: string | undefined
  /** Whether the node is running on its data, and no start or refetch is in progress. */
  #isBegun = false
  /** This node leaves the service to fetch its data again, until it is back. */
  #absence: Promise<void> | undefined
  /** A refetch that is tried again later, because this node is the only one that holds some of the points. */
  #postponed: { readonly reason: string; readonly node: ClusterNode; readonly sinceMs: number } | undefined
  /** How often everything was fetched from another node. */
  #fetches = 0
  /** How many `ClusterNode`s this process has created. */
  #generation = 0
  /** Set while the log is lost and no node runs: why it is lost, and the position that the data have reached. */
  #lost: { readonly why: string; readonly position: number } | undefined
  readonly #status: ServiceStatus
  /** How the settings of another node differ from those of this one, when that was reported. */
  #settingsFault: string | undefined

  constructor(options: ClusterServiceOptions, logger: Logger) {
    this.#options = options
    this.#logger = logger
    this.#view = new ClusterView(options.node)
    this.#status = new ServiceStatus(options, this.#view, () => ({
      node: this.#node,
      nats: this.#nats,
      log: this.#log,
      membership: this.#membership,
      parts: this.#parts,
      memberState: this.#state,
      waitsFor: this.#waitsFor,
      lostLog: this.#lostLog,
      position: this.position,
      fetches: this.#fetches,
      settings: this.#data === undefined ? {} : decidingSettings(this.#data),
    }))
  }

  /**
   * Connects to the log, loads the data, starts to apply the log, and enters this node among the members. Resolves
   * when it has caught up. From then on, unusable data are replaced automatically.
   *
   * @throws UnusableNats; Error when this node cannot be a member of this cluster; DatabaseError `shutting_down` when
   *   closed meanwhile
   */
  async start(data: ServedData): Promise<void> {
    this.#data = data
    await this.#beginOnLog(data)
    const { node } = this.#options
    this.#logger.info({ node, position: this.node.position }, 'caught up with the log of the cluster')
  }

  /** Retries until there is a log and this node is ready with it. */
  async #beginOnLog(data: ServedData): Promise<void> {
    const { signal } = this.#stop
    for (;;) {
      try {
        await this.#connect(data)
        await this.#begin(data)
        this.#lost = undefined
        return
      } catch (error) {
        const why = lostIn(error)
        if (why === undefined || signal.aborted) throw error
        await this.#noteLost(data, why)
        await pause(watchMs, signal)
      }
    }
  }

  async #connect(data: ServedData): Promise<void> {
    const { cluster, node, onAppend, openLog = openNatsCluster } = this.#options
    this.#logger.info({ cluster, node }, 'connecting to the log of the cluster')
    // Damaged data may also come from a log.
    const hasApplied = await data.openStore().then(
      ({ main }) => main.applied !== undefined,
      () => true,
    )
    this.#nats = await openLog({ ...this.#options, mayFound: !hasApplied }, this.#logger, this.#stop.signal)
    this.#log = new MeasuredLog(this.#nats.log, onAppend)
    const log = this.#log
    const { first, last, bytes } = await this.#answered(() => log.bounds())
    this.#logger.info({ cluster, node, first, last, bytes }, 'the log of the cluster is open')
    const { maxRequestBytes, answerBytes, onRequest: onCall } = this.#options
    const { bus, documents } = this.#nats
    const peers = new NodeRequests({
      bus,
      cluster,
      node,
      answerBytes,
      onCall,
      logger: this.#logger,
      handlers: {
        get: (operation) => this.#node?.peerHandlers.get(operation),
      },
      messageBytesMax: Math.max(messageFactor * maxRequestBytes, messageBytesMin),
    })
    this.#requests = peers
    this.#parts = new ServiceParts({
      self: node,
      view: this.#view,
      documents,
      peers,
      logger: this.#logger,
    })
  }

  /** Retries until this node is ready, however often its data have to be replaced. */
  async #begin(data: ServedData): Promise<void> {
    let need = await this.#needOf(data)
    for (;;) {
      await this.#enter(need === undefined)
      if (need !== undefined) await this.#fetch(data, need)
      try {
        await this.#run(data, need !== undefined)
        break
      } catch (error) {
        const found = needIn(error)
        if (found === undefined || this.#stop.signal.aborted || !(await this.#hasOthers())) throw error
        need = found
        await this.#setAside(data, need)
      }
    }
    const { node } = this
    this.#isBegun = true
    void node.unusable.then((reason) => this.#refetch(reason, node))
    // An operator may have asked for that while this node was away.
    if (need === undefined && this.#state === 'refetching') this.#refetch(asked, node)
  }

  /** Why this node's data cannot be used; undefined when they can. */
  async #needOf(data: ServedData): Promise<string | undefined> {
    const wanted = replacementReason(data.dataDir)
    if (wanted !== undefined) return wanted
    const documents = this.#documents
    const { node } = this.#options
    const log = this.#log!
    try {
      const store = await data.openStore()
      const { main, collections } = store
      const hasPoints = main.sequence > 0 || collections.size > 0
      const { applied } = main
      const stored = await storedPosition(store)
      const beginning = { log, documents, logId: shortIdOf(log), node, applied, stored, hasPoints }
      await this.#answered(() => placeOf(beginning))
      return undefined
    } catch (error) {
      const found = needIn(error)
      if (found === undefined || (damageIn(error) !== undefined && !(await this.#hasOthers()))) throw error
      return found
    }
  }

  /** Whether the cluster has another member to fetch from. */
  async #hasOthers(): Promise<boolean> {
    const documents = this.#documents
    const { node } = this.#options
    const { topology } = await this.#answered(() => readTopology(documents))
    return Object.keys(topology.members).some((name) => name !== node)
  }

  /** Enters this node among the members. */
  async #enter(mayFound: boolean): Promise<void> {
    if (this.#membership !== undefined) return
    const documents = this.#documents
    const { node, replicas, announcementMs } = this.#options
    const describe = (): Announcement => this.#status.announcement
    const { signal } = this.#stop
    const logger = this.#logger
    await this.#answered(() => checkSettings({ documents, node, describe, logger, signal, announcementMs }))
    this.#membership = await this.#answered(() =>
      Membership.join({
        documents,
        node,
        replicas,
        mayFound,
        logger,
        describe,
        onState: (state) => this.#noteState(state),
      }),
    )
    this.#watching ??= this.#watch()
  }

  /**
   * Looks at the cluster about once a second: what other nodes announce, whether their settings differ, and whether
   * only other nodes have noticed that the log is lost. Resolves soon after this service is stopped.
   */
  async #watch(): Promise<void> {
    const { signal } = this.#stop
    const { node: self } = this.#options
    const view = this.#view
    while (!signal.aborted) {
      const log = this.#log!
      await view.refresh(log, this.#membership)
      const fault = settingsFault(self, decidingSettings(this.#data!), view.announced)
      if (fault !== undefined && fault !== this.#settingsFault) this.#logger.error(fault)
      this.#settingsFault = fault
      const isRunning = this.#isBegun && this.#absence === undefined
      const logId = shortIdOf(log)
      for (const [name, { lostLog, position }] of view.announced) {
        if (isRunning && lostLog === logId)
          this.#node?.giveUpLog(`node ${name} has applied it up to ${position} and found it lost`)
      }
      this.#refetchPostponed()
      await pause(watchMs, signal)
    }
  }

  /** Unloads the data and disconnects from the log servers. */
  async #noteLost(data: ServedData, why: string): Promise<void> {
    if (this.#lost?.why !== why) this.#logger.error(lostLogMessage(why))
    await this.#unload(data, lostLogMessage(why))
    const store = await data.openStore()
    this.#lost = { why, position: await storedPosition(store) }
    const { applied } = store.main
    // Tells nodes that are behind this one and do not miss any records yet.
    const said = applied && { ...this.#status.announcement, lostLog: applied.logId }
    if (said) await this.#nats?.documents.announce(this.#options.node, toJson(said)).catch(() => {})
    await this.#disconnect()
  }

  /** @param onRefused called as soon as requests are refused */
  async #unload(data: ServedData, why: string, onRefused: () => void = () => {}): Promise<void> {
    this.#isBegun = false
    this.#waitsFor = why
    await this.#parts?.stopMoves()
    const node = this.#node
    this.#node = undefined
    const unloaded = data.unload(new DatabaseError('not_ready', why))
    onRefused()
    await node?.close()
    await unloaded
  }

  async #disconnect(): Promise<void> {
    await this.#membership?.close()
    this.#membership = undefined
    this.#requests?.close()
    await this.#nats?.close()
    this.#nats = undefined
  }

  /** Replaces this node's data with those of another node. */
  async #fetch(data: ServedData, reason: string): Promise<void> {
    const { node, fetchRetryMs: retryMs } = this.#options
    const membership = this.#membership!
    this.#logger.warn({ reason }, 'this node fetches everything from another one')
    this.#waitsFor = `this node fetches everything from another one: ${reason}`
    await data.unload(new DatabaseError('not_ready', this.#waitsFor))
    await this.#answered(async () => await this.#parts?.leave())
    await this.#answered(() => membership.setJoining(true))
    await fetchReplica(data, {
      node,
      logId: shortIdOf(this.#log!),
      logger: this.#logger,
      retryMs,
      peers: this.#requests!,
      signal: this.#stop.signal,
      announced: () => membership.announced(),
    })
    this.#fetches += 1
  }

  async #run(data: ServedData, isFetched: boolean): Promise<void> {
    const { node: name, maxBufferedBytes, maxRequestBytes, onApply, onAcknowledge } = this.#options
    const { appendTimeoutMs = 0, logBytesMax } = this.#options
    this.#generation += 1
    const { main: stored } = await data.openStore()
    const sharding = await this.#answered(async () => await this.#parts!.shardingOf(stored))
    const node = new ClusterNode({
      sharding,
      log: this.#log!,
      documents: this.#nats!.documents,
      name,
      maxBufferedBytes: Math.min(maxBufferedBytes, logBytesMax / logShare),
      maxRequestBytes,
      logger: this.#logger,
      onApply,
      onAcknowledge,
      timeoutMs: Math.max(timeoutMs, appendTimeoutMs + answerMs),
      run: `${Date.now().toString(36)}-${this.#generation}`,
    })
    this.#node = node
    const { main, set } = await data.load((collection) => node.replicaOf(collection))
    await node.start(main, set)
    await node.caughtUp()
    if (isFetched) await this.#answered(() => this.#membership!.setJoining(false))
    this.#waitsFor = undefined
    this.#parts!.startMoves(node, this.#stop.signal)
  }

  /** Stops using this node's data, also after a restart. */
  async #setAside(data: ServedData, reason: string): Promise<void> {
    const why = `this node fetches everything from another one: ${reason}`
    await this.#unload(data, why, () => requestReplacement(data.dataDir, reason))
  }

  /** Takes this node out of service until it has a copy of another node's data. */
  #refetch(reason: string, node: ClusterNode): void {
    if (this.#stop.signal.aborted || this.#node !== node || this.#absence !== undefined) return
    this.#isBegun = false
    this.#absence = this.#untilBack(reason, node).finally(() => {
      this.#absence = undefined
    })
  }

  async #untilBack(reason: string, node: ClusterNode): Promise<void> {
    const { signal } = this.#stop
    while (!signal.aborted) {
      try {
        if (!(await this.#hasOthers()) || !(await this.#leaves(reason, node))) {
          this.#isBegun = true
          return
        }
        this.#logger.error({ reason }, 'this node is out of service: it cannot continue with its data')
        this.#options.onServing?.(false)
        await this.#setAside(this.#data!, reason)
        await this.#begin(this.#data!)
        this.#options.onServing?.(true)
        this.#logger.info({ position: this.node.position }, 'this node is in service again')
        return
      } catch (err) {
        if (signal.aborted) return
        this.#logger.error({ err }, 'this node is still out of service: trying again')
        await pause(againMs, signal)
      }
    }
  }

  /**
   * Removes this node from all owners before anything is set aside.
   *
   * @returns false while this node is the only one that holds some of the points
   */
  async #leaves(reason: string, node: ClusterNode): Promise<boolean> {
    // A move in progress would make this node an owner again.
    await this.#parts?.stopMoves()
    try {
      await this.#parts?.leave()
      return true
    } catch (err) {
      this.#parts?.startMoves(node, this.#stop.signal)
      if (!(err instanceof DatabaseError && err.reason === 'precondition_failed')) throw err
      if (this.#postponed === undefined)
        this.#logger.error({ err, reason }, 'this node cannot fetch its data again yet: trying again later')
      this.#postponed = { reason, node, sinceMs: performance.now() }
      return false
    }
  }

  /** Tries a postponed refetch again: other nodes may have copied by now what only this node had. */
  #refetchPostponed(): void {
    if (this.#postponed === undefined || !this.#isBegun) return
    const { reason, node, sinceMs } = this.#postponed
    if (this.#node !== node) this.#postponed = undefined
    else if (performance.now() - sinceMs >= againMs && node.lostLog === undefined) this.#refetch(reason, node)
  }

  #noteState(state: MemberState | undefined): void {
    const { node } = this.#options
    this.#state = state
    if (state === 'draining')
      this.#logger.info({ node }, 'this node is being drained: it takes no more clients')
    if (state === 'refetching' && this.#isBegun) this.#refetch(asked, this.node)
  }

  /** Why the node is not ready; undefined when it is. */
  readonly notReady = (): string | undefined => this.#status.notReady

  /** How this node sees its cluster, for operators. */
  readonly status = async (): Promise<ClusterStatus> => await this.#status.ofCluster()

  readonly remove = async (node: string): Promise<boolean> => await removeMember(this.#documents, node)

  readonly drain = async (node: string, isDrained: boolean): Promise<boolean> =>
    await setMemberState(this.#documents, node, isDrained ? 'draining' : undefined, (before) =>
      isDrained ? before !== 'refetching' : before === 'draining',
    )

  readonly refetch = async (node: string): Promise<boolean> =>
    await setMemberState(this.#documents, node, 'refetching', (before) => before !== 'joining')

  readonly setReplicas = async (replicas: number): Promise<void> =>
    await setReplicas(this.#documents, replicas)

  /** @throws DatabaseError `not_ready` while no node is loaded */
  get node(): ClusterNode {
    if (this.#node === undefined) throw new DatabaseError('not_ready', 'the node is joining its cluster')
    return this.#node
  }

  /** For metrics. */
  get figures(): ClusterFigures {
    return this.#status.figures
  }

  /** The log position that this node has applied, for reads. */
  get position(): number {
    return this.#node?.position ?? this.#lost?.position ?? 0
  }

  /** Why the log is lost; undefined while this node knows of no loss. */
  get #lostLog(): string | undefined {
    return this.#node === undefined ? this.#lost?.why : this.#node.lostLog
  }

  /** See `ClusterNode.acknowledged`. */
  get acknowledged(): number {
    return this.#node?.acknowledged ?? 0
  }

  /** See `ClusterNode.answeredPosition`. */
  get answeredPosition(): number {
    return this.#node?.answeredPosition ?? 0
  }

  /** Resolves when this node is as up to date as a read asks for. */
  async admit(read: ReadPosition, signal: AbortSignal | undefined): Promise<number> {
    return await this.node.admit(read, signal)
  }

  get #documents(): SharedDocuments {
    if (this.#nats !== undefined) return this.#nats.documents
    throw new DatabaseError('not_ready', 'the log servers of the cluster do not answer')
  }

  /** Cancels everything that waits for the log servers, and stops applying the log. */
  async stop(): Promise<void> {
    this.#stop.abort(new DatabaseError('shutting_down', 'the server is shutting down'))
    await this.#parts?.stopMoves()
    await this.#node?.close()
    await this.#absence
  }

  /** Closes the connections; to be called after the collections are closed. */
  async close(): Promise<void> {
    await this.stop()
    await this.#membership?.close()
    await this.#watching
    this.#requests?.close()
    await this.#nats?.close()
  }

  /** Asks the log servers until they answer, while this node is becoming ready. */
  async #answered<Value>(ask: () => Promise<Value>): Promise<Value> {
    const { signal } = this.#stop
    return await retried(ask, {
      what: 'joining the cluster',
      isFinal: isNoOutage,
      logger: this.#logger,
      signal,
    })
  }
}

const asked = 'an operator asks for it'
/** Pause between attempts to return to service. */
const againMs = 5_000
const watchMs = 1_000
/**
 * How many times larger a client's request can be when it is sent to another node: a one-digit number becomes four
 * bytes.
 */
const messageFactor = 4
/**
 * Some messages do not depend on a client's request: copied points of a partition take 0.5 MiB, a page of a list 16
 * MiB, and both may end with one long point.
 */
const messageBytesMin = 32 * 1024 * 1024
/**
 * What one node may have on its way is the log's size divided by this. So nothing is discarded before any node has
 * applied it, and every node has time to read it.
 */
const logShare = 16
/** Longer than the log servers take to elect a leader. */
const timeoutMs = 20_000
/** What is left of the time of a write after its append. */
const answerMs = 5_000
