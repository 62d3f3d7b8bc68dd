import { defaultCollection } from '../../base/collection.ts'
import { DatabaseError } from '../../base/errors.ts'
import type { Logger } from '../../base/log.ts'
import { PartitionSet } from '../../base/partitions.ts'
import type { ServedData } from '../../collections/served-data.ts'
import { type Applied, PartitionDigest } from '../../storage/applied.ts'
import { mainNumber } from '../../storage/catalog.ts'
import { openDataStore, type StoreOptions } from '../../storage/data-store.ts'
import { beginReplacement, commitReplacement, DirectoryLock } from '../../storage/files/data-directory.ts'
import { decodeKeyedRequest } from '../../storage/keyed-requests.ts'
import type { DataStore, KeyedRequest, Store } from '../../storage/store.ts'
import { type Announcement, isWhole } from '../membership/topology.ts'
import type { Peers } from '../requests.ts'
import { pause } from '../waiting.ts'
import { type NewCollection, PointsReader, type PointsSource } from './points-stream.ts'

interface ReplicaFetchOptions {
  readonly node: string
  /** The short id of the log. */
  readonly logId: string
  /** The announcements of the live nodes. */
  readonly announced: () => Promise<ReadonlyMap<string, Announcement>>
  readonly peers: Peers
  readonly logger: Logger
  readonly signal: AbortSignal
  /** Pause between two attempts; short in tests. */
  readonly retryMs?: number | undefined
}

/**
 * Replaces the data of this node, which nobody uses meanwhile, with the beginning of a replica: the collections of
 * another node and their keyed requests as of a log position, and none of the partitions. The node then applies the
 * log from there, and copies its partitions like any others. Tries all nodes that serve, in turn. A failed attempt
 * leaves nothing behind.
 *
 * @throws the signal's reason when that aborts
 */
export async function fetchReplica(
  data: Pick<ServedData, 'dataDir' | 'storeOptions'>,
  options: ReplicaFetchOptions,
): Promise<void> {
  const { logger, signal, logId, peers, retryMs = usualRetryMs } = options
  const { dataDir, storeOptions } = data
  const lock = DirectoryLock.acquire(dataDir)
  try {
    for (let attempt = 0; ; attempt += 1) {
      signal.throwIfAborted()
      const nodes = await servingNodes(options)
      const from = nodes[attempt % nodes.length]
      if (from === undefined) {
        if (attempt % attemptsPerLine === 0)
          logger.warn('no other node of the cluster serves: waiting for one')
        await pause(retryMs, signal)
        continue
      }
      try {
        const store = { ...storeOptions, onWritesBlocked: () => {}, dataDir: await beginReplacement(dataDir) }
        const position = await fillDirectory(store, logId, { peers, node: from, signal })
        commitReplacement(dataDir)
        logger.info({ from, position }, 'begins as a copy of another node')
        return
      } catch (err) {
        signal.throwIfAborted()
        logger.warn({ err, from }, 'another node could not be copied: trying again')
        await pause(retryMs, signal)
      }
    }
  } finally {
    lock.release()
  }
}

/** The nodes that serve and have no fault, the one with the highest position first. */
async function servingNodes({ node, announced }: ReplicaFetchOptions): Promise<string[]> {
  // Without an answer, as if no node served: the caller tries again.
  const said = await announced().catch(() => new Map<string, Announcement>())
  return [...said]
    .filter(([name, said]) => name !== node && isWhole(said) && !said.hasFault)
    .sort(([, a], [, b]) => b.position - a.position)
    .map(([name]) => name)
}

const usualRetryMs = 1_000
/** Attempts between two log lines that say the same. */
const attemptsPerLine = 30

/**
 * Fills an empty data directory with the beginning of a replica. It is durable, and closed, when this resolves.
 *
 * @param logId the short id of the cluster's log
 * @returns the log position
 * @throws DatabaseError when the other node cannot send its data, or sends something else than it says
 */
export async function fillDirectory(
  options: StoreOptions,
  logId: string,
  source: PointsSource,
): Promise<number> {
  const none = { after: 0, partitions: new PartitionSet().bytes, since: new Map(), forNewNode: true }
  await using stream = await PointsReader.open('points', none, source)
  const head = await stream.take('head')
  if (head?.logId !== logId) throw wrong(`${source.node} has applied another log`)
  const first = await stream.take('collection')
  if (first?.name !== defaultCollection) throw wrong('it has no default collection')
  const main = first.settings!
  const { dimension } = main
  await using opened = new AsyncDisposableStack()
  const data = await openDataStore({ ...options, ...(dimension === undefined ? {} : { dimension }) })
  opened.defer(() => data.close())
  await data.declare(mainNumber, { words: main.words, quotas: main.quotas })
  await addKeyedRequests(data.main, stream, appliedOf(main, logId))
  let each = await stream.take('collection')
  for (; each !== undefined; each = await stream.take('collection'))
    await addCollection(data, stream, { name: each.name, ...each.settings! }, logId)
  if (head.aliases.size > 0) await data.setAliases(head.aliases, [])
  const floor = { floor: head.position, floorClockUs: head.clockUs }
  await data.main.commit({ ...nothing, applied: { ...appliedOf(main, logId), ...floor } })
  return floor.floor
}

/** What a collection has applied: that of the other node, and none of the partitions. */
function appliedOf({ applied, sequence }: NewCollection, logId: string): Applied {
  const { position = 0, clockUs = 0, base = sequence } = applied ?? {}
  return {
    logId,
    position,
    clockUs,
    floor: 0,
    floorClockUs: 0,
    base,
    digest: new PartitionDigest().bytes,
    held: new PartitionSet().bytes,
  }
}

async function addCollection(
  data: DataStore,
  stream: PointsReader,
  settings: NewCollection & { readonly name: string },
  logId: string,
): Promise<void> {
  const { name, dimension, hnsw, words, quotas } = settings
  const { number } = await data.create({ name, dimension, hnsw, words, quotas })
  const store = await data.open(number)
  try {
    const applied = appliedOf(settings, logId)
    await addKeyedRequests(store, stream, applied)
    await store.commit({ ...nothing, applied })
  } finally {
    await store.close()
  }
}

/**
 * Stores keyed requests as they are, including those that are too old: which ones are evicted next depends on all of
 * them.
 */
async function addKeyedRequests(store: Store, stream: PointsReader, applied: Applied): Promise<void> {
  // By this clock no request is too old.
  const early = { ...applied, position: 0, clockUs: 0 }
  for (let keys = await stream.take('keys'); keys; keys = await stream.take('keys')) {
    const keyedRequests = keys.records.map((record): KeyedRequest => {
      const request = decodeKeyedRequest(Buffer.from(record))
      if (request === undefined) throw wrong('a keyed request does not match its checksum')
      return request
    })
    await store.commit({ ...nothing, keyedRequests, applied: early })
  }
}

const nothing = { changes: [], slots: [] } as const

function wrong(fault: string): DatabaseError {
  return new DatabaseError('invalid_argument', `what another node sent cannot be used: ${fault}`)
}
