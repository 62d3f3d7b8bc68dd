import { lookup } from 'node:dns/promises'
import { once } from 'node:events'
import { BlockList, createServer, type ListenOptions } from 'node:net'

/**
 * How a port is listened on when several threads of this process share it: the system deals connections out to
 * them (SO_REUSEPORT). The first one makes sure that the port is nobody else's.
 */
export type PortSharing = 'first' | 'join'

/** Whether this platform deals connections out to several listeners: Linux does, and some BSDs. */
export async function canSharePorts(): Promise<boolean> {
  try {
    await tryToListen({ port: 0, host: '127.0.0.1', reusePort: true })
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOTSUP') return false
    throw error
  }
}

/**
 * A listener that shares its port shares it with every process of this user that is willing to: with a second
 * service that was started by mistake, too. So before the first of ours listens, the port is tried alone.
 *
 * @throws what listening throws when the port is taken; nothing for port 0, for which the system finds a free one
 */
export async function checkPortIsFree(host: string, port: number): Promise<void> {
  if (port === 0) return
  for (const { address } of await lookup(host, { all: true })) {
    try {
      await tryToListen({ host: address, port })
    } catch (error) {
      // `localhost` is two addresses, and a machine may lack one.
      if (!isNoAddressHere(error as NodeJS.ErrnoException)) throw error
    }
  }
}

const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8)
loopback.addAddress('::1', 'ipv6')

/** Whether a host, an address or a name, is this machine's loopback on every address that it has. @throws what `lookup` throws */
export async function isLoopback(host: string): Promise<boolean> {
  const found = await lookup(host, { all: true })
  return found.every(({ address, family }) => loopback.check(address, family === 6 ? 'ipv6' : 'ipv4'))
}

function isNoAddressHere({ code }: NodeJS.ErrnoException): boolean {
  return code === 'EADDRNOTAVAIL' || code === 'EAFNOSUPPORT'
}

async function tryToListen(options: ListenOptions): Promise<void> {
  const server = createServer()
  server.listen(options)
  await once(server, 'listening')
  server.close()
  await once(server, 'close')
}
