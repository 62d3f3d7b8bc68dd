import { join } from 'node:path'
import { Audit, lostLine } from './api/audit.ts'
import type { ApiContext, CollectionStats, Moment, PointsSnapshot } from './api/call.ts'
import { SlowRequests } from './api/slow-requests.ts'
import { RefusedKeys } from './base/api-key.ts'
import { type BodyBudgets, type BodyMemory, bodyMemory, createBodyBudgets } from './base/budgets.ts'
import { defaultCollection } from './base/collection.ts'
import { DatabaseError, damageIn, type WritesBlocked } from './base/errors.ts'
import { createLogger, type Logger } from './base/log.ts'
import type { ServiceMetrics } from './base/metrics.ts'
import { Meters } from './base/quotas.ts'
import { keepTicksFast, version } from './base/runtime.ts'
import type { ClusterService } from './cluster/cluster-service.ts'
import type { OpenLog } from './cluster/node-state.ts'
import { type Engine, startEngine } from './collections/engine.ts'
import { registerCollections, registerEngine } from './collections/engine-metrics.ts'
import type { Readers } from './collections/readers.ts'
import { type Loaded, ServedData } from './collections/served-data.ts'
import {
  type Config,
  changedSettings,
  describedSettings,
  embeddingEndpoint,
  openHttpWarning,
  rerankEndpoint,
  type SettingSources,
  speaksTls,
} from './config.ts'
import { Embedder, registerEmbeddings, textCounter } from './embeddings/embedder.ts'
import { requestCounters } from './embeddings/endpoint.ts'
import { Reranker } from './embeddings/reranker.ts'
import { ApiKeys } from './service/api-keys.ts'
import { clusterOf } from './service/cluster.ts'
import { mainIndexDirectory } from './service/stored-data.ts'
import { readinessOf, registerSystem, registerTransports } from './service/system-metrics.ts'
import { engineThread, SharedState, servingThreadsOf, type ThreadCounts } from './serving/thread-setup.ts'
import type { StoreOptions } from './storage/data-store.ts'
import { LineLog } from './storage/files/line-log.ts'
import type { DataStore } from './storage/store.ts'
import type { Ports, Transports } from './transports.ts'

/** A running service. It listens immediately; `ready` resolves when the stored points are loaded. */
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

interface Address {
  readonly host: string
  readonly port: number
}

/**
 * The composition root: constructs the parts and joins them.
 *
 * @throws Error before anything listens when the data directory is in use, damaged, or has another dimension or
 *   format, or when the settings do not fit together; also when a port is not available
 */
export async function startService(
  config: Config,
  options: {
    readonly logger?: Logger
    readonly sources?: SettingSources
    readonly openLog?: OpenLog | undefined
    /** How many threads serve the transports from the start, for tests; 0: this one does. */
    readonly servingThreads?: number | undefined
  } = {},
): Promise<Service> {
  const logger = options.logger ?? createLogger({ level: config.logLevel })
  const { node } = process.versions
  keepTicksFast()
  embeddingEndpoint(config)
  rerankEndpoint(config)
  speaksTls(config)
  await openHttpWarning(config)
  logger.info({ version: version(), node, settings: changedSettings(config) }, 'vicinal starts')
  const closers: Closer[] = []
  const close = async (): Promise<void> => {
    const deadlineMs = performance.now() + config.shutdownTimeoutMs
    for (const closer of closers.splice(0).reverse()) await closer(deadlineMs)
  }
  try {
    return await assemble({ ...options, config, logger, sources: options.sources }, closers, close)
  } catch (error) {
    await close()
    throw error
  }
}

/** Closes a part; `deadlineMs`, by `performance.now()`, is the time by which everything should be closed. */
type Closer = (deadlineMs: number) => Promise<void>

async function assemble(
  {
    config,
    logger,
    sources,
    openLog,
    servingThreads,
  }: Pick<TransportParts, 'config' | 'logger' | 'sources'> & {
    readonly openLog?: OpenLog | undefined
    readonly servingThreads?: number | undefined
  },
  closers: Closer[],
  close: () => Promise<void>,
): Promise<Service> {
  const started = performance.now()
  const threads = servingThreadsOf(config, servingThreads)
  const engine = startEngine({ ...config, logger, readingThreads: threads.max })
  closers.push(() => engine.close())
  let metrics: ServiceMetrics | undefined
  let writesBlocked: WritesBlocked | undefined
  const data = servedData(config, engine, logger, {
    onCommit: (seconds) => metrics?.commit(seconds),
    beforeReopen: () => engine.readers.closeRecords(),
    onWritesBlocked: (reason) => {
      writesBlocked = reason
    },
  })
  closers.push(() => data.close())
  await openStore(data, config, logger)
  const keyMeters = new Meters('key', 1 + threads.max)
  const keys = await ApiKeys.open(config, logger, keyMeters)
  const audit = auditOf(config, logger, closers)
  const collections = (): Loaded => {
    if (data.loaded === undefined) throw new DatabaseError('not_ready', 'the stored points are still loading')
    return data.loaded
  }
  let transports: Transports | undefined
  const bodies = bodyMemory(1 + threads.max)
  const budgets = createBodyBudgets(config, bodies, engineThread)
  const cluster = await clusterOf(config, {
    logger,
    openLog,
    answerBytes: budgets.answers,
    httpPort: () => transports?.ports.http ?? config.httpPort,
    onServing: (isServing) => transports?.setServing(isServing),
  })
  if (cluster !== undefined) closers.push(() => cluster.close())
  const opening = beginLoading({ data, cluster, engine }, closers)
  // Loading libraries takes a good part of the start: points are loaded meanwhile.
  metrics = new (await import('./base/metrics.ts')).ServiceMetrics()
  cluster?.registerMetrics(metrics)
  const parts = {
    config,
    sources,
    collections,
    budgets,
    metrics,
    logger,
    keys: keys.inForce,
    keysControl: keys.control,
    refusedKeys: new RefusedKeys(logger),
    readiness: () => [
      ...readinessOf(data, cluster, writesBlocked),
      ...(audit?.isFailing ? [auditFailing] : []),
    ],
    threads,
    bodies,
    state: new SharedState(),
    embeddings: createEmbedder(config, metrics, logger),
    reranker: createReranker(config, metrics, logger),
    cluster,
    audit,
    readers: engine.readers,
    meters: [keyMeters, engine.meters],
  }
  closers.push(async () => {
    parts.embeddings?.close()
    parts.reranker?.close()
  })
  if (audit !== undefined) {
    const help = 'Lines that are missing in the audit since the start, because they could not be written.'
    metrics.gauge('vicinal_audit_lost_lines', help, () => audit.lost)
  }
  registerSystem(metrics, { ...config, simd: engine.kernelVariant, writesBlocked: () => writesBlocked })
  registerTransports(metrics, { ...parts, threads: () => transports?.threads ?? 0 })
  const opened = await openTransports(parts, closers)
  transports = opened
  const { ports } = opened
  logPorts(config, ports, logger)
  const unwatch = keys.watch((next) => opened.setKeys(next))
  closers.push(async () => unwatch())

  const ready = opening.then(() => {
    registerEngine(parts.metrics, engine, data)
    registerCollections(parts.metrics, engine, data)
    const { main } = collections()
    parts.state.dimension = main.dimension
    parts.state.setReady()
    opened.setServing(true)
    const { points, dimension } = main.stats
    logger.info({ points, dimension, ms: Math.round(performance.now() - started) }, 'ready')
  })
  // The caller learns of a failure through `ready`. Without a listener, a failure must not end the process.
  ready.catch(() => {})

  return {
    grpcAddress: { host: config.grpcHost, port: ports.grpc },
    httpAddress: ports.http === undefined ? undefined : { host: config.httpHost, port: ports.http },
    apiKeyPath: keys.generatedPath,
    ready,
    close,
  }
}

/** Creates the audit, and registers a closer that writes the rest; undefined if there is none. */
function auditOf(
  { audit: level, dataDir, auditFileBytes, auditFiles }: Config,
  logger: Logger,
  closers: Closer[],
): Audit | undefined {
  if (level === 'off') return undefined
  const directory = join(dataDir, 'audit')
  const log = new LineLog({ directory, fileBytesMax: auditFileBytes, filesMax: auditFiles })
  const audit = new Audit({
    level,
    waitMs: auditWaitMs,
    write: (lines, lost) => log.append(lost > 0 ? lostLine(lost) + lines : lines),
    read: (before) => log.backwards(before),
    onFault: (err) => logger.error({ err, directory }, auditFailing),
  })
  closers.push(async () => {
    if ((await audit.close()) > 0) logger.error({ directory }, 'the last lines of the audit were not written')
    await log.close()
  })
  return audit
}

/** Lines that are written together cost one fsync. */
const auditWaitMs = 250
const auditFailing =
  'the audit cannot be written: lines wait in memory, and are lost and counted if too many do'

/** Creates the served data from the settings; opens nothing yet. */
function servedData(
  config: Config,
  engine: Engine,
  logger: Logger,
  on: Pick<StoreOptions, 'onCommit' | 'onWritesBlocked' | 'beforeReopen'>,
): ServedData {
  const { dataDir, dimension, maxIdempotencyKeys, maxIdempotencyBytes, maxChangesBytes } = config
  return new ServedData({
    ...config,
    engine,
    logger,
    indexDirectory: mainIndexDirectory(config),
    store: {
      dataDir,
      maxIdempotencyKeys,
      maxIdempotencyBytes,
      maxChangesBytes,
      logger,
      ...(dimension === undefined ? {} : { dimension }),
      ...on,
    },
  })
}

/**
 * @throws Error that says why the data cannot be used. On a node of a cluster, damaged data are only logged: a copy
 *   from another node can replace them
 */
async function openStore(data: ServedData, { clusterNatsUrl }: Config, logger: Logger): Promise<void> {
  await data.openStore().catch((error: unknown) => {
    if (clusterNatsUrl.length === 0 || damageIn(error) === undefined) throw error
    logger.error({ err: error }, 'the data of this node are damaged')
  })
}

/**
 * Starts to load the points, on a node of a cluster until it has caught up. Registers a closer that stops serving
 * them.
 *
 * @returns a promise for the loaded points. The call itself returns when its threads are at work, so that loading and
 *   opening the ports overlap
 */
function beginLoading(
  parts: { readonly data: ServedData; readonly cluster: ClusterService | undefined; readonly engine: Engine },
  closers: Closer[],
): Promise<unknown> {
  const { data, cluster, engine } = parts
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
  return opening
}

interface TransportParts {
  readonly config: Config
  readonly sources: SettingSources | undefined
  /** @throws DatabaseError `not_ready` */
  readonly collections: () => Loaded
  readonly budgets: BodyBudgets
  readonly metrics: ServiceMetrics
  readonly logger: Logger
  readonly keys: ApiKeys['inForce']
  readonly keysControl: ApiKeys['control']
  readonly refusedKeys: RefusedKeys
  readonly readiness: () => readonly string[]
  readonly embeddings: Embedder | undefined
  readonly reranker: Reranker | undefined
  readonly cluster: ClusterService | undefined
  readonly audit: Audit | undefined
  readonly threads: ThreadCounts
  readonly meters: readonly Meters[]
  readonly readers: Readers
  /** What serving threads share. */
  readonly bodies: BodyMemory
  readonly state: SharedState
}

/** Opens both transports, and registers one closer that drains them. */
async function openTransports(parts: TransportParts, closers: Closer[]): Promise<Transports> {
  const { config, collections, embeddings, reranker, cluster, audit } = parts
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
    reranker,
    cluster,
    clusterControl: cluster,
    keys: parts.keysControl,
    audit,
    changes: cluster === undefined ? (choice) => keptChanges(collections().store, choice) : undefined,
    slowRequests: new SlowRequests({ ...config, plansOf: (name) => plansIn(context, name) }),
    settings: describedSettings(config, parts.sources),
  }
  const ports = { grpc: config.grpcPort, http: config.disableHttp ? undefined : config.httpPort }
  const transports = await startOnThreads({ ...parts, context, ports })
  closers.push(() => transports.close(config.shutdownTimeoutMs))
  return transports
}

/** The journal of changes, as a snapshot is sent. */
async function keptChanges(
  store: DataStore,
  { since, stored }: { readonly since: Moment | undefined; readonly stored: Moment | undefined },
): Promise<PointsSnapshot> {
  const placeOf = (moment: Moment | undefined) => moment && { id: moment.databaseId, at: moment.sequence }
  const { id, to, chunks } = await store.changes({ since: placeOf(since), stored: placeOf(stored) })
  return { databaseId: id, sequence: to, points: 0, chunks, close() {} }
}

async function startOnThreads(
  options: TransportParts & { readonly context: ApiContext; readonly ports: Ports },
): Promise<Transports> {
  if (options.threads.first > 0) {
    const { startServingThreads } = await import('./serving/serving-threads.ts')
    return await startServingThreads(options)
  }
  // Loading their libraries takes a good part of the start: points are loaded meanwhile.
  const { startTransports } = await import('./transports.ts')
  return await startTransports(options)
}

/** The plans in force in a collection; undefined if it is not open. */
function plansIn({ database, collections }: ApiContext, name: string): CollectionStats['plans'] | undefined {
  if (name === defaultCollection) return database.stats.plans
  const lease = collections.lease(name)
  if (!(lease instanceof Promise)) {
    using open = lease
    return open.database.stats.plans
  }
  void lease.then((late) => late[Symbol.dispose]()).catch(() => {})
  return undefined
}

function logPorts(config: Config, { grpc, http }: Ports, logger: Logger): void {
  const { grpcHost, httpHost } = config
  const tls = speaksTls(config)
  logger.info({ tls, host: grpcHost, port: grpc }, 'gRPC listens')
  if (http === undefined) return
  const url = `${tls ? 'https' : 'http'}://${httpHost}:${http}`
  logger.info({ url, docs: '/docs', console: '/console' }, 'HTTP listens')
}

/**
 * Creates the embedder; undefined unless EMBEDDINGS_URL is set. Sends nothing to the endpoint yet: it may be started
 * later.
 */
function createEmbedder(config: Config, metrics: ServiceMetrics, logger: Logger): Embedder | undefined {
  const endpoint = embeddingEndpoint(config)
  if (endpoint === undefined) return undefined
  const { host } = new URL(endpoint.url)
  const embedder = new Embedder({
    ...endpoint,
    onTexts: textCounter(metrics),
    onRequest: requestCounters(metrics, logger, { kind: 'embedding', name: 'embedding', host }),
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

/** Creates the reranker; undefined unless RERANK_URL is set. */
function createReranker(config: Config, metrics: ServiceMetrics, logger: Logger): Reranker | undefined {
  const endpoint = rerankEndpoint(config)
  if (endpoint === undefined) return undefined
  const { host } = new URL(endpoint.url)
  return new Reranker({
    ...endpoint,
    onRequest: requestCounters(metrics, logger, { kind: 'rerank', name: 'reranking', host }),
    timeoutMs: config.rerankTimeoutMs,
    maxRequests: config.rerankMaxRequests,
  })
}

/** Time to write the index to disk, however long the running requests took to end. */
const indexCloseMinMs = 2_000
