import type { IncomingHttpHeaders } from 'node:http'

/**
 * Creates a check of the web pages that may send a request to an open server. A browser sends some requests of any page
 * without asking the server before, for example a POST without a body, or a GET for an image. The page cannot read the
 * answer, but it would have started a snapshot, drained a node, or kept the search threads busy with a map. A server
 * with keys needs no check, because such a page knows no key.
 *
 * Browsers state where a request comes from, in headers that a page cannot change: `origin` in all requests except GET
 * and HEAD, and `sec-fetch-site`, unless the server is reached over plain HTTP under a name other than localhost. Other
 * clients send neither header. So a link on another page to anything but the console and the docs is refused, too.
 *
 * @returns whether the request may be answered
 */
export function createOriginCheck(options: {
  readonly hasKeys: boolean
  readonly corsOrigins: readonly string[]
}): (method: string, headers: IncomingHttpHeaders) => boolean {
  if (options.hasKeys) return () => true
  const allowed = new Set(options.corsOrigins)
  return (method, headers) => {
    // This is how a browser asks for permission.
    if (method === 'OPTIONS') return true
    const { origin, host, 'sec-fetch-site': site } = headers
    if (origin !== undefined && allowed.has(origin)) return true
    // `none` is a request of the user, not of a page.
    if (site !== undefined) return site === 'same-origin' || site === 'none'
    return origin === undefined || (host !== undefined && hostOf(origin) === host.toLowerCase())
  }
}

/** Returns the host with the port of an origin; undefined for `null`, the origin of pages in a sandbox. */
function hostOf(origin: string): string | undefined {
  return URL.parse(origin)?.host
}
