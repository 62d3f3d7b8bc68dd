import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:net'

/**
 * Ports for servers that must know their port before they start. All other servers listen on port 0.
 *
 * Once a port chosen by `listen(0)` is closed, the system can assign it to any connection or server of another test.
 * Therefore these ports are below the range that systems choose from, and this process claims each with a UDP socket of
 * the same number. The socket does not affect TCP servers, no other process can open a second one, and it closes with
 * the process.
 */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = []
  while (ports.length < count) ports.push(await freePort())
  return ports
}

/** A port that nothing listens on and that no other test gets. */
export async function freePort(): Promise<number> {
  const start = Math.floor(Math.random() * portCount)
  for (let offset = 0; offset < portCount; offset += 1) {
    const port = firstPort + ((start + offset) % portCount)
    if ((await isClaimed(port)) && (await isClosed(port))) return port
  }
  throw new Error(`no port from ${firstPort} to ${firstPort + portCount - 1} is free`)
}

/** Linux chooses from 32768 up, other systems from 49152 up. */
const firstPort = 20_000
const portCount = 12_000

/** Tries to claim the port. Returns false if a process, maybe this one, has already claimed it. */
async function isClaimed(port: number): Promise<boolean> {
  const claim = createSocket('udp4').unref()
  try {
    claim.bind({ port, address: '127.0.0.1', exclusive: true })
    await once(claim, 'listening')
    return true
  } catch {
    // Another process has claimed it: the caller tries the next port.
    claim.close()
    return false
  }
}

async function isClosed(port: number): Promise<boolean> {
  const server = createServer()
  try {
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
  } catch {
    // Another program's server uses it: the caller tries the next port.
    return false
  }
  server.close()
  await once(server, 'close')
  return true
}
