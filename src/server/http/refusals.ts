import type { IncomingHttpHeaders } from 'node:http'
import { isIP } from 'node:net'
import cors from '@fastify/cors'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { refusalOf } from '../../api/key-rights.ts'
import { DatabaseError, reasonHeader } from '../../base/errors.ts'
import { consistencyHeader, positionHeader } from '../../base/request-headers.ts'
import { collectionPrefix } from '../../messages/http-paths.ts'
import type { HttpServerOptions } from '../listener.ts'
import { sendError } from './answers.ts'
import type { Connections } from './connections.ts'
import { strictHeader } from './json-objects.ts'
import { offeredBy } from './operations.ts'
import { consolePath, isConsole } from './pages.ts'
import { pathsOf, routes } from './routes.ts'

/** Refuses requests on any route for reasons that are evident from their head, before the body is read. */
export function refuseRequests(
  app: FastifyInstance,
  options: HttpServerOptions & { readonly isLocal: boolean; readonly connections: Connections },
  closing: AbortSignal,
): void {
  const { keys, readScheduler, connections, refusedKeys } = options
  const offered = offeredBy(options)
  const isHost = createHostCheck({ ...options, hasKeys: keys !== undefined })
  const isOwnPage = createOriginCheck({ ...options, hasKeys: keys !== undefined })
  app.decorateRequest('apiKey', undefined)
  app.decorateRequest('isAudited', false)
  app.addHook('onRequest', async (request, reply) => {
    connections.begin(request.raw.socket, reply.raw)
    if (closing.aborted) {
      await connections.stopped
      throw new DatabaseError('shutting_down', 'the server is shutting down')
    }
    checkHostHeader(request)
    const isGuarded = !isOpen(request.routeOptions.url ?? '')
    // Health checks are never paused: they are cheap and do not delay others.
    if (isGuarded) {
      readScheduler.throttle(request.raw.socket)
      readScheduler.noteWork()
    } else {
      readScheduler.exempt(request.raw.socket)
    }
    if (isGuarded && !isHost(request.headers.host)) throw misdirected()
    if (isGuarded && !isOwnPage(request.method, request.headers)) throw foreignPage()
    const key = isGuarded ? keys?.find(request.headers.authorization) : undefined
    if (isGuarded && keys !== undefined && key === undefined) {
      refusedKeys.add('http', request.ip)
      reply.header('www-authenticate', 'Bearer')
      throw new DatabaseError(
        'unauthenticated',
        'missing or invalid API key: send it as the authorization header',
      )
    }
    request.apiKey = key
    if (request.is404) throw notRouted(request, reply, offered)
    const { role = 'write', within } = request.routeOptions.config
    const refusal = refusalOf(key, `${request.method} ${shown(pathOf(request))}`, { role, within })
    if (refusal !== undefined) throw refusal
  })
  // Not while a body is still arriving: the connection would be reset, and the answer could be lost.
  app.addHook('onSend', (request, reply, _payload, done) => {
    const { socket, complete, httpVersionMajor } = request.raw
    if (closing.aborted || connections.isLeaving(socket)) {
      if (httpVersionMajor === 2) connections.endSession(socket)
      else if (complete) reply.header('connection', 'close')
    }
    done()
  })
  app.setNotFoundHandler((request, reply) => sendError(reply, notRouted(request, reply, offered)))
  // These paths are not ids, although the pattern of an id matches them.
  for (const path of pathsLikeIds().flatMap((each) => [each, collectionPrefix + each])) {
    app.route({
      method: ['GET', 'PUT', 'PATCH', 'DELETE'],
      url: path,
      config: { role: 'read', within: 'filter' },
      handler: (_request, reply) => reply.callNotFound(),
    })
  }
}

/**
 * Node keeps the first of several Host headers, and a proxy in front may have decided by another one. In HTTP/2, the host
 * is a field of its own, and a header must say the same.
 */
function checkHostHeader({ raw }: FastifyRequest): void {
  const { host, ':authority': authority = host } = raw.headers
  if (host === undefined && raw.httpVersion !== '1.0') {
    throw new DatabaseError('invalid_argument', 'the host header is missing')
  }
  let hosts = 0
  for (let at = 0; at < raw.rawHeaders.length; at += 2) {
    const name = raw.rawHeaders[at]!
    if (name.length === 4 && name.toLowerCase() === 'host') hosts += 1
  }
  if (hosts > 1) throw new DatabaseError('invalid_argument', 'the host header is there more than once')
  if (host !== authority) {
    const [one, other] = [shown(`${host}`), shown(`${authority}`)]
    throw new DatabaseError('invalid_argument', `the host header is ${one}, but :authority is ${other}`)
  }
}

/** The paths directly below `/points`, like `/points/search`. */
function pathsLikeIds(): string[] {
  return Object.values(routes)
    .map(({ path }) => path)
    .filter((path) => /^\/points\/\w+$/.test(path))
}

function misdirected(): DatabaseError {
  return new DatabaseError(
    'misdirected',
    'without HTTP_API_KEY this server only answers to addresses and localhost: add the origins of other host names to CORS_ORIGINS',
  )
}

function foreignPage(): DatabaseError {
  return new DatabaseError(
    'permission_denied',
    'without HTTP_API_KEY this server only accepts requests of its own web pages: add other origins to CORS_ORIGINS',
  )
}

/** Routes that never need a key. */
function isOpen(route: string): boolean {
  return openPages.includes(route) || route.startsWith('/docs/') || isConsole(route)
}

const openPages: readonly string[] = ['/', '/health', '/readyz', '/docs', '/docs/openapi.yaml', consolePath]

/** The error for a request without a route: 405 if the path has other methods, 404 otherwise. */
function notRouted(request: FastifyRequest, reply: FastifyReply, offered: Offered): DatabaseError {
  const path = pathOf(request)
  const allowed = methodsOf(path, offered)
  if (allowed.length === 0) return new DatabaseError('route_not_found', `no such path: ${shown(path)}`)
  reply.header('allow', allowed.join(', '))
  const message = `${request.method} is not allowed on ${shown(path)}, only ${allowed.join(', ')}`
  return new DatabaseError('method_not_allowed', message)
}

function pathOf({ url }: FastifyRequest): string {
  return url.split('?')[0]!
}

type Offered = ReturnType<typeof offeredBy>

function methodsOf(path: string, offered: Offered): string[] {
  const all = offered.flatMap((name) => pathsOf(name).map((path) => ({ path, method: routes[name].method })))
  // `/points/search` is not an id, although the pattern of an id matches it.
  const names = (route: { readonly path: string }): number => route.path.split(':').length
  const matching = all.filter((route) => pattern(route.path).test(path))
  const fewest = Math.min(...matching.map(names))
  const found = matching.filter((route) => names(route) === fewest)
  if (found.length > 0) return found.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method]))
  return openPages.includes(path) || path === '/metrics' ? ['GET', 'HEAD'] : []
}

function pattern(path: string): RegExp {
  return new RegExp(`^${path.replace(/:\w+/g, '[^/]+')}$`)
}

/** A path or a host for a message: truncated if it is long. */
function shown(text: string): string {
  return text.length > 100 ? `${text.slice(0, 100)}…` : text
}

/**
 * Creates a check of the names by which clients may call a server. A web page can make its own name resolve to
 * 127.0.0.1 (DNS rebinding). The browser then treats an open server on this machine as part of that page, and lets the
 * page read answers. The page cannot change the Host header, which keeps the page's name.
 *
 * So a server on loopback without a key accepts addresses, names that nobody can register (localhost, names without a
 * dot, names under `.localhost` and `.internal`) and those of `corsOrigins`. A server on another address serves other machines,
 * under names that we do not know; and no web page knows a server's key.
 *
 * @returns whether a request with this Host header may be answered; HTTP/1.0, which browsers do not speak, has none
 */
export function createHostCheck(options: {
  /** Whether only this machine can reach the server. */
  readonly isLocal: boolean
  readonly hasKeys: boolean
  readonly corsOrigins: readonly string[]
}): (header: string | undefined) => boolean {
  if (options.hasKeys || !options.isLocal) return () => true
  const allowed = new Set(options.corsOrigins.map((origin) => nameOf(new URL(origin).host)))
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

/**
 * Allows pages of other origins to call the service from a browser. Without origins, no answer has CORS headers, and
 * browsers refuse such calls: before they send a body or a key, they send a preflight request, which fails.
 *
 * Registered before the check of keys, because preflight requests have no key.
 */
export async function allowOrigins(app: FastifyInstance, origins: readonly string[]): Promise<void> {
  if (origins.length === 0) return
  await app.register(cors, {
    origin: [...origins],
    methods: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'],
    allowedHeaders: [
      'content-type',
      'authorization',
      'idempotency-key',
      'if-match',
      strictHeader,
      consistencyHeader,
      positionHeader,
    ],
    exposedHeaders: [
      'vicinal-ignored-fields',
      'vicinal-sequence',
      'vicinal-points',
      'retry-after',
      'allow',
      positionHeader,
      reasonHeader,
    ],
    maxAge: maxAgeSeconds,
  })
}

/** How long a browser caches a preflight answer. Chromium caps it at two hours, Safari at ten minutes. */
const maxAgeSeconds = 600
