import { existsSync, statfsSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import type { ApiContext } from './api/call.ts'
import type { ApiKey, ServiceKeys } from './base/api-key.ts'
import { DatabaseError } from './base/errors.ts'
import { createLogger, type Logger } from './base/log.ts'
import type { ServiceMetrics } from './base/metrics.ts'
import { version } from './base/version.ts'
import { type WritesBlocked, writesBlockedTexts } from './base/writes-blocked.ts'
import type { ClusterService } from './cluster/cluster-service.ts'
import type { LinkSettings, OpenLog } from './cluster/cluster-service-options.ts'
import {
  type Config,
  effectiveSettings,
  embeddingEndpoint,
  isHttpOpen,
  type SettingSources,
} from './config.ts'
import { Embedder } from './embeddings/embedder.ts'
import { embeddingCounters, registerEmbeddings } from './embeddings/embedding-metrics.ts'
import { outageLog } from './embeddings/outage-log.ts'
import type { CollectionSet } from './engine/collection-set.ts'
import type { CollectionStats } from './engine/collection-stats.ts'
import { type DirectoryDiagnosis, examineDirectory } from './engine/directory-doctor.ts'
import { type Engine, startEngine } from './engine/engine.ts'
import { type MetricPlan, recallInForce } from './engine/recall-plans.ts'
import { type Loaded, ServedData } from './engine/served-data.ts'
import { loadOrCreateApiKey, setAsideApiKey } from './storage/api-key-file.ts'
import { type Backup, restoreBackup } from './storage/backup.ts'
import { damageIn, databasePath } from './storage/data-directory.ts'
import { DirectorySurvey } from './storage/directory-survey.ts'
import { readKeysFile, watchKeysFile } from './storage/keys-file.ts'
import { openStore } from './storage/lmdb-store.ts'
import { repair } from './storage/repair.ts'
import type { SnapshotHeader } from './storage/snapshot-format.ts'
import { SnapshotReader } from './storage/snapshot-reader.ts'
import { restoreSnapshot } from './storage/snapshot-restore.ts'
import type { Ports, Transports } from './transports.ts'

export { type Backup, BackupWriter, readBackup, snapshotIn } from './storage/backup.ts'
export { writeWholeFile } from './storage/whole-file.ts'
export { type SnapshotHeader, SnapshotReader }

/** A running service. It listens at once; `ready` resolves when the stored points are loaded. */
export interface Service {
  readonly grpcAddress: Address
  /** Undefined when HTTP is disabled. */
  readonly httpAddress: Address | undefined
  /** The file of the generated API key; undefined if GRPC_ROOT_PASSWORD sets the key. */
  readonly apiKeyPath: string | undefined
  /** Rejects if the stored data cannot be loaded; then only `close` may be called. */
  readonly ready: Promise<void>
  /** Drains running requests and releases everything, in the reverse order of creation. */
  close(): Promise<void>
}

export interface Address {
  readonly host: string
  readonly port: number
}

/**
 * The composition root: constructs the parts and joins them.
 *
 * @throws before anything listens: the data directory is in use, damaged or of another dimension or format; the
 *   settings do not belong together; or when a port cannot be had
 */
export async function startService(
  config: Config,
  options: {
    readonly logger?: Logger
    readonly sources?: SettingSources
    readonly openLog?: OpenLog | undefined
  } = {},
): Promise<Service> {
  const logger = options.logger ?? loggerOf(config)
  const { node } = process.versions
  embeddingEndpoint(config)
  logger.info({ version: version(), node, settings: effectiveSettings(config) }, 'vicinal starts')
  const closers: Closer[] = []
  const close = async (): Promise<void> => {
    const deadlineMs = performance.now() + config.shutdownTimeoutMs
    for (const closer of closers.splice(0).reverse()) await closer(deadlineMs)
  }
  try {
    return await assemble({ config, logger, sources: options.sources }, closers, close, options.openLog)
  } catch (error) {
    await close()
    throw error
  }
}

/** The logger that the settings ask for. */
export function loggerOf({ logLevel, logFormat }: Config): Logger {
  const pretty = logFormat === 'auto' ? process.stdout.isTTY : logFormat === 'pretty'
  return createLogger({ level: logLevel, pretty })
}

/**
 * Checks everything that is stored, without serving it.
 *
 * @throws Error that says what is wrong: the data directory is in use, or so damaged that it cannot be opened
 */
export async function examineData(config: Config): Promise<DirectoryDiagnosis> {
  return (await examineAnd(config)).diagnosis
}

/**
 * As `examineData`, and removes damaged points, so that the rest can be served.
 *
 * @returns what was found, and the file with the remains of the points that were set aside
 * @throws Error as `examineData`; or the error of a failed repair, which can then be repeated
 */
export async function repairData(
  config: Config,
): Promise<{ readonly diagnosis: DirectoryDiagnosis; readonly file: string | undefined }> {
  return await examineAnd(config, repair)
}

async function examineAnd(
  config: Config,
  act?: typeof repair,
): Promise<{ readonly diagnosis: DirectoryDiagnosis; readonly file: string | undefined }> {
  await using survey = await DirectorySurvey.open(config.dataDir)
  return await examineDirectory(survey, indexDirectory(config), act)
}

/**
 * The bytes of a snapshot of a data directory that no service uses.
 *
 * @throws Error that says what is wrong: nothing is stored there, it is in use, or damaged
 */
export async function* snapshotOfData(config: Config): AsyncGenerator<Buffer> {
  const { dataDir } = config
  // Opening would create missing files.
  if (!existsSync(databasePath(dataDir))) throw new Error(`nothing is stored in ${dataDir}`)
  const store = await openStore({ dataDir, logger: loggerOf({ ...config, logLevel: 'silent' }) })
  try {
    yield* store.snapshot(() => {}).chunks()
  } finally {
    await store.close()
  }
}

/**
 * Creates the data directory from a snapshot's bytes. Returns what was restored.
 *
 * @throws DatabaseError `invalid_argument` when the directory is not empty or the snapshot cannot be used
 */
export async function restoreData(
  config: Config,
  chunks: AsyncIterable<Uint8Array>,
): Promise<SnapshotHeader> {
  const reader = await SnapshotReader.open(chunks)
  await restoreSnapshot(reader, config.dataDir, loggerOf({ ...config, logLevel: 'silent' }))
  return reader.header
}

/** Creates the data directory from a backup of all collections. @throws as `restoreData` */
export async function restoreBackupTo(config: Config, backup: Backup): Promise<void> {
  await restoreBackup(backup, config.dataDir, loggerOf({ ...config, logLevel: 'silent' }))
}

/** Closes a part; `deadlineMs`, by `performance.now()`, is when all should be closed. */
type Closer = (deadlineMs: number) => Promise<void>

/** Time to write the index to disk, however long the running requests have taken to end. */
const indexCloseMinMs = 2_000

function indexDirectory({ dataDir }: Config): string {
  return join(dataDir, 'index')
}

async function assemble(
  { config, logger, sources }: Pick<TransportParts, 'config' | 'logger' | 'sources'>,
  closers: Closer[],
  close: () => Promise<void>,
  openLog: OpenLog | undefined,
): Promise<Service> {
  const started = performance.now()
  const engine = startEngine({ ...config, logger })
  closers.push(() => engine.close())
  let metrics: ServiceMetrics | undefined
  let timings: ClusterTimings | undefined
  let writesBlocked: WritesBlocked | undefined
  const data = new ServedData({
    ...config,
    engine,
    indexDirectory: indexDirectory(config),
    logger,
    store: {
      dataDir: config.dataDir,
      ...(config.dimension === undefined ? {} : { dimension: config.dimension }),
      maxIdempotencyKeys: config.maxIdempotencyKeys,
      maxIdempotencyBytes: config.maxIdempotencyBytes,
      logger,
      onCommit: (seconds) => metrics?.commit(seconds),
      onWritesBlocked: (reason) => {
        writesBlocked = reason
      },
    },
  })
  closers.push(() => data.close())
  await data.openStore().catch((error: unknown) => {
    // A node of a cluster can have another one's data in place of damaged ones.
    if (config.clusterNatsUrl.length === 0 || damageIn(error) === undefined) throw error
    logger.error({ err: error }, 'the data of this node are damaged')
  })
  const generated = await generatedKey(config, logger)
  const keysFile = config.apiKeysFile === undefined ? undefined : readKeysFile(config.apiKeysFile)
  const keysWith = (fileKeys: readonly ApiKey[] = []): ServiceKeys =>
    keysInForce(config, generated?.key, fileKeys)
  const keys = keysWith(keysFile?.keys)
  let keysNow = keys
  logKeys(keys, logger)

  const collections = (): Loaded => {
    if (data.loaded === undefined) throw new DatabaseError('not_ready', 'the stored points are still loading')
    return data.loaded
  }
  const isReady = (): boolean => data.loaded !== undefined
  let transports: Transports | undefined
  const cluster = await clusterOf(config, {
    ...{ logger, openLog, timings: () => timings },
    peerKey: () => peerKeyOf(keysNow),
    httpPort: () => transports?.ports.http ?? config.httpPort,
    onServing: (isServing) => transports?.setServing(isServing),
  })
  if (cluster !== undefined) closers.push(() => cluster.close())
  // Runs until its threads are at work, so that loading and opening the ports overlap.
  const opening = cluster === undefined ? data.load(undefined) : cluster.start(data)
  // It may fail before anybody waits for it: `ready` reports that.
  opening.catch(() => {})
  closers.push(async (deadlineMs) => {
    const stopped = data.stop(
      new DatabaseError('shutting_down', 'the service was closed before it had loaded its points'),
    )
    await cluster?.stop()
    await stopped
    await opening.catch(() => {})
    await engine.close(Math.max(indexCloseMinMs, deadlineMs - performance.now()))
  })
  // Libraries take a good part of a start to load: points are loaded meanwhile.
  metrics = new (await import('./base/metrics.ts')).ServiceMetrics()
  if (cluster !== undefined) timings = registerCluster(metrics, cluster)
  const parts = {
    config,
    sources,
    collections,
    metrics,
    logger,
    keys,
    isReady,
    writesBlocked: () => writesBlocked,
    embeddings: createEmbedder(config, metrics, logger),
    cluster,
  }
  closers.push(async () => parts.embeddings?.close())
  registerSystem(parts, engine.kernelVariant)
  transports = await openTransports(parts, closers)
  const { ports, setServing, setKeys } = transports
  logPorts(config, ports, logger)
  if (keysFile !== undefined) {
    const file = config.apiKeysFile!
    const onKeys = (fileKeys: readonly ApiKey[]): void => {
      keysNow = keysWith(fileKeys)
      setKeys(keysNow)
      logger.info({ file }, 'API_KEYS_FILE has changed')
      logKeys(keysNow, logger)
    }
    const onFault = (err: unknown): void =>
      logger.error({ err, file }, 'API_KEYS_FILE cannot be used: the keys read before stay in force')
    const unwatch = watchKeysFile(file, keysFile, onKeys, onFault)
    closers.push(async () => unwatch())
  }

  const ready = opening.then(() => {
    registerGauges(parts.metrics, engine, data)
    registerCollections(parts.metrics, data)
    setServing(true)
    const { points, dimension } = collections().main.stats
    logger.info({ points, dimension, ms: Math.round(performance.now() - started) }, 'ready')
  })
  // The caller learns of a failure through `ready`; without a listener, it must not end the process.
  ready.catch(() => {})

  return {
    grpcAddress: { host: config.grpcHost, port: ports.grpc },
    httpAddress: ports.http === undefined ? undefined : { host: config.httpHost, port: ports.http },
    apiKeyPath: generated?.path,
    ready,
    close,
  }
}

/** Undefined unless EMBEDDINGS_URL is set. Asks the endpoint for nothing: it may be started later. */
function createEmbedder(config: Config, metrics: ServiceMetrics, logger: Logger): Embedder | undefined {
  const endpoint = embeddingEndpoint(config)
  if (endpoint === undefined) return undefined
  const { host } = new URL(endpoint.url)
  const counters = embeddingCounters(metrics)
  const noteOutcome = outageLog(logger, host)
  const embedder = new Embedder({
    ...endpoint,
    onTexts: counters.onTexts,
    onRequest(outcome, seconds) {
      counters.onRequest(outcome, seconds)
      noteOutcome(outcome)
    },
    timeoutMs: config.embeddingsTimeoutMs,
    batchSize: config.embeddingsBatchSize,
    maxRequests: config.embeddingsMaxRequests,
    maxTexts: config.embeddingsMaxTexts,
    maxTextBytes: config.embeddingsMaxTextBytes,
    cacheBytes: config.embeddingsCacheBytes,
  })
  registerEmbeddings(metrics, embedder, host)
  return embedder
}

interface TransportParts {
  readonly config: Config
  readonly sources: SettingSources | undefined
  /** @throws DatabaseError `not_ready` */
  readonly collections: () => Loaded
  readonly metrics: ServiceMetrics
  readonly logger: Logger
  readonly keys: ServiceKeys
  readonly isReady: () => boolean
  readonly writesBlocked: () => WritesBlocked | undefined
  readonly embeddings: Embedder | undefined
  readonly cluster: ClusterService | undefined
}

interface ClusterParts {
  readonly logger: Logger
  readonly openLog: OpenLog | undefined
  /** Metrics are loaded while the node is connecting. */
  readonly timings: () => ClusterTimings | undefined
  /** The key that other nodes take over HTTP. */
  readonly peerKey: () => string | undefined
  /** That this node listens at. */
  readonly httpPort: () => number
  readonly onServing: (isServing: boolean) => void
}

/** The cluster that the settings name; its libraries are loaded with it only. */
async function clusterOf(config: Config, parts: ClusterParts): Promise<ClusterService | undefined> {
  if (config.clusterNatsUrl.length === 0) return undefined
  const [{ ClusterService }, { HttpReplicaSource }] = await Promise.all([
    import('./cluster/cluster-service.ts'),
    import('./cluster/http-replica-source.ts'),
  ])
  const { clusterName: cluster, clusterNodeName: node, httpHost } = config
  const { logger, openLog, timings, peerKey, httpPort, onServing } = parts
  const host = isAnyAddress(httpHost) ? hostname() : httpHost
  const options = {
    ...{ cluster, node, name: `vicinal ${node}`, zone: config.clusterZone },
    address: () => config.clusterAdvertise || `${host.includes(':') ? `[${host}]` : host}:${httpPort()}`,
    replicas: config.clusterReplicas,
    ...{ urls: config.clusterNatsUrl, monitorUrls: config.clusterNatsMonitorUrls },
    ...{ credentialsFile: config.clusterNatsCredentials, caFile: config.clusterNatsCa },
    ...{ certFile: config.clusterNatsCert, keyFile: config.clusterNatsKey },
    ...{ logBytesMax: config.clusterLogBytes, appendsMax: config.clusterMaxAppends },
    appendTimeoutMs: config.clusterAppendTimeoutMs,
    ...{ maxBufferedBytes: config.maxBufferedBytes, maxRequestBytes: config.maxRequestBytes },
    ...{ openLog, onServing },
    link: linkOf(config, (seconds) => timings()?.link(seconds)),
    sourceOf: (name: string, { address }: { readonly address: string }) =>
      new HttpReplicaSource({ node: name, address, apiKey: peerKey() }),
    onAppend: (seconds: number) => timings()?.append(seconds),
    onApply: (seconds: number) => timings()?.apply(seconds),
    onAcknowledge: (seconds: number) => timings()?.acknowledge(seconds),
  }
  return new ClusterService(options, logger)
}

/**
 * How nodes reach each other; undefined where neither a secret nor certificates say who is one.
 *
 * @throws Error when the settings do not belong together
 */
function linkOf(config: Config, onSeconds: (seconds: number) => void): LinkSettings | undefined {
  const { clusterSecret: secret, clusterHost: host, clusterPeerAdvertise } = config
  const {
    clusterTlsCa: caFile,
    clusterTlsCert: certFile,
    clusterTlsKey: keyFile,
    clusterTlsName: name,
  } = config
  const files = [caFile, certFile, keyFile].filter((file) => file !== undefined)
  if (files.length === 0 && secret === undefined) return undefined
  if (files.length % 3 !== 0) {
    throw new Error(
      'CLUSTER_TLS_CA, CLUSTER_TLS_CERT and CLUSTER_TLS_KEY belong together: set all three or none',
    )
  }
  const shown = isAnyAddress(host) ? hostname() : host
  return {
    ...{ secret, host, port: config.clusterPort, timeoutMs: config.clusterPeerTimeoutMs },
    callsMax: config.clusterMaxPeerCalls,
    tls: caFile === undefined ? undefined : { caFile, certFile: certFile!, keyFile: keyFile!, name },
    addressAt: (port) => clusterPeerAdvertise || `${shown.includes(':') ? `[${shown}]` : shown}:${port}`,
    onCall: (_, seconds) => onSeconds(seconds),
  }
}

function isAnyAddress(host: string): boolean {
  return host === '0.0.0.0' || host === '::'
}

/** Nodes of a cluster take the same keys; undefined where HTTP asks for none. */
function peerKeyOf({ http }: ServiceKeys): string | undefined {
  return http?.find(({ role }) => role === 'write')?.key
}

/** Opens both transports, and registers one closer that drains them. */
async function openTransports(parts: TransportParts, closers: Closer[]): Promise<Transports> {
  const { config, collections, embeddings, cluster } = parts
  const context: ApiContext = {
    get database() {
      const { main } = collections()
      return cluster === undefined ? main : cluster.node.database
    },
    get collections() {
      const { set } = collections()
      return cluster === undefined ? set : cluster.node.collections
    },
    limits: { maxLimit: config.maxLimit, hnswEf: config.hnswEf },
    embeddings,
    cluster,
  }
  const ports = { grpc: config.grpcPort, http: config.disableHttp ? undefined : config.httpPort }
  // Their libraries take a good part of a start to load: points are loaded meanwhile.
  const { startTransports } = await import('./transports.ts')
  const transports = await startTransports({ ...parts, context, ports })
  closers.push(() => transports.close(config.shutdownTimeoutMs))
  return transports
}

function logPorts({ grpcHost, httpHost }: Config, { grpc, http }: Ports, logger: Logger): void {
  logger.info({ host: grpcHost, port: grpc }, 'gRPC listens')
  if (http !== undefined) logger.info({ url: `http://${httpHost}:${http}`, docs: '/docs' }, 'HTTP listens')
}

/** The key of the data directory; undefined if GRPC_ROOT_PASSWORD sets one. */
async function generatedKey(
  { dataDir, grpcRootPassword, grpcRootPasswordNext }: Config,
  logger: Logger,
): Promise<{ readonly key: string; readonly path: string } | undefined> {
  if (grpcRootPassword !== undefined) {
    const unused = await setAsideApiKey(dataDir, [grpcRootPassword, grpcRootPasswordNext ?? ''])
    if (unused !== undefined) {
      logger.warn(
        { path: unused },
        'GRPC_ROOT_PASSWORD is in force: the generated key is not, and was renamed',
      )
    }
    return undefined
  }
  const { key, path, created } = await loadOrCreateApiKey(dataDir)
  logger.info(
    { path },
    created ? 'made a new gRPC API key: read it from this file' : 'the gRPC API key stands in this file',
  )
  return { key, path }
}

/** All keys of both transports; a key from the settings has the role `write`. */
function keysInForce(
  config: Config,
  generated: string | undefined,
  fileKeys: readonly ApiKey[],
): ServiceKeys {
  const { grpcRootPassword, grpcRootPasswordNext, httpApiKey, httpApiKeyNext } = config
  const own = (name: string, key: string | undefined): ApiKey[] =>
    key === undefined ? [] : [{ name, key, role: 'write' }]
  return {
    grpc: [
      ...own('GRPC_ROOT_PASSWORD', grpcRootPassword),
      ...own('DATA_DIR/api-key', generated),
      ...own('GRPC_ROOT_PASSWORD_NEXT', grpcRootPasswordNext),
      ...fileKeys,
    ],
    http: isHttpOpen(config)
      ? undefined
      : [...own('HTTP_API_KEY', httpApiKey), ...own('HTTP_API_KEY_NEXT', httpApiKeyNext), ...fileKeys],
  }
}

/** Logs the names of the valid keys. */
function logKeys({ grpc, http }: ServiceKeys, logger: Logger): void {
  const named = (keys: readonly ApiKey[]): string[] =>
    keys.map(({ name, role }) => (role === 'read' ? `${name} (read)` : name))
  logger.info({ grpc: named(grpc), http: http === undefined ? 'open' : named(http) }, 'API keys in force')
}

function registerGauges(metrics: ServiceMetrics, engine: Engine, data: ServedData): void {
  const collection = {
    get stats(): CollectionStats {
      return data.figures.stats
    },
  }
  metrics.gauge('vicinal_points', 'Live points.', () => collection.stats.points)
  metrics.gauge(
    'vicinal_dimension',
    'Length of every vector; 0 until the first insert.',
    () => collection.stats.dimension,
  )
  metrics.gauge(
    'vicinal_sequence',
    'Sequence number of the last durable change.',
    () => collection.stats.sequence,
  )
  metrics.gauge('vicinal_index_segments', 'Memory segments of the index.', () => collection.stats.segments)
  metrics.gauge(
    'vicinal_index_memory_bytes',
    'Memory that the index has reserved for vectors.',
    () => collection.stats.indexBytes,
  )
  metrics.gauge(
    'vicinal_id_table_memory_bytes',
    'Memory of the id table.',
    () => collection.stats.idTableBytes,
  )
  metrics.gauge(
    'vicinal_attribute_memory_bytes',
    'Memory of the attribute index, results of filters that it keeps included.',
    () => collection.stats.attributeBytes,
  )
  metrics.gauge(
    'vicinal_index_waiting_points',
    'Points that are stored and not yet linked into the index: every search scans them.',
    () => collection.stats.unindexed,
  )
  metrics.gauge(
    'vicinal_index_tombstones',
    'Removed points whose links are not repaired yet.',
    () => collection.stats.tombstones,
  )
  metrics.gauge(
    'vicinal_index_settling',
    '1 while a graph is being built or repaired after a start, or recall is being measured; searches may be exact, and slower, meanwhile.',
    () => Number(collection.stats.isSettling),
  )
  metrics.gauges(
    'vicinal_index_distance_source',
    'By the metric of the graph, what its distances are measured on: 0 no graph yet, 1 codes, 2 vectors, 3 no graph, as neither tells the points apart.',
    'graph',
    () =>
      Object.entries(collection.stats.distanceSources).map(([graph, on]) => [
        graph,
        distanceSourceNumbers[on ?? 'none'],
      ]),
  )
  const plans = (): [string, MetricPlan][] => Object.entries(collection.stats.plans)
  metrics.gauges(
    'vicinal_index_recall',
    'Share of the ten nearest that searches at the default ef find: 1 where they are exact, else measured on stored points.',
    'metric',
    () => plans().map(([metric, plan]) => [metric, recallInForce(plan)]),
  )
  metrics.gaugesOf(
    'vicinal_filtered_recall',
    'Share of the ten nearest matching points that searches with a filter find at the default ef, by the share of points that match: 1 where they are exact. Absent where such searches walk through a graph and were not measured yet.',
    ['metric', 'bin'],
    () => collection.stats.filteredRecalls.map(({ metric, bin, recall }) => [{ metric, bin }, recall]),
  )
  metrics.gauges(
    'vicinal_index_ef_multiplier',
    'How many times the asked-for ef a search uses to reach the recall target; 0 for the exact scan.',
    'metric',
    () => plans().map(([metric, { route }]) => [metric, route?.efMultiplier ?? 0]),
  )
  metrics.gauge('vicinal_queued_queries', 'Queries that wait or run.', () => engine.stats.queuedQueries)
  metrics.gauges(
    'vicinal_search_thread_pieces',
    'Single searches and parts of larger ones that each search thread has worked on since it started.',
    'thread',
    () => engine.stats.searchedPieces.map((pieces, thread) => [String(thread), pieces]),
  )
  metrics.gauge(
    'vicinal_queued_write_bytes',
    'Bytes of changes that wait for the disk.',
    () => engine.stats.queuedWriteBytes,
  )
  metrics.gauge(
    'vicinal_idempotency_keys',
    'Idempotency keys on disk, those included that are too old to be recognized.',
    () => data.figures.keyedRequests,
  )
  metrics.gauge('vicinal_disk_bytes', 'Bytes of the stored data on disk.', () => data.figures.diskBytes)
}

function registerCollections(metrics: ServiceMetrics, data: ServedData): void {
  const largest = (): ReturnType<CollectionSet['largestOpen']> =>
    data.loaded?.set.largestOpen(collectionsShown) ?? []
  metrics.gauge(
    'vicinal_collections',
    'Collections, the default one included.',
    () => data.loaded?.set.count ?? 0,
  )
  metrics.gauge(
    'vicinal_open_collections',
    'Named collections whose points are in memory.',
    () => data.loaded?.set.openCount ?? 0,
  )
  metrics.gauges(
    'vicinal_collection_points',
    `Live points of named collections that are open, the ${collectionsShown} largest.`,
    'collection',
    () => largest().map(([name, { points }]) => [name, points]),
  )
  metrics.gauges(
    'vicinal_collection_memory_bytes',
    'Memory that these collections take for vectors, graphs, ids and attributes.',
    'collection',
    () => largest().map(([name, { memoryBytes }]) => [name, memoryBytes]),
  )
}

/** Bounded because every label costs memory where metrics are stored. */
const collectionsShown = 50

function registerSystem({ metrics, config, writesBlocked }: TransportParts, simd: string): void {
  const { platform, arch } = process
  const labels = { version: version(), node: process.versions.node, platform, arch, simd }
  metrics.info('vicinal_build_info', 'Always 1: what is running, by its labels.', labels)
  metrics.gauge('vicinal_disk_free_bytes', 'Bytes that the disk of the data directory has left.', () => {
    const { bavail, bsize } = statfsSync(config.dataDir)
    return bavail * bsize
  })
  metrics.gauges(
    'vicinal_writes_blocked',
    'Whether changes are refused, by reason: 1 from the first refusal to the next insert that is stored.',
    'reason',
    () => Object.keys(writesBlockedTexts).map((reason) => [reason, reason === writesBlocked() ? 1 : 0]),
  )
}

/** What measures the ways of a change, in seconds. */
interface ClusterTimings {
  readonly append: (seconds: number) => void
  readonly apply: (seconds: number) => void
  readonly acknowledge: (seconds: number) => void
  readonly link: (seconds: number) => void
}

function registerCluster(metrics: ServiceMetrics, cluster: ClusterService): ClusterTimings {
  metrics.gauge(
    'vicinal_cluster_position',
    'Position in the log of the cluster up to which this node has applied all records.',
    () => cluster.figures.position,
  )
  metrics.gauge(
    'vicinal_cluster_durable_position',
    'Position in the log of the cluster up to which all records are on the disk of this node.',
    () => cluster.figures.floor,
  )
  metrics.gauge(
    'vicinal_cluster_lag',
    'Records of the log of the cluster that this node has not applied.',
    () => cluster.figures.lag,
  )
  metrics.gauge('vicinal_cluster_connected', '1 while a log server is connected.', () =>
    Number(cluster.figures.isConnected),
  )
  metrics.gauge(
    'vicinal_cluster_gaps',
    'Positions that the log of the cluster did not have, since the start.',
    () => cluster.figures.gaps,
  )
  metrics.gauge(
    'vicinal_cluster_digest_mismatches',
    'Comparisons with what other nodes hold that came out different, since the start.',
    () => cluster.figures.digestMismatches,
  )
  metrics.gauge(
    'vicinal_cluster_hedges',
    'Requests that were sent to a second node too, because the first one was slow, since the start.',
    () => cluster.figures.hedges,
  )
  metrics.gauge(
    'vicinal_cluster_fetches',
    'How often this node has fetched everything from another one, since the start.',
    () => cluster.figures.fetches,
  )
  metrics.gauge(
    'vicinal_cluster_partitions',
    'Partitions of the points, of 256, that this node has.',
    () => cluster.figures.partitions,
  )
  metrics.gauge(
    'vicinal_cluster_partitions_missing',
    'Partitions of the points that this node should have and has not yet.',
    () => cluster.figures.partitionsMissing,
  )
  return {
    append: metrics.seconds(
      'vicinal_cluster_append_seconds',
      'Time of an append to the log of the cluster, until a majority of its servers has it on disk.',
    ),
    apply: metrics.seconds(
      'vicinal_cluster_apply_seconds',
      'Time from reading a record of the log of the cluster until it is applied.',
    ),
    acknowledge: metrics.seconds(
      'vicinal_cluster_acknowledge_seconds',
      'Time of a write on this node, from its append to its answer.',
    ),
    link: metrics.seconds(
      'vicinal_cluster_link_seconds',
      'Time that another node took to answer a request of this one.',
    ),
  }
}

const distanceSourceNumbers = { none: 0, codes: 1, rows: 2, nothing: 3 } as const
