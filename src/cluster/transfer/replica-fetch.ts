import { defaultCollection } from '../../base/collection.ts'
import { DatabaseError } from '../../base/errors.ts'
import { idToBytes } from '../../base/ids.ts'
import type { Logger } from '../../base/log.ts'
import { PartitionSet } from '../../base/partitions.ts'
import type { ServedData } from '../../collections/served-data.ts'
import { type Applied, PartitionDigest } from '../../storage/applied.ts'
import { openDataStore, type StoreOptions } from '../../storage/data-store.ts'
import { DirectoryLock } from '../../storage/files/directory-lock.ts'
import { beginReplacement, commitReplacement } from '../../storage/files/replacement.ts'
import { decodeKeyedRequest } from '../../storage/keyed-requests.ts'
import { SnapshotReader } from '../../storage/snapshot/snapshot-reader.ts'
import { fillStore } from '../../storage/snapshot/snapshot-restore.ts'
import type { DataStore, KeyedRequest, Store } from '../../storage/store.ts'
import type { Announcement } from '../membership/membership.ts'
import { pause } from '../waiting.ts'
import {
  type ReplicaCatalog,
  type ReplicaCollection,
  type ReplicaHead,
  ReplicaReader,
  type ReplicaSource,
} from './replica-transfer.ts'

interface ReplicaFetchOptions {
  readonly node: string
  /** The short id of the log. */
  readonly logId: string
  /** The announcements of the live nodes. */
  readonly announced: () => Promise<ReadonlyMap<string, Announcement>>
  /** Whether points are fetched, too; otherwise this node copies partitions later. */
  readonly hasPoints: boolean
  readonly sourceOf: (node: string) => ReplicaSource
  readonly logger: Logger
  readonly signal: AbortSignal
  /** Called with the name of the source, and the number of points that have arrived so far. */
  readonly onProgress: (from: string, points: number) => void
  /** Pause between two attempts; short in tests. */
  readonly retryMs?: number | undefined
}

/** The nodes that serve, and how to ask them. */
type ServingNodes = Pick<
  ReplicaFetchOptions,
  'node' | 'announced' | 'sourceOf' | 'logger' | 'signal' | 'retryMs'
>

/**
 * Replaces the data of this node, which nobody uses meanwhile, with those of another node. Tries all nodes that
 * serve, in turn, until one has sent everything. A failed attempt leaves nothing behind.
 *
 * @throws the signal's reason when that aborts
 */
export async function fetchReplica(data: ServedData, options: ReplicaFetchOptions): Promise<void> {
  const { logger, signal, logId, hasPoints, onProgress } = options
  const { dataDir, storeOptions } = data
  const lock = DirectoryLock.acquire(dataDir)
  try {
    await fromServingNode(options, async (source) => {
      const from = source.name
      logger.info({ from }, 'fetching what another node holds')
      const store = { ...storeOptions, onWritesBlocked: () => {}, dataDir: await beginReplacement(dataDir) }
      const onPoints = (points: number): void => onProgress(from, points)
      const { position } = await copyReplica({ source, logId, store, signal, hasPoints, onPoints })
      commitReplacement(dataDir)
      logger.info({ from, position }, 'fetched what another node holds')
    })
  } finally {
    lock.release()
  }
}

/**
 * Tries all nodes that serve, in turn, until one has answered.
 *
 * @throws the signal's reason when that aborts
 */
async function fromServingNode(
  options: ServingNodes,
  ask: (source: ReplicaSource) => Promise<void>,
): Promise<void> {
  const { logger, signal, retryMs = usualRetryMs } = options
  for (let attempt = 0; ; attempt += 1) {
    signal.throwIfAborted()
    const sources = await servingNodes(options)
    const source = sources[attempt % sources.length]
    if (source === undefined) {
      if (attempt % attemptsPerLine === 0) logger.warn('no other node of the cluster serves: waiting for one')
      await pause(retryMs, signal)
      continue
    }
    try {
      await ask(source)
      return
    } catch (err) {
      signal.throwIfAborted()
      logger.warn({ err, from: source.name }, 'what another node holds could not be fetched: trying again')
      await pause(retryMs, signal)
    }
  }
}

/** The nodes that serve, the one with the highest position first. */
async function servingNodes({
  node,
  announced,
  sourceOf,
}: Pick<ServingNodes, 'node' | 'announced' | 'sourceOf'>): Promise<ReplicaSource[]> {
  // Without an answer, as if no node served: the caller tries again.
  const said = await announced().catch(() => new Map<string, Announcement>())
  return [...said]
    .filter(([name, { serves }]) => name !== node && serves)
    .sort(([, a], [, b]) => b.position - a.position)
    .map(([name]) => sourceOf(name))
}

const usualRetryMs = 1_000
/** Attempts between two log lines that say the same. */
const attemptsPerLine = 30

interface ReplicaCopyOptions {
  readonly source: ReplicaSource
  /** The short id of the cluster's log. */
  readonly logId: string
  /** Options of the new, empty directory. */
  readonly store: StoreOptions
  readonly signal: AbortSignal
  /** Whether to copy points. Otherwise the directory holds no partitions, and the node copies them later. */
  readonly hasPoints: boolean
  /** Called with the number of points that have arrived so far. */
  readonly onPoints: (points: number) => void
}

/**
 * Fills an empty data directory with all data of another node. It is durable, and closed, when this resolves.
 *
 * @throws DatabaseError when the other node cannot send its data, or sends something else than it says
 */
export async function copyReplica(options: ReplicaCopyOptions): Promise<ReplicaCatalog> {
  const { source, signal, logId } = options
  const catalog = await source.catalog(signal)
  if (catalog.logId !== logId) throw wrong(`${source.name} has applied another log`)
  await new ReplicaCopy(options, catalog).run()
  return catalog
}

class ReplicaCopy {
  readonly #options: ReplicaCopyOptions
  readonly #catalog: ReplicaCatalog
  #points = 0

  constructor(options: ReplicaCopyOptions, catalog: ReplicaCatalog) {
    this.#options = options
    this.#catalog = catalog
  }

  async run(): Promise<void> {
    const main = await this.#open(defaultCollection)
    const { dimension } = main?.head ?? {}
    const applied = main && this.#appliedOf(main.head)
    if (main === undefined || applied === undefined) {
      await main?.close()
      throw wrong('it has no default collection')
    }
    await using opened = new AsyncDisposableStack()
    const data = await openDataStore({
      ...this.#options.store,
      ...(dimension === undefined ? {} : { dimension }),
    })
    opened.defer(() => data.close())
    await this.#fill(data.main, main)
    for (const collection of this.#catalog.collections) await this.#addNamed(data, collection)
    const aliases = new Map(Object.entries(this.#catalog.aliases))
    if (aliases.size > 0) await data.setAliases(aliases, [])
    const { position: floor, clockUs: floorClockUs } = this.#catalog
    await data.main.commit({ ...nothing, applied: { ...applied, floor, floorClockUs } })
  }

  async #open(name: string): Promise<ReplicaReader | undefined> {
    const { source, signal, hasPoints } = this.#options
    const bytes = await source.collection(name, this.#catalog.position, { signal, hasPoints })
    if (bytes === undefined) return undefined
    const reader = await ReplicaReader.open(bytes)
    const fault = this.#faultOf(name, reader.head)
    if (fault === undefined) return reader
    await reader.close()
    throw wrong(fault)
  }

  #faultOf(name: string, { applied, hasPoints }: ReplicaHead): string | undefined {
    if (applied !== undefined && applied.logId !== this.#catalog.logId)
      return `its collection ${name} is from another log`
    if (hasPoints !== this.#options.hasPoints)
      return `its collection ${name} ${hasPoints ? 'has points that were not requested' : 'lacks its points'}`
    return hasPoints && applied?.held !== undefined ? 'it holds only some of the points' : undefined
  }

  /** What a collection has applied. Without points: the same position, and none of the partitions. */
  #appliedOf({ applied, sequence, hasPoints }: ReplicaHead): Applied | undefined {
    if (hasPoints) return applied
    const { logId } = this.#catalog
    const none = { digest: new PartitionDigest().bytes, held: new PartitionSet().bytes }
    const before = { logId, position: 0, clockUs: 0, floor: 0, floorClockUs: 0, base: sequence }
    return { ...before, ...applied, ...none }
  }

  async #addNamed(data: DataStore, { name, dimension, hnsw }: ReplicaCollection): Promise<void> {
    const reader = await this.#open(name)
    const { number } = await data.create({ name, dimension: reader?.head.dimension ?? dimension, hnsw })
    if (reader === undefined) return
    const store = await data.open(number)
    try {
      await this.#fill(store, reader)
      const applied = this.#appliedOf(reader.head)
      if (applied !== undefined) await store.commit({ ...nothing, applied })
    } finally {
      await store.close()
    }
  }

  async #fill(store: Store, reader: ReplicaReader): Promise<void> {
    const applied = this.#appliedOf(reader.head)
    await this.#addKeyedRequests(store, reader)
    if (!reader.head.hasPoints) return await reader.close()
    const digest = new PartitionDigest()
    const snapshot = await SnapshotReader.open(reader.points())
    await fillStore(store, snapshot, ({ id, version }) => {
      digest.add(idToBytes(id), version)
      this.#points += 1
      if (this.#points % pointsPerReport === 0) this.#options.onPoints(this.#points)
    })
    this.#options.onPoints(this.#points)
    if (applied === undefined || Buffer.compare(digest.bytes, applied.digest) === 0) return
    throw wrong('its points do not match its digest')
  }

  /**
   * Stores keyed requests as they are, including those that are too old: which ones are evicted next depends on all
   * of them.
   */
  async #addKeyedRequests(store: Store, reader: ReplicaReader): Promise<void> {
    const applied = this.#appliedOf(reader.head)
    // By this clock no request is too old.
    const early = applied && { applied: { ...applied, position: 0, clockUs: 0 } }
    let group: KeyedRequest[] = []
    let bytes = 0
    const commit = async (): Promise<void> => {
      if (group.length > 0) await store.commit({ ...nothing, keyedRequests: group, ...early })
      group = []
      bytes = 0
    }
    for await (const record of reader.keyedRequests()) {
      const request = decodeKeyedRequest(record)
      if (request === undefined) throw wrong('a keyed request does not match its checksum')
      group.push(request)
      bytes += record.length + requestWorkBytes
      if (bytes >= groupBytes) await commit()
    }
    await commit()
  }
}

const nothing = { changes: [], slots: [] } as const

function wrong(fault: string): DatabaseError {
  return new DatabaseError('invalid_argument', `what another node sent cannot be used: ${fault}`)
}

const pointsPerReport = 10_000
const groupBytes = 4 * 1024 * 1024
/** The memory of a keyed request in addition to its record. */
const requestWorkBytes = 512
