import { createHash } from 'node:crypto'
import { DatabaseError } from '../base/errors.ts'
import { idSeedBytes } from '../base/ids.ts'
import { type PartitionSet, partitionOf } from '../base/partitions.ts'
import { type PlannedNode, partitionsIn, type RepairPlan } from '../base/repair-plan.ts'
import type { Applied } from '../storage/applied.ts'
import { decodeKeyedRequest, requestHashBytes } from '../storage/request-record.ts'
import type { DataStore, KeyedRequest, Store } from '../storage/store.ts'
import type { SharedDocuments } from './commit-log.ts'
import { eachCollection, hashOfRecord } from './held-part.ts'
import { fromJson, toJson } from './json-documents.ts'
import { type ReplicaCollection, ReplicaReader, type ReplicaSource } from './replica-transfer.ts'

/**
 * Begins a new log with the data of nodes that each hold only some of the points, by a plan: see base/repair-plan.ts.
 *
 *   leader   writes the repair into a shared document ─> the new log is created ─> adopts it: see repair-leader.ts
 *   others   find the new log and the repair ─> copy the collections and keys that they lack ─> adopt it
 *
 * A node adopts the new log by storing that it has applied all of the former log and nothing of the new one. It also
 * stores which partitions it holds from here on: those in which no other node is ahead of it. It copies the others
 * from their keepers, in ordinary moves. Points stay where they are.
 *
 * All nodes know the idempotency keys, but a node that is behind lacks the last keys of the leader. If all keepers of
 * a partition lack a key, they lack its points, too. No client has had an answer then, and a retry has to store the
 * points. So all nodes discard such a key: another request under the same key, too old to be found, follows it in the
 * queue. The leader's queue ends with a request that no client sends. What follows it belongs to the new log.
 */

/** The shared document that describes a repair. */
export interface PartRepair {
  /** The position before the first one of the new log. */
  readonly position: number
  /** The cluster's clock at that position. */
  readonly clockUs: number
  readonly nodes: Readonly<Record<string, Pick<PlannedNode, 'database_id' | 'keeps'>>>
  /** Without the default one. */
  readonly collections: readonly ReplicaCollection[]
  readonly aliases: Readonly<Record<string, string>>
  /** Collections in which the leader has marked the end of the former log's keys. */
  readonly keyed: readonly string[]
}

/** What the leader needs of the plan. */
export interface LeaderPlan {
  readonly leader: string
  readonly nodes: Readonly<Record<string, Pick<PlannedNode, 'keeps' | 'last_keys'>>>
}

/** Prepares the repair on the leader, except for its position. */
export async function preparedRepair(
  data: DataStore,
  { nodes }: RepairPlan,
): Promise<Omit<PartRepair, 'position'>> {
  let clockUs = 0
  const keyed: string[] = []
  await eachCollection(data, async (name, { applied }) => {
    clockUs = Math.max(clockUs, applied?.clockUs ?? 0, applied?.floorClockUs ?? 0)
    if (applied !== undefined) keyed.push(name)
  })
  return {
    ...{ clockUs, keyed },
    nodes: Object.fromEntries(
      Object.entries(nodes).map(([name, { database_id, keeps }]) => [name, { database_id, keeps }]),
    ),
    collections: [...data.collections.values()].map(({ name, dimension, hnsw }) => ({
      ...{ name, dimension, hnsw },
    })),
    aliases: Object.fromEntries(data.aliases),
  }
}

export async function writeRepair(
  documents: SharedDocuments,
  logId: string,
  repair: PartRepair,
): Promise<void> {
  await putRepairDocument(documents, documentOf(logId), repair)
}

/**
 * Writes a document about a new log. The log has a new id, so only this attempt writes the document, or repeats its own
 * write.
 *
 * @throws DatabaseError `not_ready` when another node writes it at the same time
 */
export async function putRepairDocument(
  documents: SharedDocuments,
  name: string,
  document: object,
): Promise<void> {
  const before = await documents.get(name)
  if ((await documents.put(name, toJson(document), before?.revision ?? 0)) === undefined)
    throw new DatabaseError('not_ready', 'another node is repairing the log')
}

/** The repair that a log was begun with; undefined when every node held all points. */
export async function readRepair(documents: SharedDocuments, logId: string): Promise<PartRepair | undefined> {
  const document = await documents.get(documentOf(logId))
  return document && fromJson<PartRepair>(document.value)
}

/** Makes the leader continue with the new log. Durable when this resolves; idempotent. */
export async function adoptAsLeader(
  data: DataStore,
  logId: string,
  repair: PartRepair,
  { leader, nodes }: LeaderPlan,
): Promise<void> {
  const keepers = Object.values(nodes)
  await eachCollection(data, async (name, store) => {
    const discarded = repair.keyed.includes(name) ? await discardedKeys(name, store, keepers) : []
    const end = repair.keyed.includes(name) ? [lastOf(logId, repair)] : []
    await adopt(store, { logId, repair, keeps: partitionsIn(nodes[leader]!.keeps) }, [...discarded, ...end])
  })
}

/**
 * Makes another node continue with the new log. Durable when this resolves; idempotent.
 *
 * @throws DatabaseError with which the source refuses
 */
export async function adoptAsOther(
  data: DataStore,
  logId: string,
  repair: PartRepair,
  own: Pick<PlannedNode, 'keeps'>,
  source: { readonly from: ReplicaSource; readonly signal: AbortSignal },
): Promise<void> {
  const wanted = new Set(repair.collections.map(({ name }) => name))
  for (const name of [...data.collections.keys()]) if (!wanted.has(name)) await data.drop(name)
  for (const each of repair.collections) if (!data.collections.has(each.name)) await data.create(each)
  const gone = [...data.aliases.keys()].filter((alias) => !Object.hasOwn(repair.aliases, alias))
  const aliases = new Map(Object.entries(repair.aliases))
  if (aliases.size + gone.length > 0) await data.setAliases(aliases, gone)
  const end = lastOf(logId, repair)
  await eachCollection(data, async (name, store) => {
    const missing = repair.keyed.includes(name) ? await missingKeys(name, store, end, repair, source) : []
    await adopt(store, { logId, repair, keeps: partitionsIn(own.keeps) }, missing)
  })
}

async function adopt(
  store: Store,
  {
    logId,
    repair,
    keeps,
  }: { readonly logId: string; readonly repair: PartRepair; readonly keeps: PartitionSet },
  keyedRequests: readonly KeyedRequest[],
): Promise<void> {
  const { position, clockUs } = repair
  const place = { logId, position, floor: position, clockUs, floorClockUs: clockUs }
  const { held: _, ...before } = store.applied ?? {}
  const applied =
    store.applied === undefined
      ? undefined
      : ({
          ...(before as Applied),
          ...place,
          ...(keeps.isAll ? {} : { held: keeps.bytes }),
        } satisfies Applied)
  if (applied === undefined && keyedRequests.length === 0) return
  await store.commit({ changes: [], slots: [], keyedRequests, ...(applied && { applied }) })
}

/** Returns requests that hide the keys whose points no keeper of a partition has. */
async function discardedKeys(
  collection: string,
  store: Store,
  keepers: readonly Pick<PlannedNode, 'keeps' | 'last_keys'>[],
): Promise<readonly KeyedRequest[]> {
  const first = await firstUnknown(
    store,
    keepers.map(({ last_keys }) => last_keys[collection]),
  )
  const unknown = keepers.map(({ keeps }, at) => ({ keeps: partitionsIn(keeps), from: first[at]! }))
  const discarded: KeyedRequest[] = []
  await eachRecord(store, async (record, index) => {
    if (first.every((from) => index < from)) return
    const request = decodeKeyedRequest(record)
    if (request === undefined) return
    const isLost = partitionsOf(request).some((partition) =>
      unknown.every(({ keeps, from }) => !keeps.has(partition) || from <= index),
    )
    if (isLost) discarded.push({ ...expiredRequest, keyHash: Buffer.from(request.keyHash) })
  })
  return discarded
}

/** By node, the index of the first record in the queue that it does not know. */
async function firstUnknown(
  store: Store,
  lastKeys: readonly (string | null | undefined)[],
): Promise<readonly number[]> {
  const found = lastKeys.map((last) => (last === null || last === undefined ? 0 : Number.POSITIVE_INFINITY))
  await eachRecord(store, async (record, index) => {
    const at = lastKeys.indexOf(hashOfRecord(record))
    if (at === -1) return
    const hash = lastKeys[at]
    for (const [node, last] of lastKeys.entries()) if (last === hash) found[node] = index + 1
  })
  return found
}

/** The keys that another node has and this one lacks, up to the end of the former log. */
async function missingKeys(
  collection: string,
  store: Store,
  end: KeyedRequest,
  { position }: PartRepair,
  { from, signal }: { readonly from: ReplicaSource; readonly signal: AbortSignal },
): Promise<readonly KeyedRequest[]> {
  const bytes = await from.collection(collection, position, { signal, hasPoints: false })
  // Dropped since then; the log says so later.
  if (bytes === undefined) return []
  const known = new Set<string>()
  await eachRecord(store, async (record) => void known.add(hashOfRecord(record)))
  const reader = await ReplicaReader.open(bytes)
  const missing: KeyedRequest[] = []
  try {
    for await (const record of reader.keyedRequests()) {
      const request = decodeKeyedRequest(record)
      if (request === undefined) continue
      if (!known.has(hashOfRecord(record))) missing.push(copyOf(request))
      if (Buffer.compare(request.keyHash, end.keyHash) === 0) return missing
    }
  } finally {
    await reader.close()
  }
  // The source has evicted the end, and so all keys before it.
  return []
}

/** The partitions in which points of a request may have been stored. */
function partitionsOf({ idSeed, outcome }: KeyedRequest): readonly number[] {
  const drawn = idSeed[0]!
  if (outcome === undefined) return [drawn]
  const all = outcome.flatMap((each) => {
    if (each === null) return [drawn]
    return typeof each === 'string' ? [partitionOf(each)] : []
  })
  return [...new Set(all)]
}

async function eachRecord(
  store: Store,
  use: (record: Buffer, index: number) => Promise<void>,
): Promise<void> {
  const snapshot = store.snapshot(() => {})
  let index = 0
  try {
    for await (const record of snapshot.keyedRequests()) {
      await use(record, index)
      index += 1
    }
  } finally {
    snapshot.close()
  }
}

/** Copies the bytes of a request, which are views. */
function copyOf(request: KeyedRequest): KeyedRequest {
  const { keyHash, bodyHash, idSeed } = request
  return {
    ...request,
    ...{ keyHash: Buffer.from(keyHash), bodyHash: Buffer.from(bodyHash), idSeed: Buffer.from(idSeed) },
  }
}

/** A request that is too old to be found. */
const expiredRequest = {
  bodyHash: Buffer.alloc(requestHashBytes),
  idSeed: Buffer.alloc(idSeedBytes),
  ...{ points: 0, acceptedMs: 0 },
} as const

/**
 * The request that marks the end of the former log. It has the time of that end, so that it is not evicted before the
 * requests that it follows.
 */
function lastOf(logId: string, { clockUs }: Pick<PartRepair, 'clockUs'>): KeyedRequest {
  const hash = createHash('sha256').update(`begin ${logId}`).digest()
  const acceptedMs = Math.floor(clockUs / 1000)
  return { ...expiredRequest, acceptedMs, keyHash: hash.subarray(0, requestHashBytes) }
}

function documentOf(logId: string): string {
  return `repair-${logId}`
}
