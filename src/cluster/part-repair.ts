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
 * How nodes with a part of the points each begin a new log with what they hold, by a plan: see base/repair-plan.ts.
 *
 *   leader   writes the repair into the documents of the cluster ─> the new log is made ─> adopts
 *   others   find the new log and the repair ─> the catalog and the keys of the leader ─> adopt
 *
 * To adopt is to store that all of the former log is applied and none of the new one, and which partitions a node has from here
 * on: those with which it is as far as any other. It takes the others from these, as it takes any partition. Points
 * stay where they are.
 *
 * Idempotency keys are known to all nodes, and a node that is behind lacks some: the last ones of the leader. Where all keepers of
 * a partition lack a key, they lack its points too; nobody was answered then, and a repetition has to store them. So such a key is
 * forgotten everywhere: another request under it, that is too old to be found, follows it in the queue. A request that
 * no one sends is the last one of the leader's: what comes after it is of the new log.
 */

/** A document of the cluster: what was repaired. */
export interface PartRepair {
  /** The position before the first of the new log. */
  readonly position: number
  /** The cluster's clock there. */
  readonly clockUs: number
  readonly nodes: Readonly<Record<string, Pick<PlannedNode, 'database_id' | 'keeps'>>>
  /** Without the default one. */
  readonly collections: readonly ReplicaCollection[]
  readonly aliases: Readonly<Record<string, string>>
  /** Collections of whose keys the leader has marked the end. */
  readonly keyed: readonly string[]
}

/** What a repair will be, but for its position; of the leader. */
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
  const before = await documents.get(documentOf(logId))
  if ((await documents.put(documentOf(logId), toJson(repair), before?.revision ?? 0)) === undefined)
    throw new DatabaseError('not_ready', 'another node repairs the log')
}

/** What the log of this name was begun with; undefined where no node had a part of the points. */
export async function readRepair(documents: SharedDocuments, logId: string): Promise<PartRepair | undefined> {
  const document = await documents.get(documentOf(logId))
  return document && fromJson<PartRepair>(document.value)
}

/** The leader goes on with the new log; durable when this resolves, and harmless to repeat. */
export async function adoptAsLeader(
  data: DataStore,
  logId: string,
  repair: PartRepair,
  { leader, nodes }: RepairPlan,
): Promise<void> {
  const keepers = Object.values(nodes)
  await eachCollection(data, async (name, store) => {
    const forgotten = repair.keyed.includes(name) ? await forgottenKeys(name, store, keepers) : []
    const end = repair.keyed.includes(name) ? [lastOf(logId, repair)] : []
    await adopt(store, { logId, repair, keeps: partitionsIn(nodes[leader]!.keeps) }, [...forgotten, ...end])
  })
}

/**
 * Another node goes on with the new log; durable when this resolves, and harmless to repeat.
 *
 * @throws DatabaseError what the source refuses it with
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

/** Requests after which the keys are found no more whose points none of the keepers of a partition has. */
async function forgottenKeys(
  collection: string,
  store: Store,
  keepers: readonly PlannedNode[],
): Promise<readonly KeyedRequest[]> {
  const first = await firstUnknown(
    store,
    keepers.map(({ last_keys }) => last_keys[collection]),
  )
  const unknown = keepers.map(({ keeps }, at) => ({ keeps: partitionsIn(keeps), from: first[at]! }))
  const forgotten: KeyedRequest[] = []
  await eachRecord(store, async (record, index) => {
    if (first.every((from) => index < from)) return
    const request = decodeKeyedRequest(record)
    if (request === undefined) return
    const isLost = partitionsOf(request).some((partition) =>
      unknown.every(({ keeps, from }) => !keeps.has(partition) || from <= index),
    )
    if (isLost) forgotten.push({ ...nobodysRequest, keyHash: Buffer.from(request.keyHash) })
  })
  return forgotten
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

/** Those that another node has and this one has not, up to the end of the former log. */
async function missingKeys(
  collection: string,
  store: Store,
  end: KeyedRequest,
  { position }: PartRepair,
  { from, signal }: { readonly from: ReplicaSource; readonly signal: AbortSignal },
): Promise<readonly KeyedRequest[]> {
  const bytes = await from.collection(collection, position, { signal, hasPoints: false })
  // Dropped since then, which the log says later.
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
  // It has forgotten the end, and so all before it.
  return []
}

/** The partitions that points of a request may have been stored in. */
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

/** Its bytes are views otherwise. */
function copyOf(request: KeyedRequest): KeyedRequest {
  const { keyHash, bodyHash, idSeed } = request
  return {
    ...request,
    ...{ keyHash: Buffer.from(keyHash), bodyHash: Buffer.from(bodyHash), idSeed: Buffer.from(idSeed) },
  }
}

/** Too old to be found. */
const nobodysRequest = {
  bodyHash: Buffer.alloc(requestHashBytes),
  idSeed: Buffer.alloc(idSeedBytes),
  ...{ points: 0, acceptedMs: 0 },
} as const

/** The last request of the former log: as old as that, so that it is not forgotten before those that it follows. */
function lastOf(logId: string, { clockUs }: Pick<PartRepair, 'clockUs'>): KeyedRequest {
  const hash = createHash('sha256').update(`begin ${logId}`).digest()
  const acceptedMs = Math.floor(clockUs / 1000)
  return { ...nobodysRequest, acceptedMs, keyHash: hash.subarray(0, requestHashBytes) }
}

function documentOf(logId: string): string {
  return `repair-${logId}`
}
