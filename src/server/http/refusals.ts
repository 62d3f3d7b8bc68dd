import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { allows, permissionDenied } from '../../api/access.ts'
import type { OperationName } from '../../api/operations.ts'
import { DatabaseError } from '../../base/errors.ts'
import { clusterPaths } from './cluster.ts'
import type { Connections } from './connections.ts'
import { consolePath, isConsole } from './console.ts'
import { sendError } from './errors.ts'
import { createHostCheck } from './host-check.ts'
import { inspectionPaths } from './inspection.ts'
import { pathsOf } from './operations.ts'
import { createOriginCheck } from './origin-check.ts'
import { collectionPrefix, routes } from './routes.ts'
import type { HttpServerOptions } from './server-options.ts'
import { snapshotPaths } from './snapshots.ts'

/** Refuses requests on any route for reasons that are evident from their head, before the body is read. */
export function refuseRequests(
  app: FastifyInstance,
  options: HttpServerOptions & { readonly isLocal: boolean; readonly connections: Connections },
  closing: AbortSignal,
): void {
  const { keys, readScheduler, connections, refusedKeys } = options
  const paths = options.cluster === undefined ? {} : clusterPaths
  const isHost = createHostCheck({ ...options, hasKeys: keys !== undefined })
  const isOwnPage = createOriginCheck({ ...options, hasKeys: keys !== undefined })
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
    if (request.is404) throw notRouted(request, reply, paths)
    if (key !== undefined && !allows(key, request.routeOptions.config.role ?? 'write')) {
      throw permissionDenied(key, `${request.method} ${shown(pathOf(request))}`)
    }
  })
  // Not while a body is still arriving: the connection would be reset, and the answer could be lost.
  app.addHook('onSend', (request, reply, _payload, done) => {
    if (closing.aborted && request.raw.complete) reply.header('connection', 'close')
    done()
  })
  app.setNotFoundHandler((request, reply) => sendError(reply, notRouted(request, reply, paths)))
  // These paths are not ids, although the pattern of an id matches them.
  for (const path of pathsLikeIds().flatMap((each) => [each, collectionPrefix + each])) {
    app.route({
      method: ['GET', 'PUT', 'PATCH', 'DELETE'],
      url: path,
      config: { role: 'read' },
      handler: (_request, reply) => reply.callNotFound(),
    })
  }
}

/** Node keeps the first of several Host headers, and a proxy in front may have decided by another one. */
function checkHostHeader({ raw }: FastifyRequest): void {
  if (raw.headers.host === undefined && raw.httpVersion === '1.1') {
    throw new DatabaseError('invalid_argument', 'the host header is missing')
  }
  let hosts = 0
  for (let at = 0; at < raw.rawHeaders.length; at += 2) {
    const name = raw.rawHeaders[at]!
    if (name.length === 4 && name.toLowerCase() === 'host') hosts += 1
  }
  if (hosts > 1) throw new DatabaseError('invalid_argument', 'the host header is there more than once')
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
    'without HTTP_API_KEY this server only answers to addresses and localhost: add other host names to ALLOWED_HOSTS',
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
function notRouted(request: FastifyRequest, reply: FastifyReply, paths: MorePaths): DatabaseError {
  const path = pathOf(request)
  const allowed = methodsOf(path, paths)
  if (allowed.length === 0) return new DatabaseError('route_not_found', `no such path: ${shown(path)}`)
  reply.header('allow', allowed.join(', '))
  const message = `${request.method} is not allowed on ${shown(path)}, only ${allowed.join(', ')}`
  return new DatabaseError('method_not_allowed', message)
}

function pathOf({ url }: FastifyRequest): string {
  return url.split('?')[0]!
}

/** Paths that only some servers have, with their methods. */
type MorePaths = Readonly<Record<string, readonly string[]>>

function methodsOf(path: string, paths: MorePaths): string[] {
  const all = (Object.keys(routes) as OperationName[]).flatMap((name) =>
    pathsOf(name).map((path) => ({ path, method: routes[name].method })),
  )
  // `/points/search` is not an id, although the pattern of an id matches it.
  const names = (route: { readonly path: string }): number => route.path.split(':').length
  const matching = all.filter((route) => pattern(route.path).test(path))
  const fewest = Math.min(...matching.map(names))
  const found = matching.filter((route) => names(route) === fewest)
  if (found.length > 0) return found.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method]))
  if (snapshotPaths.some((each) => pattern(each).test(path))) return ['POST']
  for (const [each, methods] of Object.entries(paths)) if (pattern(each).test(path)) return [...methods]
  const isPage = openPages.includes(path) || path === '/metrics'
  return isPage || inspectionPaths.some((each) => pattern(each).test(path)) ? ['GET', 'HEAD'] : []
}

function pattern(path: string): RegExp {
  return new RegExp(`^${path.replace(/:\w+/g, '[^/]+')}$`)
}

/** A path for a message: truncated if it is long. */
function shown(path: string): string {
  return path.length > 100 ? `${path.slice(0, 100)}…` : path
}
