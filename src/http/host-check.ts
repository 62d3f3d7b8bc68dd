import { isIP } from 'node:net'

/**
 * Which names a server may be called by. A web page can let its own name resolve to 127.0.0.1 (DNS rebinding): the
 * browser then treats an open server on this machine as part of that page and lets the page read answers. The page
 * cannot change the Host header, which keeps the page's name.
 *
 * So a server on loopback without a key answers to addresses, to names that nobody can register (localhost,
 * those without a dot, those under `.localhost` and `.internal`) and to `allowedHosts`. A server on another address
 * serves other machines, under names we do not know; and no web page knows a server's key.
 *
 * @returns whether a request with this Host header may be answered; HTTP/1.0, which browsers do not speak, has none
 */
export function createHostCheck(options: {
  /** Whether only this machine reaches the server. */
  readonly isLocal: boolean
  readonly hasKeys: boolean
  readonly allowedHosts: readonly string[]
}): (header: string | undefined) => boolean {
  if (options.hasKeys || !options.isLocal) return () => true
  const allowed = new Set(options.allowedHosts.map((name) => name.toLowerCase()))
  return (header) => {
    if (header === undefined) return true
    const name = nameOf(header)
    return isIP(name) !== 0 || isReserved(name) || allowed.has(name)
  }
}

/** Without port, brackets and the dot that a complete name may end with. */
function nameOf(header: string): string {
  const name = header.trim().toLowerCase().replace(/:\d*$/, '')
  return name.startsWith('[') ? name.slice(1, -1) : name.replace(/\.$/, '')
}

function isReserved(name: string): boolean {
  return !name.includes('.') || /\.(localhost|internal)$/.test(name)
}
