import { randomUUID } from 'node:crypto'
import type { ClusterStatus, NodeState } from '../base/cluster-status.ts'
import { DatabaseError, damageIn } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import type { ServiceMetrics } from '../base/metrics.ts'
import type { ServedData } from '../collections/served-data.ts'
import { storedPosition } from '../storage/data-store.ts'
import { replacementReason, requestReplacement } from '../storage/files/data-directory.ts'
import { ClusterNode, needIn } from './cluster-node.ts'
import type { ReadPosition } from './cluster-node-options.ts'
import { lostIn, lostLogMessage, type SharedDocuments, shortIdOf } from './log/commit-log.ts'
import { placeIn } from './log/founding.ts'
import { type NatsCluster, openNatsCluster } from './log/nats-cluster.ts'
import { ClusterView, logServerNotes } from './membership/cluster-view.ts'
import {
  announce,
  enter,
  removeMember,
  requestMemberState,
  setMemberState,
  setReplicas,
  whenAway,
  withRefetched,
} from './membership/ownership.ts'
import {
  type Announcement,
  announcedIn,
  changeTopology,
  memberOf,
  readTopology,
  type Topology,
} from './membership/topology.ts'
import {
  announcementOf,
  type ClusterServiceOptions,
  type ClusterTimings,
  type NodeEvent,
  next,
  positionOf,
  registerMetrics,
  type ServiceState,
  statusOf,
  whyNotReady,
} from './node-state.ts'
import { NodeRequests, twinMessage, untilNameIsFree } from './requests.ts'
import { PartitionMover } from './transfer/partition-mover.ts'
import { fetchReplica } from './transfer/replica-fetch.ts'
import { isNoOutage, pause, unlessAborted, untilAnswered, Waiters } from './waiting.ts'

/**
 * A process's side of its cluster: the connection to the log servers, the node, its membership, and the status for
 * operators. It is a state machine: `next` in node-state.ts says which state follows an event, and one loop does the
 * work of each state, which returns the next event:
 *
 *   joining     connect, look at the data, become a member      serving    move partitions, until something happens
 *   copying     replace the data by those of another node       draining   the same
 *   catchingUp  load the data, apply what the log has           logLost    answer reads; a start looks for the log again
 *                                                               failed     wait for a reason to copy
 *
 * A node that has copied holds no partitions at first: it gets them from their owners while it serves. A lost log ends
 * the cluster: see docs/cluster.md.
 */
export class ClusterService {
  readonly #options: ClusterServiceOptions
  readonly #logger: Logger
  readonly #stop = new AbortController()
  readonly #view: ClusterView
  readonly #now: ServiceState
  /** Why its data cannot be used. */
  #need: string | undefined
  /** An attempt to replace the data of a serving node that was in vain is repeated from then on. */
  #copyFromMs = 0
  /** Woken when something has happened, and once a second. */
  readonly #happened = new Waiters()
  #requests: NodeRequests | undefined
  #running: Promise<void> | undefined
  #watching: Promise<void> | undefined
  #fetchedMs = 0
  /** Undefined until the metrics are loaded, which happens while the node connects. */
  #timings: ClusterTimings | undefined

  constructor(options: ClusterServiceOptions, logger: Logger) {
    this.#options = options
    this.#logger = logger
    this.#view = new ClusterView(options.node)
    this.#now = { options, view: this.#view, run: randomUUID(), state: 'joining', fetches: 0, gaps: 0 }
  }

  /**
   * Resolves when this node serves for the first time. From then on it recovers by itself.
   *
   * @throws UnusableNats; Error when this node cannot be a member of this cluster; DatabaseError `shutting_down` when
   *   closed meanwhile
   */
  async start(data: ServedData): Promise<void> {
    const started = Promise.withResolvers<void>()
    this.#running = this.#run(data, started)
    await started.promise
    const { node } = this.#options
    this.#logger.info({ node, position: this.node.position }, 'caught up with the log of the cluster')
  }

  async #run(data: ServedData, started: PromiseWithResolvers<void>): Promise<void> {
    const { signal } = this.#stop
    const work: Readonly<Record<NodeState, () => Promise<NodeEvent>>> = {
      joining: () => this.#join(data),
      copying: () => this.#copy(data),
      catchingUp: () => this.#catchUp(data),
      serving: () => this.#event(),
      draining: () => this.#event(),
      logLost: () => this.#waitForLog(),
      failed: () => this.#event(),
    }
    let hasServed = false
    while (!signal.aborted) {
      try {
        this.#enterState(next(this.#now.state, await work[this.#now.state]()))
      } catch (error) {
        const event = await this.#eventOf(error, data).catch(() => undefined)
        if (event !== undefined) this.#enterState(next(this.#now.state, event))
        else if (!hasServed || signal.aborted) return started.reject(error)
        else {
          this.#logger.error({ err: error }, 'this node is still out of service: trying again')
          await pause(againMs, signal)
        }
      }
      if (this.#now.state !== 'serving') continue
      hasServed = true
      started.resolve()
    }
    started.reject(signal.reason)
  }

  #enterState(state: NodeState): void {
    if (state === this.#now.state) return
    this.#logger.info(
      { node: this.#options.node, from: this.#now.state, state },
      'this node changes its state',
    )
    this.#now.state = state
  }

  /** What an error in the work of a state means; undefined: nothing that the next state could mend. */
  async #eventOf(error: unknown, data: ServedData): Promise<NodeEvent | undefined> {
    if (this.#stop.signal.aborted) return undefined
    const lost = lostIn(error)
    if (lost !== undefined) {
      await this.#noteLost(data, lost)
      return 'logLost'
    }
    const need = needIn(error)
    if (need === undefined || !(await this.#hasOthers())) return undefined
    this.#need = need
    return 'unusable'
  }

  async #join(data: ServedData): Promise<NodeEvent> {
    if (this.#now.mover === undefined)
      await this.#connect(data).catch(async (error: unknown) => {
        await this.#disconnect()
        throw error
      })
    this.#need = await this.#needOf(data)
    await this.#answered(() => this.#enter())
    this.#watching ??= this.#watch()
    return this.#need === undefined ? 'usable' : 'unusable'
  }

  async #enter(): Promise<void> {
    const { node, zone, replicas, dimension = null } = this.#options
    const member = { zone, address: this.#options.address() }
    const entry = { node, member, replicas, dimension, mayFound: this.#need === undefined }
    await enter(this.#documents, entry, this.#logger)
  }

  /** Resolves when something has happened to a node that runs, and nothing keeps it from leaving its state. */
  async #event(): Promise<NodeEvent> {
    const { signal } = this.#stop
    for (;;) {
      signal.throwIfAborted()
      const event = this.#pending()
      const isKept = event === 'unusable' && !(await this.#leaves())
      if (event !== undefined && !isKept) return event
      await this.#happened.wait(signal)
    }
  }

  #pending(): NodeEvent | undefined {
    const { lostLog, failure } = this.node
    if (lostLog !== undefined) return 'logLost'
    const wanted = memberOf(this.#view.topology, this.#options.node)?.state
    if (wanted === 'refetching') this.#need ??= asked
    if (this.#need !== undefined && performance.now() >= this.#copyFromMs) return 'unusable'
    if (failure !== undefined && this.#now.state !== 'failed') return 'failed'
    if (wanted === 'draining' && this.#now.state === 'serving') return 'drained'
    if (wanted !== 'draining' && this.#now.state === 'draining') return 'undrained'
    return undefined
  }

  async #waitForLog(): Promise<NodeEvent> {
    const { signal } = this.#stop
    // A running node answers reads until it is stopped.
    while (this.#now.node !== undefined && !signal.aborted) await this.#happened.wait(signal)
    await pause(watchMs, signal)
    return 'retried'
  }

  async #connect(data: ServedData): Promise<void> {
    const { cluster, node, openLog = openNatsCluster } = this.#options
    const { signal } = this.#stop
    const logger = this.#logger
    logger.info({ cluster, node }, 'connecting to the log of the cluster')
    // Damaged data may also come from a log.
    const hasApplied = await data.openStore().then(
      ({ main }) => main.applied !== undefined,
      () => true,
    )
    const onUnfounded = (why: string): void => {
      this.#now.reason = why
    }
    const joining = { ...this.#options, mayFound: false, isMember: hasApplied, onUnfounded }
    this.#now.nats = await openLog(joining, logger, signal)
    this.#now.reason = undefined
    const { log, bus, documents } = this.#now.nats
    const { first, last, bytes } = await this.#answered(() => log.bounds())
    logger.info({ cluster, node, first, last, bytes }, 'the log of the cluster is open')
    const { maxRequestBytes, answerBytes, announcementMs = 5_000 } = this.#options
    await untilNameIsFree({ bus, cluster, node, logger, signal, patienceMs: announcementMs + 1_000 })
    const peers = new NodeRequests({
      bus,
      cluster,
      node,
      answerBytes,
      onCall: (seconds) => this.#timings?.request(seconds),
      logger,
      handlers: { get: (operation) => this.#now.node?.peerHandlers.get(operation) },
      messageBytesMax: Math.max(messageFactor * maxRequestBytes, messageBytesMin),
    })
    this.#requests = peers
    await this.#answered(() =>
      peers.checkReached().catch((error: Error) => {
        this.#now.reason = error.message
        throw error
      }),
    )
    this.#now.reason = undefined
    this.#now.mover = new PartitionMover({ self: node, view: this.#view, documents, peers, logger })
  }

  /** Why this node's data cannot be used; undefined when they can. */
  async #needOf(data: ServedData): Promise<string | undefined> {
    const wanted = replacementReason(data.dataDir)
    if (wanted !== undefined) return wanted
    const { log, documents } = this.#connected
    const { node } = this.#options
    try {
      const store = await data.openStore()
      await this.#answered(() => placeIn(store, { log, documents, node }))
      return undefined
    } catch (error) {
      const found = needIn(error)
      if (found === undefined || (damageIn(error) !== undefined && !(await this.#hasOthers()))) throw error
      return found
    }
  }

  /** Whether the cluster has another member to fetch from. */
  async #hasOthers(): Promise<boolean> {
    const { topology } = await this.#answered(() => readTopology(this.#documents))
    return Object.keys(topology.members).some((name) => name !== this.#options.node)
  }

  /**
   * Announces this node about once a second, and looks at the cluster: what other nodes announce, and whether only they
   * have noticed that the log is lost. Resolves soon after this service is stopped.
   */
  async #watch(): Promise<void> {
    // Separately: what cannot be read must not keep this node from being heard.
    await Promise.all([this.#often((nats) => this.#announce(nats)), this.#often((nats) => this.#look(nats))])
  }

  async #often(work: (nats: NatsCluster) => Promise<void>): Promise<void> {
    const { signal } = this.#stop
    while (!signal.aborted) {
      const { nats } = this.#now
      // Undefined while the log is lost.
      if (nats !== undefined) await work(nats)
      this.#happened.wakeAll()
      await pause(watchMs, signal)
    }
  }

  async #announce({ documents }: NatsCluster, said: Announcement = announcementOf(this.#now)): Promise<void> {
    // While the log servers do not answer, this is simply tried again later.
    await unlessAborted(announce(documents, this.#options.node, said), this.#stop.signal).catch(
      (err: unknown) => this.#logger.debug({ err }, 'this node could not announce itself'),
    )
  }

  async #look({ log, documents }: NatsCluster): Promise<void> {
    const { node: self } = this.#options
    const view = this.#view
    await view.refresh(log, documents)
    await this.#replaceAway()
    const { run = this.#now.run } = view.announced.get(self) ?? {}
    const hasTwin = run !== this.#now.run
    if (hasTwin && !this.#now.hasTwin) this.#logger.error(twinMessage(self))
    this.#now.hasTwin = hasTwin
    const isRunning = this.#now.state === 'serving' || this.#now.state === 'draining'
    // It was removed while it was cut off or stopped, and is back.
    if (isRunning && memberOf(view.topology, self) === undefined)
      await this.#enter().catch((err: unknown) => this.#logger.warn({ err }, 'this node cannot join again'))
    const logId = shortIdOf(log)
    for (const [name, { lostLog, position }] of view.announced) {
      if (isRunning && lostLog === logId)
        this.#now.node?.giveUpLog(`node ${name} has applied it up to ${position} and found it lost`)
    }
  }

  /** Lets others copy the partitions of a member that has been away for long. */
  async #replaceAway(): Promise<void> {
    const node = this.#view.longAway
    if (node === undefined || this.#now.state !== 'serving') return
    this.#logger.warn({ node }, 'a node has been away for long: others copy its partitions')
    await setMemberState(this.#documents, node, whenAway).catch((err: unknown) =>
      this.#logger.debug({ err, node }, 'the topology could not be changed: trying again'),
    )
  }

  /** Unloads the data and disconnects from the log servers. */
  async #noteLost(data: ServedData, why: string): Promise<void> {
    if (this.#now.lost?.why !== why) this.#logger.error(lostLogMessage(why))
    await this.#unload(data, lostLogMessage(why))
    const store = await data.openStore()
    this.#now.lost = { why, position: await storedPosition(store) }
    const { applied } = store.main
    const { nats } = this.#now
    // What is announced again and again does not know of the lost log: it ends here.
    this.#now.nats = undefined
    // Tells nodes that are behind this one and do not miss any records yet.
    if (applied !== undefined && nats !== undefined)
      await this.#announce(nats, { ...announcementOf(this.#now), lostLog: applied.logId })
    await this.#disconnect(nats)
  }

  /** @param onRefused called as soon as requests are refused */
  async #unload(data: ServedData, why: string, onRefused: () => void = () => {}): Promise<void> {
    this.#now.reason = why
    await this.#now.mover?.stopMoves()
    const node = this.#now.node
    this.#now.node = undefined
    const unloaded = data.unload(new DatabaseError('not_ready', why))
    onRefused()
    await node?.close()
    await unloaded
  }

  async #disconnect(nats: NatsCluster | undefined = this.#now.nats): Promise<void> {
    this.#now.mover = undefined
    this.#requests?.close()
    this.#requests = undefined
    this.#now.nats = undefined
    await nats?.close()
  }

  /** Replaces this node's data with those of another node. */
  async #copy(data: ServedData): Promise<NodeEvent> {
    const { node: name, fetchRetryMs: retryMs } = this.#options
    const reason = this.#need!
    const why = `this node fetches everything from another one: ${reason}`
    this.#options.onServing?.(false)
    // What was just fetched is no better: whoever looks into it needs time.
    if (this.#now.fetches > 0 && performance.now() - this.#fetchedMs < againMs)
      await pause(againMs, this.#stop.signal)
    this.#logger.warn({ reason }, 'this node fetches everything from another one')
    const isLoaded = data.loaded !== undefined
    await this.#unload(data, why, () => isLoaded && requestReplacement(data.dataDir, reason))
    await this.#answered(async () => await this.#now.mover!.leave())
    await fetchReplica(data, {
      node: name,
      logId: shortIdOf(this.#connected.log),
      logger: this.#logger,
      retryMs,
      peers: this.#requests!,
      signal: this.#stop.signal,
      announced: () => announcedIn(this.#documents),
    })
    this.#now.fetches += 1
    this.#fetchedMs = performance.now()
    this.#need = undefined
    const change = (): Promise<Topology> =>
      changeTopology(this.#documents, (topology) => withRefetched(topology, name))
    this.#view.noteTopology(await this.#answered(change))
    return 'copied'
  }

  /**
   * Removes this node from all owners before its data are set aside.
   *
   * @returns false while there is no other node, or this node is the only one that holds some of the points: then it
   *   keeps its data, and tries again later
   */
  async #leaves(): Promise<boolean> {
    const isFirstAttempt = this.#copyFromMs === 0
    this.#copyFromMs = performance.now() + againMs
    try {
      if (!(await this.#hasOthers())) return false
      // A move in progress would make this node an owner again.
      await this.#now.mover!.stopMoves()
      await this.#now.mover!.leave()
      return true
    } catch (err) {
      if (this.#stop.signal.aborted) throw err
      if (isFirstAttempt)
        this.#logger.error(
          { err, reason: this.#need },
          'this node keeps its data for now: trying again later',
        )
      this.#now.mover!.startMoves(this.node, this.#stop.signal)
      return false
    }
  }

  /** Loads the data, and applies the log to them. */
  async #catchUp(data: ServedData): Promise<NodeEvent> {
    const { node: name, maxBufferedBytes, maxRequestBytes, logBytesMax } = this.#options
    // What an earlier attempt has left behind.
    if (data.loaded !== undefined) await this.#unload(data, 'this node loads its data again')
    const { log, documents } = this.#connected
    const store = await data.openStore()
    const options = {
      sharding: await this.#answered(async () => await this.#now.mover!.shardingOf(store.main)),
      log,
      documents,
      name,
      maxBufferedBytes: Math.min(maxBufferedBytes, logBytesMax / logShare),
      maxRequestBytes,
      logger: this.#logger,
      timings: () => this.#timings,
      onGap: () => {
        this.#now.gaps += 1
      },
      timeoutMs,
    }
    const { signal } = this.#stop
    const node = await ClusterNode.open(options, { store, load: (hooks) => data.load(hooks) }, signal)
    this.#now.node = node
    await unlessAborted(node.caughtUp(), signal)
    this.#now.reason = undefined
    this.#now.lost = undefined
    this.#copyFromMs = 0
    void node.unusable.then((reason) => {
      if (this.#now.node !== node) return
      this.#need = reason
      this.#happened.wakeAll()
    })
    this.#now.mover!.startMoves(node, signal)
    if (this.#now.fetches > 0) this.#options.onServing?.(true)
    return 'caughtUp'
  }

  /** Why the node is not ready; undefined when it is. */
  readonly notReady = (): string | undefined => whyNotReady(this.#now)

  /** What is amiss although this node is ready, for people. */
  get notes(): readonly string[] {
    return logServerNotes(this.#view.log ?? {})
  }

  /** How this node sees its cluster, for operators. */
  readonly status = async (): Promise<ClusterStatus> => await statusOf(this.#now)

  readonly remove = async (node: string): Promise<boolean> => await removeMember(this.#documents, node)

  readonly drain = async (node: string, isDrained: boolean): Promise<boolean> =>
    isDrained
      ? await requestMemberState(this.#documents, node, 'draining')
      : await setMemberState(this.#documents, node, (before) => (before === 'draining' ? undefined : before))

  readonly refetch = async (node: string): Promise<boolean> =>
    await requestMemberState(this.#documents, node, 'refetching')

  readonly setReplicas = async (replicas: number): Promise<void> =>
    await setReplicas(this.#documents, replicas)

  /** @throws DatabaseError `not_ready` while no node is loaded */
  get node(): ClusterNode {
    if (this.#now.node === undefined) throw new DatabaseError('not_ready', 'the node is joining its cluster')
    return this.#now.node
  }

  /** Registers the metrics of this node and its log. */
  registerMetrics(metrics: ServiceMetrics): void {
    this.#timings = registerMetrics(metrics, this.#now)
  }

  /** The log position that this node has applied, for reads. */
  get position(): number {
    return positionOf(this.#now)
  }

  /** See `ClusterNode.acknowledged`. */
  get acknowledged(): number {
    return this.#now.node?.acknowledged ?? 0
  }

  /** See `ClusterNode.answeredPosition`. */
  get answeredPosition(): number {
    return this.#now.node?.answeredPosition ?? 0
  }

  /** Resolves when this node is as up to date as a read asks for. */
  async admit(read: ReadPosition, signal: AbortSignal | undefined): Promise<number> {
    return await this.node.admit(read, signal)
  }

  get #documents(): SharedDocuments {
    return this.#connected.documents
  }

  get #connected(): NatsCluster {
    if (this.#now.nats !== undefined) return this.#now.nats
    throw new DatabaseError('not_ready', 'the log servers of the cluster do not answer')
  }

  /** Cancels everything that waits for the log servers, and stops applying the log. */
  async stop(): Promise<void> {
    this.#stop.abort(new DatabaseError('shutting_down', 'the server is shutting down'))
    await this.#now.mover?.stopMoves()
    await Promise.all([this.#running, this.#now.node?.close()])
    // One that was opened meanwhile.
    await this.#now.node?.close()
  }

  /** Closes the connections; to be called after the collections are closed. */
  async close(): Promise<void> {
    await this.stop()
    await this.#watching
    await this.#disconnect()
  }

  /** Asks the log servers until they answer, while this node is becoming ready. */
  async #answered<Value>(ask: () => Promise<Value>): Promise<Value> {
    const { signal } = this.#stop
    return await untilAnswered(ask, {
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
