import type { ClusterStatus } from '../base/cluster-status.ts'
import { DatabaseError } from '../base/errors.ts'
import type { Loaded, ServedData } from '../collections/served-data.ts'
import type { ClusterNode } from './cluster-node.ts'
import type { CommitLog, SharedDocuments } from './commit-log.ts'
import { removeMember, setMemberState, setReplicas } from './members.ts'
import { catalogOf, collectionOf, type ReplicaCollectionBytes } from './replica-sender.ts'
import type { ReplicaCatalog } from './replica-transfer.ts'
import type { ServiceStatus } from './service-status.ts'

export interface ServicePagesOptions {
  readonly status: ServiceStatus
  /** @throws DatabaseError `not_ready` */
  readonly node: () => ClusterNode
  /** @throws DatabaseError `not_ready` */
  readonly documents: () => SharedDocuments
  readonly log: () => CommitLog
  readonly data: () => ServedData
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

  /** Sends the data of this node to other nodes. */
  readonly replica = {
    catalog: (): ReplicaCatalog => {
      const { node, log } = this.#options
      return catalogOf(this.#served, node(), log())
    },
    collection: async (name: string, position: number, hasPoints = true): Promise<ReplicaCollectionBytes> => {
      await this.#options.node().admit({ position })
      return await collectionOf(this.#served, name, hasPoints)
    },
  }

  /** The loaded data, if this node serves them. Other nodes still get them while this node is drained. */
  get #served(): Loaded {
    const waitsFor = this.#options.status.notServing
    const { loaded } = this.#options.data()
    if (waitsFor !== undefined || loaded === undefined) {
      throw new DatabaseError('not_ready', waitsFor ?? 'the stored points are still loading')
    }
    return loaded
  }

  get #documents(): SharedDocuments {
    return this.#options.documents()
  }
}
