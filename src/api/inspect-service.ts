import { assert } from '../base/errors.ts'
import type { SettingInfo } from '../base/setting-info.ts'
import {
  type ApiContext,
  type Call,
  type CollectionStats,
  type CollectionTotals,
  collectionNameOf,
  type PointsSnapshot,
  type StatsOfNodes,
} from './call.ts'
import { checkName } from './collections.ts'
import type { SlowRequest } from './slow-requests.ts'

/** The operations for operators: they show a collection or the service, and copy all points. */

/** The state of a collection's index: on this node, or on all nodes that have a part of it. */
export interface Stats {
  readonly collection: string
  readonly stats: CollectionStats | StatsOfNodes
  /** Figures of all collections together, if the call names none. */
  readonly totals: CollectionTotals | undefined
}

export async function getStats(context: ApiContext, _: undefined, call: Call): Promise<Stats> {
  const { database, collections } = context
  return {
    collection: collectionNameOf(context, call),
    stats: (await database.statsOfNodes?.()) ?? database.stats,
    totals: call.collection === undefined ? collections.totals : undefined,
  }
}

export interface SlowRequestsAnswer {
  readonly thresholdMs: number
  readonly requests: readonly SlowRequest[]
}

/** Lists the slowest requests of the last hour: to the collection that the call names, or to all. */
export async function listSlowRequests(
  { collections, slowRequests }: ApiContext,
  _: undefined,
  { collection }: Call,
): Promise<SlowRequestsAnswer> {
  // Fails if the collection does not exist: an empty list would suggest a fast collection.
  const name =
    collection === undefined ? undefined : collections.get(checkName(collection, 'collection')).name
  assert(slowRequests !== undefined, 'a service keeps slow requests')
  return { thresholdMs: slowRequests.thresholdMs, requests: slowRequests.list(name) }
}

export async function getSettings({ settings = [] }: ApiContext): Promise<readonly SettingInfo[]> {
  return settings
}

/** A snapshot, which the transport reads and closes. */
export interface TakenSnapshot {
  readonly snapshot: PointsSnapshot
  /** In a cluster, the position of the log up to which it has all changes. */
  readonly position: number | undefined
}

/** Begins a copy of all points of a collection as of one sequence number. */
export async function takeSnapshot(
  { database, cluster }: ApiContext,
  _: undefined,
  { signal }: Call,
): Promise<TakenSnapshot> {
  const before = cluster?.position
  const snapshot = await database.snapshot(signal)
  return { snapshot, position: before === undefined ? undefined : (snapshot.position ?? before) }
}
