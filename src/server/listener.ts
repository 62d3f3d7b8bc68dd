import { lookup } from 'node:dns/promises'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import { promisify } from 'node:util'
import type { Protocol, ServerCertificate } from './certificate.ts'

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
