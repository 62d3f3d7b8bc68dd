import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:net'

/**
 * Ports for servers that must know theirs before they start: all others listen on port 0.
 *
 * A port that the system has chosen for `listen(0)` can be given to any connection or server of another test as soon as it is
 * closed. So these are below the ones that systems choose from, and this process claims each by a UDP socket of the same
 * number: it disturbs no TCP server, no other process gets a second one, and it is released with the process.
 */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = []
  while (ports.length < count) ports.push(await freePort())
  return ports
}

/** A port that nobody listens on, and that no other test is given. */
export async function freePort(): Promise<number> {
  const start = Math.floor(Math.random() * portCount)
  for (let offset = 0; offset < portCount; offset += 1) {
    const port = firstPort + ((start + offset) % portCount)
    if ((await isClaimed(port)) && (await isClosed(port))) return port
  }
  throw new Error(`no port from ${firstPort} to ${firstPort + portCount - 1} is free`)
}

/** Linux chooses from 32768 on, and other systems from 49152 on. */
const firstPort = 20_000
const portCount = 12_000

/** Whether the port is claimed for this process now; not if a process, maybe this one, has claimed it before. */
async function isClaimed(port: number): Promise<boolean> {
  const claim = createSocket('udp4').unref()
  try {
    claim.bind({ port, address: '127.0.0.1', exclusive: true })
    await once(claim, 'listening')
    return true
  } catch {
    // Another process has it: the caller tries the next port.
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
    // A server of something else: the caller tries the next port.
    return false
  }
  server.close()
  await once(server, 'close')
  return true
}
