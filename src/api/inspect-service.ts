import { type ApiKey, type KeyInfo, type KeyQuotas, roles } from '../base/api-key.ts'
import { shownText } from '../base/attributes.ts'
import type { ClusterStatus } from '../base/cluster-status.ts'
import { assert, DatabaseError, invalid } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import { isUuid } from '../base/point.ts'
import type { Quotas } from '../base/quotas.ts'
import type { SettingInfo } from '../base/setting-info.ts'
import type { AuditPage, AuditQuery } from './audit.ts'
import {
  type ApiContext,
  type Call,
  type ClusterControl,
  type CollectionStats,
  type CollectionTotals,
  collectionNameOf,
  type KeysControl,
  type Moment,
  type PointsSnapshot,
  type StatsOfNodes,
} from './call.ts'
import { checkName } from './collections.ts'
import type { SlowRequest } from './slow-requests.ts'
import { checkWhole } from './validation.ts'

/** The operations for operators: they show a collection or the service, and copy all points. */

/** The state of a collection's index: on this node, or on all nodes that have a part of it. */
export interface Stats {
  readonly collection: string
  readonly stats: CollectionStats | StatsOfNodes
  /** What counts against the quotas of the collection on this node; absent if it has none. */
  readonly quotas?: { readonly max: Quotas; readonly searching: number; readonly refused: number } | undefined
  /** Figures of all collections together, if the call names none. */
  readonly totals: CollectionTotals | undefined
}

export async function getStats(context: ApiContext, _: undefined, call: Call): Promise<Stats> {
  const { database, collections } = context
  const collection = collectionNameOf(context, call)
  const meter = await collections.meterOf?.(collection)
  return {
    collection,
    quotas: meter && { max: meter.quotas, searching: meter.searches, refused: meter.refusals },
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

export interface ListAuditInput extends Omit<AuditQuery, 'limit'> {
  /** The most records of a page, 1 to 1000; by default 100. */
  readonly limit?: number | undefined
}

/** Lists what has been called, the newest first. */
export async function listAudit(
  { audit }: ApiContext,
  { limit = 100, ...filter }: ListAuditInput,
  { signal }: Call,
): Promise<AuditPage> {
  if (audit === undefined) {
    throw new DatabaseError('precondition_failed', 'there is no audit: set AUDIT to writes or all')
  }
  return await audit.list({ ...filter, limit: checkWhole(limit, 'limit', { min: 1, max: limitMax }) }, signal)
}

const limitMax = 1000

export interface TakeSnapshotInput {
  /** The moment of an earlier snapshot, as `<database id>-<sequence>`: only later changes are needed. */
  readonly since: string | undefined
}

/** A snapshot, which the transport reads and closes. */
export interface TakenSnapshot {
  readonly snapshot: PointsSnapshot
  readonly since: Moment | undefined
  /** In a cluster, the position of the log up to which it has all changes. */
  readonly position: number | undefined
}

/** Begins a copy of all points of a collection as of one sequence number, or of those that changed since another. */
export async function takeSnapshot(
  { database, cluster }: ApiContext,
  input: TakeSnapshotInput,
  { signal }: Call,
): Promise<TakenSnapshot> {
  const since = momentIn('since', input.since)
  const before = cluster?.position
  const snapshot = await database.snapshot(signal, since)
  return { snapshot, since, position: before === undefined ? undefined : (snapshot.position ?? before) }
}

export interface TakeChangesInput {
  /** `<journal id>-<place>`, from which on changes are needed. */
  readonly since: string | undefined
  /** The same, up to which they are stored elsewhere. */
  readonly stored: string | undefined
}

/** Keeps the changes of all collections from now on, and reads those since a place. */
export async function takeChanges(
  { changes }: ApiContext,
  { since, stored }: TakeChangesInput,
): Promise<TakenSnapshot> {
  if (changes === undefined) {
    throw new DatabaseError('precondition_failed', 'the nodes of a cluster keep no changes for backups')
  }
  const snapshot = await changes({
    since: momentIn('since', since, ofJournal),
    stored: momentIn('stored', stored, ofJournal),
  })
  return { snapshot, since: undefined, position: undefined }
}

const ofJournal = '<journal id>-<byte> of earlier changes'

function momentIn(
  name: string,
  text: string | undefined,
  form = '<database id>-<sequence> of an earlier snapshot',
): Moment | undefined {
  if (text === undefined) return undefined
  const [, id, digits] = /^(.{36})-(\d{1,16})$/.exec(text) ?? []
  const sequence = Number(digits)
  if (id !== undefined && isUuid(id) && Number.isSafeInteger(sequence)) {
    return { databaseId: id.toLowerCase(), sequence }
  }
  throw new DatabaseError('invalid_argument', `${name} is ${JSON.stringify(text.slice(0, 100))}, not ${form}`)
}

/** The operations on the cluster of this node. Only a node of a cluster offers them. */

export interface NodeInput {
  readonly name?: string | undefined
}

export interface ReplicasInput {
  /** As text, from the query of a request. */
  readonly count?: string | undefined
}

export async function getCluster(context: ApiContext): Promise<ClusterStatus> {
  return await clusterOf(context).status()
}

/** Removes a node that does not run. Fails with `not_found` and `precondition_failed`. */
export async function removeNode(context: ApiContext, { name = '' }: NodeInput): Promise<undefined> {
  const cluster = clusterOf(context)
  if (await isAlive(cluster, name))
    throw new DatabaseError('precondition_failed', `node ${name} is running: stop it first`)
  checkFound(await cluster.remove(name), name)
}

/** Stops a node from accepting clients. Fails with `not_found` and `precondition_failed`. */
export async function drainNode(context: ApiContext, { name = '' }: NodeInput): Promise<undefined> {
  checkFound(await clusterOf(context).drain(name, true), name)
}

/** Lets a node that is being drained accept clients again. Fails with `not_found`. */
export async function undrainNode(context: ApiContext, { name = '' }: NodeInput): Promise<undefined> {
  checkFound(await clusterOf(context).drain(name, false), name)
}

/** Makes a node fetch all its data from another node. Fails with `not_found` and `precondition_failed`. */
export async function refetchNode(context: ApiContext, { name = '' }: NodeInput): Promise<undefined> {
  const cluster = clusterOf(context)
  // It would fetch them whenever it starts, which nobody may expect then.
  if ((await isAlive(cluster, name)) === false)
    throw new DatabaseError('precondition_failed', `node ${name} is not running: start it first`)
  checkFound(await cluster.refetch(name), name)
}

/** Sets the number of replicas of each point, in a cluster that divides the points among its nodes. */
export async function setReplicas(context: ApiContext, { count }: ReplicasInput): Promise<undefined> {
  const replicas = Number(count)
  if (!(Number.isInteger(replicas) && replicas >= 1 && replicas <= replicasMax)) {
    throw invalid(`count must be a whole number from 1 to ${replicasMax}`)
  }
  await clusterOf(context).setReplicas(replicas)
}

/** The maximum of CLUSTER_REPLICAS. */
const replicasMax = 1000

function clusterOf({ clusterControl }: ApiContext): ClusterControl {
  assert(clusterControl !== undefined, 'transports offer these operations on nodes of a cluster only')
  return clusterControl
}

/** Whether a node runs; undefined: the cluster has no such node. */
async function isAlive(cluster: ClusterControl, name: string): Promise<boolean | undefined> {
  const { nodes } = await cluster.status()
  return nodes.find((node) => node.name === name)?.is_alive
}

function checkFound(isFound: boolean, node: string): void {
  if (!isFound) throw new DatabaseError('not_found', `no node ${node} in this cluster`)
}

/**
 * The operations on the keys of API_KEYS_FILE. Their role admits no restricted key, so none can make a wider one. A key
 * that expires can only make keys that expire no later, and one with quotas none.
 */

export interface CreateKeyInput {
  readonly name?: string | undefined
  /** By default `read`. */
  readonly role?: string | undefined
  readonly collections?: readonly string[] | undefined
  readonly filter?: Filter | undefined
  readonly expiresAtUs?: number | undefined
  readonly quotas?: KeyQuotas | undefined
}

export interface CreatedKey extends KeyInfo {
  /** What callers send. Nobody can find it out later. */
  readonly key: string
}

export interface KeyNameInput {
  readonly name?: string | undefined
}

/** Stores a new key, with which callers can call at once. Fails with `already_exists`. */
export async function createKey(
  { keys }: ApiContext,
  { name, role: given = 'read', expiresAtUs, ...limits }: CreateKeyInput,
  { key: caller }: Call,
): Promise<CreatedKey> {
  const control = keysOf(keys)
  if (name === undefined) throw invalid('name is missing')
  const role = roles.find((each) => each === given)
  if (role === undefined) throw invalid(`role is ${shownText(given)}, it must be one of ${roles.join(', ')}`)
  const expires = expiresAtUs === undefined ? {} : { expiresAtMs: expiresAtUs / 1000 }
  const info: KeyInfo = { name, role, ...limits, ...expires }
  checkCaller(info, caller)
  return { ...info, key: await control.create(info) }
}

function checkCaller({ expiresAtMs = Number.POSITIVE_INFINITY }: KeyInfo, caller: ApiKey | undefined): void {
  if (caller?.quotas !== undefined) {
    throw new DatabaseError('permission_denied', `the key ${caller.name} has quotas: it may create no keys`)
  }
  if (caller?.expiresAtMs === undefined || expiresAtMs <= caller.expiresAtMs) return
  const until = new Date(caller.expiresAtMs).toISOString()
  throw new DatabaseError(
    'permission_denied',
    `the key ${caller.name} expires at ${until}: it may only create keys that expire by then`,
  )
}

/** Lists the keys of the file, in its order. */
export async function listKeys({ keys }: ApiContext): Promise<readonly KeyInfo[]> {
  return await keysOf(keys).list()
}

/** Removes a key: calls with it are refused from now on. Fails with `not_found`. */
export async function revokeKey({ keys }: ApiContext, { name = '' }: KeyNameInput): Promise<undefined> {
  await keysOf(keys).revoke(name)
}

function keysOf(keys: KeysControl | undefined): KeysControl {
  if (keys !== undefined) return keys
  throw new DatabaseError(
    'precondition_failed',
    'there is no file of keys: set API_KEYS_FILE, to which new keys are added',
  )
}
