import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { ApiContext } from './api/call.ts'
import { DatabaseError } from './base/errors.ts'
import { createLogger, type Logger } from './base/log.ts'
import type { ServiceMetrics } from './base/metrics.ts'
import { canSharePorts } from './base/ports.ts'
import type { Config } from './config.ts'
import { type Diagnosis, examine } from './engine/doctor.ts'
import { type Engine, openEngine, startEngineThreads, stopEngineThreads } from './engine/engine.ts'
import type { MetricPlan } from './engine/recall-plans.ts'
import { FrontThreads } from './front/front-threads.ts'
import type { Ports } from './front/messages.ts'
import { loadOrCreateApiKey } from './storage/api-key-file.ts'
import { databasePath } from './storage/data-directory.ts'
import { openStore } from './storage/lmdb-store.ts'
import type { SnapshotHeader } from './storage/snapshot-format.ts'
import { SnapshotReader } from './storage/snapshot-reader.ts'
import { restoreSnapshot } from './storage/snapshot-restore.ts'
import type { Store } from './storage/store.ts'

export { writeWholeFile } from './storage/whole-file.ts'
export { type SnapshotHeader, SnapshotReader }

/** A running service. It listens at once; `ready` resolves when the stored points are loaded. */
export interface Service {
  readonly grpcAddress: Address
  /** Undefined when HTTP is disabled. */
  readonly httpAddress: Address | undefined
  /** Where the generated API key stands; undefined when GRPC_ROOT_PASSWORD gave the key. */
  readonly apiKeyPath: string | undefined
  /** Rejects when the stored data cannot be loaded; then `close` is all that is left to do. */
  readonly ready: Promise<void>
  /** Rejects when a part has ended without which the service cannot go on; then it has to be closed. */
  readonly failed: Promise<never>
  /** Drains running requests and releases everything, in the reverse order of its making. */
  close(): Promise<void>
}

export interface Address {
  readonly host: string
  readonly port: number
}

/**
 * The composition root: constructs the parts and joins them. Front threads have one of their own, for the parts
 * that run there: front/front-worker.ts.
 *
 * @throws before anything listens: the data directory is in use, damaged or of another dimension or format;
 *   or when a port cannot be had
 */
export async function startService(config: Config, options: { logger?: Logger } = {}): Promise<Service> {
  const logger = options.logger ?? loggerOf(config)
  const closers: (() => Promise<void>)[] = []
  const close = async (): Promise<void> => {
    for (const closer of closers.splice(0).reverse()) await closer()
  }
  try {
    return await assemble(config, logger, closers, close)
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
export async function examineData(config: Config): Promise<Diagnosis> {
  const store = await openStore({
    dataDir: config.dataDir,
    logger: loggerOf({ ...config, logLevel: 'silent' }),
  })
  try {
    return examine(store, indexDirectory(config))
  } finally {
    await store.close()
  }
}

/**
 * The bytes of a snapshot of a data directory that no service uses.
 *
 * @throws Error that says what is wrong: nothing is stored there, it is in use, or damaged
 */
export async function* snapshotOfData(config: Config): AsyncGenerator<Buffer> {
  const { dataDir } = config
  // Opening would make what is missing.
  if (!existsSync(databasePath(dataDir))) throw new Error(`nothing is stored in ${dataDir}`)
  const store = await openStore({ dataDir, logger: loggerOf({ ...config, logLevel: 'silent' }) })
  try {
    yield* store.snapshot(() => {}).chunks()
  } finally {
    await store.close()
  }
}

/**
 * Makes the data directory of a snapshot's bytes. Gives what was restored.
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

function indexDirectory({ dataDir }: Config): string {
  return join(dataDir, 'index')
}

async function assemble(
  config: Config,
  logger: Logger,
  closers: (() => Promise<void>)[],
  close: () => Promise<void>,
): Promise<Service> {
  const started = performance.now()
  const threads = startEngineThreads({ ...config, logger })
  closers.push(() => stopEngineThreads(threads))
  let metrics: ServiceMetrics | undefined
  const store = await openStore({
    dataDir: config.dataDir,
    ...(config.dimension === undefined ? {} : { dimension: config.dimension }),
    logger,
    onCommit: (seconds) => metrics?.commit(seconds),
  })
  closers.push(() => store.close())
  const key = await grpcKey(config, logger)

  let loaded: Engine | undefined
  const engine = (): Engine => {
    if (loaded === undefined) throw new DatabaseError('not_ready', 'the stored points are still loading')
    return loaded
  }
  const isReady = (): boolean => loaded !== undefined
  // Runs until its threads are at work: what opening the ports takes does not come on top of that.
  const stop = new AbortController()
  const opening = openEngine({
    ...config,
    store,
    threads,
    logger,
    indexDirectory: indexDirectory(config),
    signal: stop.signal,
  })
  // It may fail before anybody waits for it: `ready` tells.
  opening.catch(() => {})
  closers.push(async () => {
    stop.abort(new DatabaseError('shutting_down', 'the service was closed before it had loaded its points'))
    await (await opening.catch(() => undefined))?.close()
  })
  // Libraries take a good part of a start to load: points are loaded meanwhile.
  metrics = new (await import('./base/metrics.ts')).ServiceMetrics()
  const parts = { config, engine, metrics, logger, apiKey: key.key, isReady }
  const entrance = (await hasFronts(config, logger))
    ? await openFronts(parts, closers)
    : await openTransports(parts, closers)
  const { ports } = entrance
  logPorts(config, ports, logger)

  const ready = opening.then(async (opened) => {
    loaded = opened
    registerGauges(parts.metrics, opened, store)
    await entrance.serve(opened)
    const { points, dimension } = opened.stats
    logger.info({ points, dimension, ms: Math.round(performance.now() - started) }, 'ready')
  })
  // Whoever started the service hears of a failure through `ready`; nobody listening must not end the process.
  ready.catch(() => {})

  return {
    grpcAddress: { host: config.grpcHost, port: ports.grpc },
    httpAddress: ports.http === undefined ? undefined : { host: config.httpHost, port: ports.http },
    apiKeyPath: key.path,
    ready,
    failed: entrance.failed,
    close,
  }
}

interface EntranceParts {
  readonly config: Config
  /** @throws DatabaseError `not_ready` */
  readonly engine: () => Engine
  readonly metrics: ServiceMetrics
  readonly logger: Logger
  readonly apiKey: string
  readonly isReady: () => boolean
}

/** Where callers come in. */
interface Entrance {
  readonly ports: Ports
  readonly failed: Promise<never>
  /** The stored points are loaded. */
  serve(engine: Engine): Promise<void> | void
}

async function hasFronts({ frontThreads }: Config, logger: Logger): Promise<boolean> {
  if (frontThreads === 0 || (await canSharePorts())) return frontThreads > 0
  logger.warn(
    { frontThreads },
    'FRONT_THREADS has no effect: this system cannot share a port between threads',
  )
  return false
}

/** Opens both transports on threads of their own, and registers one closer that drains them. */
async function openFronts(parts: EntranceParts, closers: (() => Promise<void>)[]): Promise<Entrance> {
  const fronts = new FrontThreads(parts)
  closers.push(() => fronts.close(parts.config.shutdownTimeoutMs))
  return { ports: await fronts.listen(), failed: fronts.death, serve: (engine) => fronts.serve(engine) }
}

/** Opens both transports on this thread, and registers one closer that drains them. */
async function openTransports(parts: EntranceParts, closers: (() => Promise<void>)[]): Promise<Entrance> {
  const { config, engine } = parts
  const context: ApiContext = {
    get database() {
      return engine()
    },
    limits: { maxLimit: config.maxLimit, hnswEf: config.hnswEf },
  }
  const ports = { grpc: config.grpcPort, http: config.disableHttp ? undefined : config.httpPort }
  // Not with front threads: these load them for themselves.
  const { startTransports } = await import('./front/transports.ts')
  const transports = await startTransports({ ...parts, context, ports })
  closers.push(() => transports.close(config.shutdownTimeoutMs))
  return {
    ports: transports.ports,
    failed: new Promise(() => {}),
    serve: () => transports.setServing(true),
  }
}

function logPorts({ grpcHost, httpHost }: Config, { grpc, http }: Ports, logger: Logger): void {
  logger.info({ host: grpcHost, port: grpc }, 'gRPC listens')
  if (http !== undefined) logger.info({ url: `http://${httpHost}:${http}`, docs: '/docs' }, 'HTTP listens')
}

async function grpcKey(config: Config, logger: Logger): Promise<{ key: string; path: string | undefined }> {
  if (config.grpcRootPassword !== undefined) return { key: config.grpcRootPassword, path: undefined }
  const { key, path, created } = await loadOrCreateApiKey(config.dataDir)
  logger.info(
    { path },
    created ? 'made a new gRPC API key: read it from this file' : 'the gRPC API key stands in this file',
  )
  return { key, path }
}

function registerGauges(metrics: ServiceMetrics, engine: Engine, store: Store): void {
  metrics.gauge('vicinal_points', 'Live points.', () => engine.stats.points)
  metrics.gauge(
    'vicinal_dimension',
    'Length of every vector; 0 until the first insert.',
    () => engine.stats.dimension,
  )
  metrics.gauge(
    'vicinal_sequence',
    'Sequence number of the last durable change.',
    () => engine.stats.sequence,
  )
  metrics.gauge('vicinal_index_segments', 'Memory segments of the index.', () => engine.stats.segments)
  metrics.gauge(
    'vicinal_index_memory_bytes',
    'Memory that the index has reserved for vectors.',
    () => engine.stats.indexBytes,
  )
  metrics.gauge('vicinal_id_table_memory_bytes', 'Memory of the id table.', () => engine.stats.idTableBytes)
  metrics.gauge(
    'vicinal_index_waiting_points',
    'Points that are stored and not yet linked into the index: every search scans them.',
    () => engine.stats.unindexed,
  )
  metrics.gauge(
    'vicinal_index_tombstones',
    'Removed points whose links are not repaired yet.',
    () => engine.stats.tombstones,
  )
  const plans = (): [string, MetricPlan][] => Object.entries(engine.stats.plans)
  metrics.gauges(
    'vicinal_index_recall',
    'Share of the ten nearest that a search at the default ef found, measured on stored points.',
    'metric',
    () => plans().map(([metric, { recall }]) => [metric, recall]),
  )
  metrics.gauges(
    'vicinal_index_widening',
    'How many times the asked-for ef a search uses to reach the recall target; 0 for the exact scan.',
    'metric',
    () => plans().map(([metric, { route }]) => [metric, route?.widening ?? 0]),
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
  metrics.gauge('vicinal_disk_bytes', 'Bytes of the stored data on disk.', () => store.diskBytes)
}
