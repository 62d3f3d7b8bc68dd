import type { ApiContext } from '../api/call.ts'
import type { RunningServer } from '../api/server.ts'
import { type BodyBudgets, createBodyBudgets } from '../base/byte-budget.ts'
import { Intake } from '../base/intake.ts'
import type { Logger } from '../base/log.ts'
import type { ServiceMetrics } from '../base/metrics.ts'
import type { PortSharing } from '../base/ports.ts'
import type { Config } from '../config.ts'
import { startGrpcServer } from '../grpc/server.ts'
import { startHttpServer } from '../http/server.ts'
import type { Ports } from './messages.ts'

export interface TransportsOptions {
  readonly config: Config
  readonly context: ApiContext
  readonly metrics: ServiceMetrics
  readonly logger: Logger
  /** Of the gRPC callers. */
  readonly apiKey: string
  readonly isReady: () => boolean
  readonly ports: Ports
  /** Undefined when the ports are this thread's alone. */
  readonly share?: PortSharing | undefined
}

/** Both transports of one thread. */
export interface Transports {
  readonly ports: Ports
  /** What the gRPC health service answers; not serving until told. */
  setServing(serving: boolean): void
  /** Drains them side by side. */
  close(timeoutMs: number): Promise<void>
}

/** @throws Error that names host, port and setting when one of them cannot listen */
export async function startTransports(options: TransportsOptions): Promise<Transports> {
  const { config, context, metrics, logger, apiKey, isReady, ports, share } = options
  const servers: RunningServer[] = []
  const close = async (timeoutMs: number): Promise<void> => {
    await Promise.all(servers.map((server) => server.close(timeoutMs)))
  }
  const budgets = createBodyBudgets(config, share === undefined ? 1 : config.frontThreads)
  registerBudgets(metrics, budgets)
  const { maxRequestBytes, requestTimeoutMs } = config
  const intake = new Intake()
  const shared = { context, maxRequestBytes, requestTimeoutMs, budgets, intake, metrics, logger, share }
  const grpc = await startGrpcServer({
    ...shared,
    apiKey,
    host: config.grpcHost,
    port: ports.grpc,
    keepaliveMs: config.grpcKeepaliveMs,
  })
  servers.push(grpc)
  const setServing = (serving: boolean): void => grpc.setServing(serving)
  if (ports.http === undefined) return { ports: { grpc: grpc.port, http: undefined }, setServing, close }
  try {
    const http = await startHttpServer({
      ...shared,
      apiKey: config.httpApiKey,
      allowedHosts: config.allowedHosts,
      host: config.httpHost,
      port: ports.http,
      isReady,
    })
    servers.push(http)
    return { ports: { grpc: grpc.port, http: http.port }, setServing, close }
  } catch (error) {
    await close(0)
    throw error
  }
}

function registerBudgets(metrics: ServiceMetrics, { requests, answers }: BodyBudgets): void {
  metrics.gauge(
    'vicinal_buffered_request_bytes',
    'Requests in memory that are arriving, being decoded or searched for.',
    () => requests.usedBytes,
  )
  metrics.gauge(
    'vicinal_buffered_answer_bytes',
    'Answers in memory that clients have not taken in yet.',
    () => answers.usedBytes,
  )
  metrics.gauges(
    'vicinal_refused_bodies',
    'Bodies refused since the start, because too many bytes of them were in memory.',
    'body',
    () => [
      ['request', requests.refusals],
      ['answer', answers.refusals],
    ],
  )
}
