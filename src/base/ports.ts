import { lookup } from 'node:dns/promises'
import { BlockList } from 'node:net'

const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8)
loopback.addAddress('::1', 'ipv6')

/**
 * Whether all addresses of a host are loopback addresses.
 *
 * @param host an address or a name
 * @throws the errors of `lookup`
 */
export async function isLoopback(host: string): Promise<boolean> {
  const found = await lookup(host, { all: true })
  return found.every(({ address, family }) => loopback.check(address, family === 6 ? 'ipv6' : 'ipv4'))
}
