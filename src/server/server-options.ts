import type { ApiContext } from '../api/call.ts'
import type { Keyring, RefusedKeys } from '../base/api-key.ts'
import type { BodyBudgets } from '../base/budgets.ts'
import type { Logger } from '../base/log.ts'
import type { ServiceMetrics } from '../base/metrics.ts'
import type { ServerCertificate } from './certificate.ts'
import type { ReadScheduler } from './read-scheduler.ts'

/** What both servers need. */
export interface ServerOptions {
  readonly context: ApiContext
  readonly host: string
  readonly port: number
  /** Whether other threads listen on the same port. */
  readonly reusePort?: boolean
  /** With one, the port speaks TLS. */
  readonly certificate?: ServerCertificate | undefined
  readonly maxRequestBytes: number
  /** Time a client has to send a whole request, and to receive a whole answer. */
  readonly requestTimeoutMs: number
  readonly budgets: BodyBudgets
  readonly readScheduler: ReadScheduler
  readonly refusedKeys: RefusedKeys
  readonly metrics: ServiceMetrics
  readonly logger: Logger
}

export interface HttpServerOptions extends ServerOptions {
  /**
   * A key of these is required on all pages except health, readiness, the start page, the docs and the console.
   * Undefined leaves HTTP open.
   */
  readonly keys: Keyring | undefined
  /** Origins of web pages that may call this server from a browser; an open server on loopback has their names. */
  readonly corsOrigins: readonly string[]
  readonly console: ConsoleOptions
  /**
   * Returns what is amiss although the service is ready.
   *
   * @throws DatabaseError `not_ready`
   */
  readonly readiness: () => readonly string[] | Promise<readonly string[]>
}

export interface ConsoleOptions {
  /** Origins of images, in addition to the service and the payloads themselves. */
  readonly imageOrigins: readonly string[]
  /** The port in the gRPC queries that the console shows. */
  readonly grpcPort: number
}
