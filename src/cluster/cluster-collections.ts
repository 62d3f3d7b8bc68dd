import type { CollectionInfo, CollectionSettings } from '../base/collection.ts'
import type { Collection } from '../collections/collection.ts'
import type { CollectionSet } from '../collections/collection-set.ts'
import type { CollectionLease } from '../collections/open-collections.ts'
import type { Collections, CollectionTotals, Lease, PointsOnNodes } from '../points/database.ts'
import { ClusterDatabase, type ClusterWrites } from './cluster-database.ts'
import type { LocalLease } from './peer-reads.ts'
import type { ClusterRequest } from './request-codec.ts'

/** What collections need from their node in addition to writing points. */
export interface ClusterCatalog extends ClusterWrites {
  /** See `Collections`. */
  readonly countOnNodes: NonNullable<Collections['countOnNodes']>
  /** Changes collections or aliases on all replicas. */
  change(request: Extract<ClusterRequest, { readonly kind: 'create' | 'drop' | 'aliases' }>): Promise<unknown>
}

/** The collections of a cluster, for the api. Their names and aliases change through the log. */
export class ClusterCollections implements Collections {
  readonly #set: CollectionSet
  readonly #node: ClusterCatalog
  /** For each collection, one database for each name it is called by: an alias is resolved when the log is applied. */
  readonly #databases = new WeakMap<Collection, Map<string, ClusterDatabase>>()

  constructor(set: CollectionSet, node: ClusterCatalog) {
    this.#set = set
    this.#node = node
  }

  lease(name: string): Lease | Promise<Lease> {
    const lease = this.#set.lease(name)
    if (lease instanceof Promise) return lease.then((opened) => this.#wrapped(name, opened))
    return this.#wrapped(name, lease)
  }

  /** Leases this node's copy of a collection. */
  leaseLocal(name: string): LocalLease | Promise<LocalLease> {
    return this.#set.lease(name)
  }

  list(): readonly CollectionInfo[] {
    return this.#set.list()
  }

  get(name: string): CollectionInfo {
    return this.#set.get(name)
  }

  countOnNodes(
    ...asked: Parameters<NonNullable<Collections['countOnNodes']>>
  ): Promise<PointsOnNodes> | undefined {
    return this.#node.countOnNodes(...asked)
  }

  /** Counts the points on this node. */
  countLocal(...asked: Parameters<CollectionSet['pointsIn']>): ReturnType<CollectionSet['pointsIn']> {
    return this.#set.pointsIn(...asked)
  }

  get totals(): CollectionTotals {
    return this.#set.totals
  }

  get aliases(): ReadonlyMap<string, string> {
    return this.#set.aliases
  }

  async put(
    name: string,
    settings: CollectionSettings,
  ): Promise<{ readonly created: boolean; readonly info: CollectionInfo }> {
    const result = await this.#node.change({ kind: 'create', name, settings })
    const { created } = result as { readonly created: boolean }
    return { created, info: this.#set.get(name) }
  }

  async drop(name: string): Promise<void> {
    await this.#node.change({ kind: 'drop', name })
  }

  async setAliases(set: ReadonlyMap<string, string>, remove: readonly string[]): Promise<void> {
    await this.#node.change({ kind: 'aliases', set, remove })
  }

  #wrapped(alias: string, lease: CollectionLease): Lease {
    const { name, database: collection } = lease
    const byName = this.#databases.get(collection) ?? new Map<string, ClusterDatabase>()
    this.#databases.set(collection, byName)
    const database = byName.get(alias) ?? new ClusterDatabase({ name, alias, collection }, this.#node)
    byName.set(alias, database)
    return { database, [Symbol.dispose]: () => lease[Symbol.dispose]() }
  }
}
