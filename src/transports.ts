import type { ApiContext, RunningServer } from './api/call.ts'
import { Keyring, type RefusedKeys, type ServiceKeys } from './base/api-key.ts'
import type { BodyBudgets } from './base/budgets.ts'
import type { Logger } from './base/log.ts'
import type { ServiceMetrics } from './base/metrics.ts'
import type { Config } from './config.ts'
import { ServerCertificate } from './server/certificate.ts'
import { startGrpcServer } from './server/grpc/server.ts'
import { startHttpServer } from './server/http/server.ts'
import { ReadScheduler } from './server/read-scheduler.ts'

export interface TransportsOptions {
  readonly config: Config
  readonly context: ApiContext
  readonly budgets: BodyBudgets
  readonly metrics: ServiceMetrics
  readonly logger: Logger
  readonly keys: ServiceKeys
  /** See `HttpServerOptions`. */
  readonly readiness: () => readonly string[] | Promise<readonly string[]>
  readonly ports: Ports
  /** Whether other threads listen on the same ports. */
  readonly reusePort?: boolean
  readonly refusedKeys: RefusedKeys
  /** The number of this thread; absent: that of the engine. */
  readonly thread?: number
}

/** Where both transports listen. */
export interface Ports {
  readonly grpc: number
  /** Undefined when HTTP is disabled. */
  readonly http: number | undefined
}

/** Both transports. */
export interface Transports {
  readonly ports: Ports
  /** How many threads serve. */
  readonly threads: number
  /** Sets the gRPC health service's status; NOT_SERVING at first. */
  setServing(serving: boolean): void
  /** Resolves when all threads have these. */
  setKeys(keys: ServiceKeys): Promise<void>
  /** Drains both at the same time. */
  close(timeoutMs: number): Promise<void>
}

/** Both transports on one thread. */
export interface ThreadTransports extends Transports, Pick<RunningServer, 'connections' | 'askToReconnect'> {}

/**
 * Starts both transports.
 *
 * @throws Error that names host, port and setting when one of them cannot listen
 */
export async function startTransports(options: TransportsOptions): Promise<ThreadTransports> {
  const { config, context, budgets, metrics, logger, keys, readiness, ports, refusedKeys } = options
  const servers: RunningServer[] = []
  const certificate = ServerCertificate.in(config.certsDir, logger)
  const close = async (timeoutMs: number): Promise<void> => {
    await Promise.all(servers.map((server) => server.close(timeoutMs)))
    certificate?.close()
  }
  const { maxRequestBytes, requestTimeoutMs } = config
  const readScheduler = new ReadScheduler()
  const grpcKeys = new Keyring(keys.grpc, options.thread)
  const httpKeys = keys.http === undefined ? undefined : new Keyring(keys.http, options.thread)
  registerKeys(metrics, grpcKeys, httpKeys)
  const bounds = {
    maxRequestBytes,
    requestTimeoutMs,
    budgets,
    reusePort: options.reusePort ?? false,
    certificate,
  }
  const shared = { ...bounds, context, readScheduler, refusedKeys, metrics, logger }
  const grpc = await startGrpcServer({
    ...shared,
    keys: grpcKeys,
    host: config.grpcHost,
    port: ports.grpc,
  })
  servers.push(grpc)
  const setServing = (serving: boolean): void => grpc.setServing(serving)
  const setKeys = async (next: ServiceKeys): Promise<void> => {
    grpcKeys.replace(next.grpc)
    httpKeys?.replace(next.http ?? [])
  }
  const on = (ports: Ports): ThreadTransports => ({
    ...{ ports, threads: 1, setServing, setKeys, close },
    get connections() {
      return servers.reduce((sum, { connections }) => sum + connections, 0)
    },
    askToReconnect() {
      for (const server of servers) server.askToReconnect()
    },
  })
  if (ports.http === undefined) return on({ grpc: grpc.port, http: undefined })
  try {
    const http = await startHttpServer({
      ...shared,
      keys: httpKeys,
      corsOrigins: config.corsOrigins,
      console: { imageOrigins: config.consoleImageOrigins, grpcPort: grpc.port },
      host: config.httpHost,
      port: ports.http,
      readiness,
    })
    servers.push(http)
    return on({ grpc: grpc.port, http: http.port })
  } catch (error) {
    await close(0)
    throw error
  }
}

function registerKeys(metrics: ServiceMetrics, grpc: Keyring, http: Keyring | undefined): void {
  metrics.gauges('vicinal_key_calls', 'Calls that each API key has let in since the start.', 'key', () => {
    const calls = new Map(grpc.calls)
    for (const [name, count] of http?.calls ?? []) calls.set(name, (calls.get(name) ?? 0) + count)
    return calls
  })
}
