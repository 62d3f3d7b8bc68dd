import { lookup } from 'node:dns/promises'
import { EventEmitter, once } from 'node:events'
import type { Http2Session, ServerHttp2Stream } from 'node:http2'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import { promisify } from 'node:util'
import type { ApiContext } from '../api/call.ts'
import type { Keyring, RefusedKeys } from '../base/api-key.ts'
import type { BodyBudgets } from '../base/budgets.ts'
import type { Logger } from '../base/log.ts'
import type { ServiceMetrics } from '../base/metrics.ts'
import type { Protocol, ServerCertificate } from './certificate.ts'
import type { ReadScheduler } from './read-scheduler.ts'

/** The connections of both transports: how they are accepted, and what holds for all that speak HTTP/2. */

/** The listening sockets of one port, and the connections that they accepted. */
export interface Listener {
  readonly port: number
  /** The number of open connections. */
  readonly connections: number
  /** Stops accepting connections, and resolves when the open ones have ended. */
  close(): Promise<void>
  /** Destroys the connections that are still open. */
  destroyConnections(): void
}

interface ListenPlace {
  readonly host: string
  /** 0 for any free port, the same on all addresses. */
  readonly port: number
  /** Whether other threads listen on the same port. */
  readonly reusePort: boolean
  /** With one, connections speak TLS. */
  readonly certificate: ServerCertificate | undefined
  /** What connections over TLS may speak. */
  readonly protocols: readonly Protocol[]
  /** Whether a plaintext connection stays open for the answer when the client has closed its end. */
  readonly allowHalfOpen?: boolean
}

/**
 * Listens on every address of a host name: `localhost` has two, and a client may try either first.
 *
 * We open the sockets instead of the libraries. Without channelz, the `forceShutdown` of grpc-js does not know the
 * connections, and one call that never ends would keep the process from ending. The HTTP framework would have a server
 * for each address, and only the first would get a renewed certificate.
 *
 * @throws what `lookup` throws, and the error of the first address on which it cannot listen
 */
export async function listen(place: ListenPlace, onConnection: (socket: Socket) => void): Promise<Listener> {
  const { host, port, reusePort } = place
  const connections = new Set<Socket>()
  const accept = (socket: Socket): void => {
    connections.add(socket)
    socket.once('close', () => connections.delete(socket))
    onConnection(socket)
  }
  const servers: Server[] = []
  const close = async (): Promise<void> => {
    await Promise.all(servers.map((server) => promisify(server.close.bind(server))()))
  }
  let bound = port
  for (const address of await addressesOf(host)) {
    const server = serverWith(place, accept)
    try {
      server.listen({ port: bound, host: address, reusePort })
      await once(server, 'listening')
    } catch (error) {
      if (servers.length > 0 && isElsewhere(error as NodeJS.ErrnoException, port === 0)) continue
      await close()
      throw error
    }
    servers.push(server)
    bound = (server.address() as AddressInfo).port
  }
  return {
    port: bound,
    get connections() {
      return connections.size
    },
    close,
    destroyConnections() {
      for (const socket of connections) socket.destroy()
    },
  }
}

function serverWith(
  { certificate, protocols, allowHalfOpen = false }: ListenPlace,
  accept: (socket: Socket) => void,
): Server {
  if (certificate === undefined) return createServer({ noDelay: true, allowHalfOpen }, accept)
  const server = createTlsServer({ ...certificate.optionsFor(protocols), noDelay: true }, accept)
  certificate.keepCurrent(server)
  // Without a listener, Node destroys the socket all the same.
  server.on('tlsClientError', () => {})
  return server
}

async function addressesOf(host: string): Promise<ReadonlySet<string>> {
  const found = await lookup(host, { all: true })
  return new Set(found.map(({ address }) => address))
}

/** Whether an address can be skipped: the machine does not have it, or the free port is in use there. */
function isElsewhere({ code }: NodeJS.ErrnoException, isFreePort: boolean): boolean {
  return code === 'EADDRNOTAVAIL' || code === 'EAFNOSUPPORT' || (code === 'EADDRINUSE' && isFreePort)
}

/**
 * Enlarges the flow-control windows. With HTTP/2's default of 64 KiB, a batch would wait for the event loop every few
 * dozen vectors. Memory is bounded by the budgets, not by the windows. grpc-js has no option for the windows.
 */
export function openWindows(session: Http2Session | undefined): void {
  if (session === undefined || session.destroyed || opened.has(session)) return
  opened.add(session)
  session.setLocalWindowSize(connectionWindow)
  session.settings({ initialWindowSize: streamWindow })
}

const opened = new WeakSet<Http2Session>()
export const streamWindow: number = 1024 * 1024
export const connectionWindow: number = 8 * streamWindow

/**
 * Detaches a finished stream from its call. V8's minor GCs treat the streams of node:http2 as alive, so only a major GC
 * frees them. Without the detachment, a stream would keep alive what its listeners reference: a call, its request and
 * its answer.
 */
export function detachListeners(this: ServerHttp2Stream): void {
  // The stream itself listens for removals. Once that listener is removed, all others can be removed in one step.
  removeAllListeners.call(this, 'removeListener')
  removeAllListeners.call(this)
  // An error without a listener would end the process.
  on.call(this, 'error', ignore)
}

/** The plain methods: a stream's own versions also update its reading state, but its reading has ended. */
const { removeAllListeners, on } = EventEmitter.prototype

function ignore(): void {}

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
