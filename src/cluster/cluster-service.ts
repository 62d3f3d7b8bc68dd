import type { ClusterStatus } from '../base/cluster-status.ts'
import { DatabaseError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import { version } from '../base/version.ts'
import type { Loaded, ServedData } from '../engine/served-data.ts'
import { damageIn } from '../storage/data-directory.ts'
import { replacementReason, requestReplacement } from '../storage/replacement.ts'
import { ClusterNode, needIn } from './cluster-node.ts'
import type { NodeStatus, ReadPosition } from './cluster-node-options.ts'
import type { ClusterFigures, ClusterServiceOptions } from './cluster-service-options.ts'
import { ClusterView, logStatus, nodeStatuses, partitionsStatus } from './cluster-view.ts'
import type { SharedDocuments } from './commit-log.ts'
import { placeOf } from './founding.ts'
import { shortIdOf } from './log-id.ts'
import { MeasuredLog } from './measured-log.ts'
import { removeMember, setMemberState } from './members.ts'
import { type Announcement, Membership } from './membership.ts'
import { type NatsCluster, openNatsCluster } from './nats-cluster.ts'
import { pause } from './pause.ts'
import { PeerLink } from './peer-link.ts'
import { PeerReplicaSource, replicaHandlers } from './peer-replica.ts'
import type { Peers } from './peers.ts'
import { fetchReplica } from './replica-fetch.ts'
import { catalogOf, collectionOf, type ReplicaCollectionBytes } from './replica-giving.ts'
import type { ReplicaCatalog, ReplicaSource } from './replica-transfer.ts'
import { isNoOutage, retried } from './retried.ts'
import { ServiceParts } from './service-parts.ts'
import { type MemberState, noTopology, readMembers, readTopology } from './topology.ts'

/**
 * What a process has of its cluster: the connection to the log servers, the node, its place among the others, and the
 * status that operators see.
 *
 *   start ─> connected ─> a member ─> what it holds is that of the log? ─> loaded ─> caught up ─> ready ─> close
 *                                       │ no        ^                        │ damaged, wrong,     │
 *                                       └> fetched ─┘<──────set aside────────┴ behind the log <────┘
 *
 * What is fetched is compared with what others hold before this node is ready.
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
  #link: PeerLink | undefined
  readonly #view = new ClusterView()
  /** Absent without a link. */
  #parts: ServiceParts | undefined
  /** Ends the moves of the node of the moment. */
  #moves: { readonly stop: AbortController; readonly ended: Promise<void> } | undefined
  #state: MemberState | undefined
  #watching: Promise<void> | undefined
  /** Why this node has to wait before it is ready, though nothing is wrong with the log. */
  #waitsFor: string | undefined
  /** Whether this node is what its data make it, and nothing of that is under way. */
  #isBegun = false
  #refetching: Promise<void> | undefined
  /** How often everything was fetched from another node. */
  #fetches = 0
  /** Counts the nodes that this process has been. */
  #generation = 0

  constructor(options: ClusterServiceOptions, logger: Logger) {
    this.#options = options
    this.#logger = logger
  }

  /**
   * Connects to the log, loads the data, begins to apply the log, enters this node among the others, and resolves when it has
   * caught up. From then on, the data are replaced whenever they cannot be used.
   *
   * @throws UnusableNats; Error when the data of this node are not those of this cluster; DatabaseError `shutting_down` when
   *   closed meanwhile
   */
  async start(data: ServedData): Promise<void> {
    this.#data = data
    await this.#openLink()
    await this.#connect()
    if (this.#link !== undefined) {
      const { node: self } = this.#options
      const [documents, peers] = [this.#documents, this.#link]
      this.#parts = new ServiceParts({ self, view: this.#view, documents, peers, logger: this.#logger })
    }
    await this.#begin(data)
    const { node } = this.#options
    this.#logger.info({ node, position: this.node.position }, 'caught up with the log of the cluster')
  }

  /** How this node asks others; undefined without a link. */
  get peers(): Peers | undefined {
    return this.#link
  }

  async #openLink(): Promise<void> {
    const { link, cluster, node, maxRequestBytes } = this.#options
    if (link === undefined) return
    const given = replicaHandlers(this.replica)
    this.#link = await PeerLink.open({
      ...link,
      own: { cluster, node, secret: link.secret },
      handlers: { get: (method) => given.get(method) ?? this.#node?.peerHandlers.get(method) },
      addressOf: (name) => this.#view.peerAddressOf(name),
      messageBytesMax: messageFactor * maxRequestBytes,
      logger: this.#logger,
    })
    const { port } = this.#link
    this.#logger.info({ host: link.host, port, isTls: link.tls !== undefined }, 'listening for other nodes')
  }

  async #connect(): Promise<void> {
    const { cluster, node, onAppend, openLog = openNatsCluster } = this.#options
    this.#logger.info({ cluster, node }, 'connecting to the log of the cluster')
    this.#nats = await openLog(this.#options, this.#logger, this.#stop.signal)
    this.#log = new MeasuredLog(this.#nats.log, onAppend)
    const log = this.#log
    const { first, last, bytes } = await this.#answered(() => log.bounds())
    this.#logger.info({ cluster, node, first, last, bytes }, 'the log of the cluster is open')
  }

  /** Until this node is ready, however often its data have to be replaced for that. */
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
    // An operator can have asked while this node was away.
    if (need === undefined && this.#state === 'refetching') this.#refetch(asked, node)
  }

  /** Why what this node has cannot be used; undefined when it can. */
  async #needOf(data: ServedData): Promise<string | undefined> {
    const wanted = replacementReason(data.dataDir)
    if (wanted !== undefined) return wanted
    const documents = this.#documents
    const { node } = this.#options
    const log = this.#log!
    try {
      const { main, collections } = await data.openStore()
      const hasPoints = main.sequence > 0 || collections.size > 0
      const { applied } = main
      const beginning = { log, documents, logId: shortIdOf(log), node, applied, hasPoints }
      await this.#answered(() => placeOf(beginning))
      return undefined
    } catch (error) {
      const found = needIn(error)
      if (found === undefined || (damageIn(error) !== undefined && !(await this.#hasOthers()))) throw error
      return found
    }
  }

  /** Whether there can be another node to fetch from. */
  async #hasOthers(): Promise<boolean> {
    const documents = this.#documents
    const { node } = this.#options
    const { members } = await this.#answered(() => readMembers(documents))
    return Object.keys(members).some((name) => name !== node)
  }

  /** From here on the log is kept for this node. */
  async #enter(mayFound: boolean): Promise<void> {
    if (this.#membership !== undefined) return
    const documents = this.#documents
    const { node, replicas } = this.#options
    const hasLink = this.#link !== undefined
    this.#membership = await this.#answered(() =>
      Membership.join({
        ...{ log: this.#log!, documents, node, replicas, hasLink, mayFound, logger: this.#logger },
        describe: () => this.#announcement(),
        onState: (state) => this.#noteState(state),
      }),
    )
    this.#watching = this.#watch()
  }

  /** Puts what another node holds in place of what this one has. */
  async #fetch(data: ServedData, reason: string): Promise<void> {
    const { node, fetchRetryMs: retryMs } = this.#options
    const membership = this.#membership!
    this.#logger.warn({ reason }, 'this node fetches everything from another one')
    this.#waitsFor = `this node fetches everything from another one: ${reason}`
    await data.unload(new DatabaseError('not_ready', this.#waitsFor))
    await this.#answered(async () => await this.#parts?.leave())
    await this.#answered(() => membership.setJoining(true))
    await fetchReplica(data, {
      ...{ node, logId: shortIdOf(this.#log!), logger: this.#logger, retryMs },
      sourceOf: (name, said) => this.#sourceOf(name, said),
      hasPoints: await this.#answered(async () => !(await this.#isInParts())),
      signal: this.#stop.signal,
      announced: () => membership.announced(),
      onProgress: (from, points) => {
        this.#waitsFor = `this node has fetched ${points} points from ${from}: ${reason}`
      },
    })
    this.#fetches += 1
  }

  #sourceOf(name: string, said: Announcement): ReplicaSource {
    const isLinked = this.#link !== undefined && said.peer !== undefined
    return isLinked ? new PeerReplicaSource(this.#link!, name) : this.#options.sourceOf(name, said)
  }

  /** Whether nodes of this cluster have a part of the points each: then they take partitions. */
  async #isInParts(): Promise<boolean> {
    return (await readTopology(this.#documents)).topology.ownership !== undefined
  }

  async #run(data: ServedData, isFetched: boolean): Promise<void> {
    const { node: name, maxBufferedBytes, maxRequestBytes, onApply, onAcknowledge } = this.#options
    this.#generation += 1
    const { main: stored } = await data.openStore()
    const sharding = await this.#answered(async () => await this.#parts?.shardingOf(stored))
    const node = new ClusterNode({
      ...(sharding === undefined ? {} : { sharding }),
      ...{ log: this.#log!, documents: this.#nats!.documents, name, maxBufferedBytes, maxRequestBytes },
      ...{ logger: this.#logger, onApply, onAcknowledge },
      run: `${Date.now().toString(36)}-${this.#generation}`,
    })
    this.#node = node
    const { main, set } = await data.load((collection) => node.replicaOf(collection))
    await node.start(main, set)
    await node.caughtUp()
    if (isFetched) {
      this.#waitsFor = 'this node compares what it has fetched with what others hold'
      await node.verify(set)
      const membership = this.#membership!
      await this.#answered(() => membership.setJoining(false))
      this.#logger.info({ node: name }, 'this node holds what the others hold')
    }
    this.#waitsFor = undefined
    if (sharding !== undefined) {
      const stop = new AbortController()
      const either = AbortSignal.any([stop.signal, this.#stop.signal])
      this.#moves = { stop, ended: this.#parts!.move(node, either) }
    }
  }

  /** What this node holds is not used from here on, and not after a restart either. */
  async #setAside(data: ServedData, reason: string): Promise<void> {
    this.#waitsFor = `this node fetches everything from another one: ${reason}`
    this.#moves?.stop.abort()
    await this.#moves?.ended
    this.#moves = undefined
    const node = this.#node
    this.#node = undefined
    const unloaded = data.unload(new DatabaseError('not_ready', this.#waitsFor))
    requestReplacement(data.dataDir, reason)
    await node?.close()
    await unloaded
  }

  /** Takes this node out of service until it holds what another one does. */
  #refetch(reason: string, node: ClusterNode): void {
    if (this.#stop.signal.aborted || this.#node !== node || this.#refetching !== undefined) return
    this.#isBegun = false
    this.#refetching = this.#refetchUntilDone(reason).finally(() => {
      this.#refetching = undefined
    })
  }

  async #refetchUntilDone(reason: string): Promise<void> {
    const { signal } = this.#stop
    const { onServing = () => {} } = this.#options
    while (!signal.aborted) {
      try {
        if (!(await this.#hasOthers())) return
        // Before anything is set aside: nobody else may have some of it.
        await this.#parts?.leave()
        this.#logger.error({ reason }, 'this node is out of service: it cannot go on with what it holds')
        onServing(false)
        await this.#setAside(this.#data!, reason)
        await this.#begin(this.#data!)
        onServing(true)
        this.#logger.info({ position: this.node.position }, 'this node is in service again')
        return
      } catch (err) {
        if (signal.aborted) return
        this.#logger.error({ err }, 'this node is still out of service: trying again')
        await pause(againMs, signal)
      }
    }
  }

  #noteState(state: MemberState | undefined): void {
    const { node } = this.#options
    this.#state = state
    if (state === 'draining')
      this.#logger.info({ node }, 'this node is being drained: it takes no more clients')
    if (state === 'refetching' && this.#isBegun) this.#refetch(asked, this.node)
  }

  /** @throws DatabaseError `not_ready` before `open` is through */
  get node(): ClusterNode {
    if (this.#node === undefined) throw new DatabaseError('not_ready', 'the node is joining its cluster')
    return this.#node
  }

  /** For metrics. */
  get figures(): ClusterFigures {
    const { position, floor, digestMismatches } = this.#node?.status ?? beginning
    return {
      ...{ position, floor, lag: Math.max(0, this.#view.last - position), gaps: this.#log?.gaps ?? 0 },
      ...{
        digestMismatches,
        fetches: this.#fetches,
        hedges: this.#node?.hedges ?? 0,
        partitions: this.#node?.held.size ?? 0,
        partitionsMissing: this.#parts?.missing(this.#node?.held) ?? 0,
        isConnected: this.#nats?.isConnected ?? false,
      },
    }
  }

  /** For reads: up to here, this node has applied the log. */
  get position(): number {
    return this.#node?.position ?? 0
  }

  /** What answers may have in them. */
  get answeredPosition(): number {
    return this.#node?.answeredPosition ?? 0
  }

  /** Resolves when this node is as new as a read asks for. */
  async admit(read: ReadPosition, signal: AbortSignal | undefined): Promise<number> {
    return await this.node.admit(read, signal)
  }

  /** Why the node is not ready; undefined when it is. */
  readonly notReady = (): string | undefined => {
    if (this.#waitsFor !== undefined) return this.#waitsFor
    if (this.#node === undefined) return 'this node is waiting for the log servers of its cluster'
    const { isReady, fault } = this.#node.status
    if (fault !== undefined) return fault
    if (this.#state === 'draining') return 'this node is being drained'
    return isReady ? undefined : 'this node has not caught up with the log of its cluster yet'
  }

  readonly status = async (): Promise<ClusterStatus> => {
    const { cluster: name, node } = this.#options
    const { position, fault = this.#waitsFor } = this.#node?.status ?? beginning
    const [log, shown] = await Promise.all([logStatus(this.#nats?.log), this.#nodes()])
    return {
      ...{ name, node, is_ready: this.notReady() === undefined },
      is_connected: this.#nats?.isConnected ?? false,
      ...(fault === undefined ? {} : { fault }),
      position,
      ...(log === undefined ? {} : { log }),
      ...{ ...shown, gaps: this.figures.gaps, digest_mismatches: this.figures.digestMismatches },
    }
  }

  readonly remove = async (node: string): Promise<boolean> => await removeMember(this.#documents, node)

  readonly drain = async (node: string, isDrained: boolean): Promise<boolean> =>
    await setMemberState(this.#documents, node, isDrained ? 'draining' : undefined, (before) =>
      isDrained ? before !== 'refetching' : before === 'draining',
    )

  readonly refetch = async (node: string): Promise<boolean> =>
    await setMemberState(this.#documents, node, 'refetching', (before) => before !== 'joining')

  /** What this node holds, for another one. */
  readonly replica = {
    catalog: (): ReplicaCatalog => catalogOf(this.#served, this.node, this.#log!),
    collection: async (name: string, position: number, hasPoints = true): Promise<ReplicaCollectionBytes> => {
      await this.node.admit({ position })
      return await collectionOf(this.#served, name, hasPoints)
    },
  }

  /** Only what this node would show, too. */
  get #served(): Loaded {
    const waitsFor = this.notReady()
    const loaded = this.#data?.loaded
    if (waitsFor !== undefined || loaded === undefined) {
      throw new DatabaseError('not_ready', waitsFor ?? 'the stored points are still loading')
    }
    return loaded
  }

  get #documents(): SharedDocuments {
    if (this.#nats !== undefined) return this.#nats.documents
    throw new DatabaseError('not_ready', 'the log servers of the cluster do not answer')
  }

  /** Ends what waits for the log servers, and applies no more. */
  async stop(): Promise<void> {
    this.#stop.abort(new DatabaseError('shutting_down', 'the server is shutting down'))
    await this.#moves?.ended
    await this.#node?.close()
    await this.#refetching
  }

  /** Ends the connection, once the collections are closed. */
  async close(): Promise<void> {
    await this.stop()
    await this.#membership?.close()
    await this.#watching
    this.#link?.close()
    await this.#nats?.close()
  }

  /** What is asked on the way to being ready, however long the log servers take. */
  async #answered<Value>(ask: () => Promise<Value>): Promise<Value> {
    const { signal } = this.#stop
    return await retried(ask, {
      ...{ what: 'joining the cluster', isFinal: isNoOutage, logger: this.#logger, signal },
    })
  }

  #announcement(): Announcement {
    const { zone, address, link } = this.#options
    const { position, floor } = this.#node?.status ?? beginning
    return {
      ...{ zone, address: address(), version: version() },
      ...(link && this.#link && { peer: link.addressAt(this.#link.port), ...this.#asked() }),
      isReady: this.notReady() === undefined,
      position,
      floor,
    }
  }

  /** What those need who may ask this node. */
  #asked(): Pick<Announcement, 'answers' | 'generation' | 'takesFrom'> {
    const answers = this.#waitsFor === undefined && (this.#node?.status.isReady ?? false)
    const { from: takesFrom } = this.#parts?.moving ?? {}
    const { generation } = this.#view.topology
    return { answers, generation, ...(takesFrom === undefined ? {} : { takesFrom }) }
  }

  async #watch(): Promise<void> {
    const { signal } = this.#stop
    while (!signal.aborted) {
      // Without a link nobody is asked.
      await this.#view.refresh(this.#log!, this.#link === undefined ? undefined : this.#membership)
      await pause(watchMs, signal)
    }
  }

  /** All members; without log servers this node alone. */
  async #nodes(): Promise<Pick<ClusterStatus, 'nodes' | 'partitions'>> {
    const own = new Map([[this.#options.node, this.#announcement()]])
    const known = await Promise.all([this.#membership?.topology(), this.#membership?.announced()]).catch(
      () => [undefined, undefined] as const,
    )
    const [topology = noTopology, announced = []] = known
    const there = new Map([...announced, ...own])
    const partitions = partitionsStatus(topology, there)
    return { ...(partitions && { partitions }), nodes: nodeStatuses(topology, there) }
  }
}

const beginning: NodeStatus = {
  ...{ position: 0, floor: 0, isReady: false },
  digestMismatches: 0,
  fault: undefined,
}
const asked = 'an operator asks for it'
const watchMs = 1_000
/** A request of a client, as it goes to another node: numbers of one digit become four bytes. */
const messageFactor = 4
/** Between attempts to come back into service. */
const againMs = 5_000
