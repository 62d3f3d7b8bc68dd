import { isIP } from 'node:net'

/**
 * Creates a check of the names by which clients may call a server. A web page can make its own name resolve to
 * 127.0.0.1 (DNS rebinding). The browser then treats an open server on this machine as part of that page, and lets the
 * page read answers. The page cannot change the Host header, which keeps the page's name.
 *
 * So a server on loopback without a key accepts addresses, names that nobody can register (localhost, names without a
 * dot, names under `.localhost` and `.internal`) and `allowedHosts`. A server on another address serves other machines,
 * under names that we do not know; and no web page knows a server's key.
 *
 * @returns whether a request with this Host header may be answered; HTTP/1.0, which browsers do not speak, has none
 */
export function createHostCheck(options: {
  /** Whether only this machine can reach the server. */
  readonly isLocal: boolean
  readonly hasKeys: boolean
  readonly allowedHosts: readonly string[]
}): (header: string | undefined) => boolean {
  if (options.hasKeys || !options.isLocal) return () => true
  const allowed = new Set(options.allowedHosts.map((name) => name.toLowerCase()))
  // Nearly all requests have the same header.
  let accepted: string | undefined
  return (header) => {
    if (header === undefined || header === accepted) return true
    const name = nameOf(header)
    const isAllowed = isIP(name) !== 0 || isReserved(name) || allowed.has(name)
    if (isAllowed) accepted = header
    return isAllowed
  }
}

/** Removes the port, the brackets, and the final dot of a fully qualified name. */
function nameOf(header: string): string {
  const name = header.trim().toLowerCase().replace(/:\d*$/, '')
  return name.startsWith('[') ? name.slice(1, -1) : name.replace(/\.$/, '')
}

function isReserved(name: string): boolean {
  return !name.includes('.') || /\.(localhost|internal)$/.test(name)
}
