import type { ClusterStatus, RepairedLog } from '../base/cluster-status.ts'
import { DatabaseError } from '../base/errors.ts'
import type { HeldPart, RepairPlan } from '../base/repair-plan.ts'
import type { Loaded, ServedData } from '../collections/served-data.ts'
import type { ClusterNode } from './cluster-node.ts'
import type { ClusterServiceOptions } from './cluster-service-options.ts'
import type { ClusterView } from './cluster-view.ts'
import type { CommitLog, SharedDocuments } from './commit-log.ts'
import type { DeferredWork } from './deferred-work.ts'
import { heldData } from './held-part.ts'
import { removeMember, setMemberState, setReplicas } from './members.ts'
import { catalogOf, collectionOf, type ReplicaCollectionBytes } from './replica-sender.ts'
import type { ReplicaCatalog } from './replica-transfer.ts'
import type { RepairWish } from './service-repair.ts'
import type { ServiceStatus } from './service-status.ts'

/** The current state of a service. */
export interface PagesState {
  /** @throws DatabaseError `not_ready` */
  readonly node: () => ClusterNode
  /** @throws DatabaseError `not_ready` */
  readonly documents: () => SharedDocuments
  readonly log: () => CommitLog
  readonly data: () => ServedData
  /** The log position that the node has applied. */
  readonly position: () => number
  /** Why the log is lost; undefined while this node knows of no loss. */
  readonly lostLog: () => string | undefined
}

export interface ServicePagesOptions {
  readonly service: Pick<ClusterServiceOptions, 'node' | 'zone' | 'address'>
  readonly view: ClusterView
  readonly status: ServiceStatus
  readonly rest: DeferredWork
  readonly now: PagesState
  /** Begins a new log in place of a lost one. */
  readonly repair: (wish: RepairWish) => Promise<RepairedLog>
}

/** What a service shows operators and other nodes over HTTP, and does at their request. */
export class ServicePages {
  readonly #options: ServicePagesOptions

  constructor(options: ServicePagesOptions) {
    this.#options = options
  }

  /** Why the node is not ready; undefined when it is. */
  readonly notReady = (): string | undefined => this.#options.status.notReady

  readonly status = async (): Promise<ClusterStatus> => await this.#options.status.ofCluster()

  readonly remove = async (node: string): Promise<boolean> => await removeMember(this.#documents, node)

  readonly drain = async (node: string, isDrained: boolean): Promise<boolean> =>
    await setMemberState(this.#documents, node, isDrained ? 'draining' : undefined, (before) =>
      isDrained ? before !== 'refetching' : before === 'draining',
    )

  readonly refetch = async (node: string): Promise<boolean> =>
    await setMemberState(this.#documents, node, 'refetching', (before) => before !== 'joining')

  readonly setReplicas = async (replicas: number): Promise<void> =>
    await setReplicas(this.#documents, replicas)

  readonly repair = async (wanted: number | undefined, plan?: RepairPlan): Promise<RepairedLog> => {
    const { service, view, now, repair } = this.#options
    const position = now.position()
    this.#checkLost()
    if (plan === undefined && view.topology.ownership !== undefined) {
      const fault =
        'no node has all points: a new log has to begin with the data of all nodes, by a plan that `vicinal cluster repair` makes'
      throw new DatabaseError('precondition_failed', fault)
    }
    if (plan !== undefined && plan.leader !== service.node)
      throw new DatabaseError('invalid_argument', `the leader of the plan is ${plan.leader}, not this node`)
    if (wanted !== undefined && wanted !== position) {
      const fault = `this node has applied the log up to ${position}, not ${wanted}`
      throw new DatabaseError('precondition_failed', fault)
    }
    return await repair({ position, plan })
  }

  /** What this node holds of a cluster whose log is lost, for the plan of the repair. */
  readonly heldPart = async (): Promise<HeldPart> => {
    this.#checkLost()
    const { service, view, rest, now } = this.#options
    const { node, zone, address } = service
    const { generation, ownership } = view.topology
    const position = now.position()
    const data = now.data()
    const held = await (data.loaded === undefined
      ? rest.do(async () => await heldData(await data.openStore(), undefined))
      : heldData(data.loaded.store, data.loaded))
    const topology = ownership && { generation, ring: ownership.ring }
    return { node, zone, address: address(), position, ...held, ...(topology && { topology }) }
  }

  /** Sends the data of this node to other nodes. */
  readonly replica = {
    catalog: (): ReplicaCatalog => {
      const { node, log } = this.#options.now
      return catalogOf(this.#served, node(), log())
    },
    collection: async (name: string, position: number, hasPoints = true): Promise<ReplicaCollectionBytes> => {
      await this.#options.now.node().admit({ position })
      return await collectionOf(this.#served, name, hasPoints)
    },
  }

  /** The loaded data, if this node serves them. Other nodes still get them while this node is drained. */
  get #served(): Loaded {
    const waitsFor = this.#options.status.notServing
    const { loaded } = this.#options.now.data()
    if (waitsFor !== undefined || loaded === undefined) {
      throw new DatabaseError('not_ready', waitsFor ?? 'the stored points are still loading')
    }
    return loaded
  }

  get #documents(): SharedDocuments {
    return this.#options.now.documents()
  }

  /** @throws DatabaseError `precondition_failed` */
  #checkLost(): void {
    if (this.#options.now.lostLog() === undefined)
      throw new DatabaseError('precondition_failed', 'the log of the cluster is not lost')
  }
}
