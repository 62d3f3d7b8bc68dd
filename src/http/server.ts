import { readFileSync } from 'node:fs'
import { type AddressInfo, Server as NetServer, type Socket } from 'node:net'
import { dirname } from 'node:path'
import { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import {
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  fastify,
} from 'fastify'
import { allows, operationRoles, permissionDenied } from '../api/access.ts'
import { type ApiContext, type Call, httpFields } from '../api/call.ts'
import {
  type OperationName,
  type OperationTypes,
  operationNames,
  pointOperations,
} from '../api/operations.ts'
import { type OperationRunner, runOperation } from '../api/run-operation.ts'
import type { RunningServer } from '../api/server.ts'
import type { SlowRequests } from '../api/slow-requests.ts'
import type { Keyring, Role } from '../base/api-key.ts'
import type { BodyBudgets } from '../base/byte-budget.ts'
import { consistencyHeader, positionHeader } from '../base/consistency.ts'
import { DatabaseError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import type { ServiceMetrics } from '../base/metrics.ts'
import { missingText, partialHeader } from '../base/partial-reads.ts'
import { isLoopback } from '../base/ports.ts'
import type { ReadScheduler } from '../base/read-scheduler.ts'
import type { RefusedKeys } from '../base/refused-keys.ts'
import type { SettingInfo } from '../base/setting-info.ts'
import { type WritesBlocked, writesBlockedTexts } from '../base/writes-blocked.ts'
import { cutSlowReader, holdAnswer, RequestBody, readBody, refuseAndClose } from './bodies.ts'
import { addCluster, type ClusterPages, clusterPaths } from './cluster.ts'
import { Connections } from './connections.ts'
import { addConsole, type ConsoleOptions, consolePath, isConsole } from './console.ts'
import { allowOrigins } from './cors.ts'
import { errorOfFramework, headOf, plainText, sendError } from './errors.ts'
import { createHostCheck } from './host-check.ts'
import type { FieldNotes } from './ignored-fields.ts'
import { addInspection, inspectionPaths } from './inspection.ts'
import type { JsonAnswer } from './json-answers.ts'
import { addMap, mapPaths } from './map.ts'
import { collectionPrefix, type PathParts, type Route, routes } from './routes.ts'
import { addSnapshots, snapshotPaths } from './snapshots.ts'
import { answerBelowFramework, refuseMalformed, socketOptions } from './sockets.ts'

export interface HttpServerOptions {
  readonly context: ApiContext
  readonly host: string
  readonly port: number
  /** Required on everything except health, readiness, the start page, the docs and the console; undefined leaves HTTP open. */
  readonly keys: Keyring | undefined
  /** Further host names by which an open server on loopback may be called. */
  readonly allowedHosts: readonly string[]
  /** Origins of web pages that may call this server from a browser. */
  readonly corsOrigins: readonly string[]
  readonly console: ConsoleOptions
  readonly maxRequestBytes: number
  /** Time a client has to send a whole request, and to receive a whole answer. */
  readonly requestTimeoutMs: number
  readonly budgets: BodyBudgets
  readonly readScheduler: ReadScheduler
  readonly refusedKeys: RefusedKeys
  readonly slowRequests: SlowRequests
  /** The settings in force, for people. */
  readonly settings: readonly SettingInfo[]
  readonly metrics: ServiceMetrics
  readonly logger: Logger
  readonly isReady: () => boolean
  readonly writesBlocked: () => WritesBlocked | undefined
  /** Undefined for a node by itself. */
  readonly cluster?: ClusterPages | undefined
}

const openApiPath = fileURLToPath(new URL('./openapi.yaml', import.meta.url))
const openApiText = readFileSync(openApiPath, 'utf8')

/**
 * Serves the operations over HTTP/JSON, with health, readiness, metrics, the docs and the console.
 *
 *   request ─> key ─> route ─> content type, size, memory ─> JSON ─> operation ─> answer
 *               │       │        │                           │         └ the reason's status
 *               │       │        └ 415, 413, 429             └ 400
 *               │       └ 404, 405
 *               └ 401, 403, 421
 *
 * Every error, the framework's own included, is plain text.
 *
 * @throws Error that names host, port and setting when it cannot listen
 */
export async function startHttpServer(options: HttpServerOptions): Promise<RunningServer> {
  const app = fastify({
    requestTimeout: options.requestTimeoutMs,
    http: socketOptions(options.requestTimeoutMs),
    keepAliveTimeout: 65_000,
    forceCloseConnections: 'idle',
    logger: false,
    exposeHeadRoutes: true,
    // The framework would answer with JSON: `refuseRequests` does it in plain text.
    return503OnClosing: false,
    routerOptions: { maxParamLength: 4096, ignoreTrailingSlash: false },
    clientErrorHandler: refuseMalformed,
    frameworkErrors: (error, _request, reply) => sendError(reply, errorOfFramework(error, options.logger)),
  })
  app.setErrorHandler((error: FastifyError, request, reply) => {
    // The framework closes the connection after some errors; Node reads the rest of a body, so it can stay open.
    if (reply.hasHeader('connection')) reply.removeHeader('connection')
    const ours = errorOfFramework(error, options.logger)
    const isOver = ours.reason === 'overloaded' || ours.reason === 'shutting_down'
    if (!isOver || request.raw.complete) return sendError(reply, ours)
    reply.hijack()
    refuseAndClose(request.raw, reply.raw, { ...headOf(ours), text: ours.message })
    return undefined
  })
  answerBelowFramework(app.server)
  const connections = new Connections()
  app.server.on('connection', (socket: Socket) => {
    options.readScheduler.track(socket)
    connections.add(socket)
  })
  acceptJson(app, options)
  cutSlowReaders(app, options.requestTimeoutMs)
  nameIgnoredFields(app)
  const closing = new AbortController()
  const isLocal = await isLocalHost(options.host)
  await allowOrigins(app, options.corsOrigins)
  refuseRequests(app, { ...options, isLocal, connections }, closing.signal)
  addOperations(app, options)
  addSnapshots(app, options)
  addMap(app, options)
  addInspection(app, options)
  addPages(app, options)
  if (options.cluster !== undefined) addCluster(app, options.cluster, options)
  await addDocs(app)
  await addConsole(app, options.console)
  await listen(app, options)
  const { port } = app.server.address() as AddressInfo
  return {
    host: options.host,
    port,
    async close(timeoutMs) {
      closing.abort()
      // The server's own `close` also closes idle connections, on which a request may be arriving.
      await connections.drain(timeoutMs, () => NetServer.prototype.close.call(app.server))
      await app.close()
    },
  }
}

async function isLocalHost(host: string): Promise<boolean> {
  // If the host has no address, listening fails and reports it.
  return isLoopback(host).catch(() => false)
}

/** Passes bodies on as bytes: an empty one is valid where none is needed, and the decoder checks UTF-8. */
function acceptJson(app: FastifyInstance, { maxRequestBytes, budgets }: HttpServerOptions): void {
  const bounds = { maxRequestBytes, requestBytes: budgets.requests }
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(/^application\/json\s*(;|$)/i, async ({ headers, raw }: FastifyRequest) => {
    const charset = /charset\s*=\s*"?([^\s;"]+)/i.exec(headers['content-type'] ?? '')?.[1]
    if (charset === undefined || /^utf-?8$/i.test(charset)) return await readBody(raw, bounds)
    throw new DatabaseError('unsupported_media_type', `charset ${charset} is not supported: send UTF-8`)
  })
  app.addHook('preHandler', (request, { raw }, done) => {
    const { body } = request
    if (body instanceof RequestBody) {
      if (raw.closed) body.release()
      else raw.once('close', () => body.release())
    }
    done()
  })
}

/** Except for snapshots, which have any length and a timeout of their own. */
function cutSlowReaders(app: FastifyInstance, timeoutMs: number): void {
  app.addHook('onSend', (_request, reply, payload, done) => {
    if (!(payload instanceof Readable)) cutSlowReader(reply.raw, timeoutMs)
    done()
  })
}

declare module 'fastify' {
  interface FastifyReply extends FieldNotes {}
  interface FastifyContextConfig {
    /** The role that the route needs; `write` if absent. */
    role?: Role
  }
}

/** Adds the names of ignored fields to every answer, errors included. */
function nameIgnoredFields(app: FastifyInstance): void {
  app.decorateReply('ignoredFields', undefined)
  app.addHook('onSend', (_request, reply, _payload, done) => {
    if (reply.ignoredFields !== undefined) {
      reply.header('vicinal-ignored-fields', reply.ignoredFields.toString())
    }
    done()
  })
}

/** Refuses requests, on any route, for reasons that their head alone shows: before the body is read. */
function refuseRequests(
  app: FastifyInstance,
  options: HttpServerOptions & { readonly isLocal: boolean; readonly connections: Connections },
  closing: AbortSignal,
): void {
  const { keys, readScheduler, connections, refusedKeys } = options
  const paths = options.cluster === undefined ? {} : clusterPaths
  const isHost = createHostCheck({ ...options, hasKeys: keys !== undefined })
  app.addHook('onRequest', async (request, reply) => {
    connections.begin(request.raw.socket, reply.raw)
    if (closing.aborted) {
      await connections.stopped
      throw new DatabaseError('shutting_down', 'the server is shutting down')
    }
    if (request.headers.host === undefined && request.raw.httpVersion === '1.1') {
      throw new DatabaseError('invalid_argument', 'the host header is missing')
    }
    const isGuarded = !isOpen(request.routeOptions.url ?? '')
    // Health checks are never paused: they are cheap and do not delay others.
    if (isGuarded) {
      readScheduler.throttle(request.raw.socket)
      readScheduler.noteWork()
    } else {
      readScheduler.exempt(request.raw.socket)
    }
    if (isGuarded && !isHost(request.headers.host)) throw misdirected()
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
  // Not while the rest of a body is arriving: the connection would be reset, and the answer could be lost.
  app.addHook('onSend', (request, reply, _payload, done) => {
    if (closing.aborted && request.raw.complete) reply.header('connection', 'close')
    done()
  })
  app.setNotFoundHandler((request, reply) => sendError(reply, notRouted(request, reply, paths)))
  // These are not ids, although the pattern of an id matches them.
  for (const path of pathsLikeIds().flatMap((each) => [each, collectionPrefix + each])) {
    app.route({
      method: ['GET', 'PUT', 'PATCH', 'DELETE'],
      url: path,
      config: { role: 'read' },
      handler: (_request, reply) => reply.callNotFound(),
    })
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
    'without HTTP_API_KEY this server answers to addresses and localhost alone: name further hosts in ALLOWED_HOSTS',
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
  if (mapPaths.some((each) => pattern(each).test(path))) return ['GET']
  for (const [each, methods] of Object.entries(paths)) if (pattern(each).test(path)) return [...methods]
  const isPage = openPages.includes(path) || path === '/metrics'
  return isPage || inspectionPaths.some((each) => pattern(each).test(path)) ? ['GET', 'HEAD'] : []
}

function pattern(path: string): RegExp {
  return new RegExp(`^${path.replace(/:\w+/g, '[^/]+')}$`)
}

/** A path as messages show it: cut if it is long. */
function shown(path: string): string {
  return path.length > 100 ? `${path.slice(0, 100)}…` : path
}

function addOperations(app: FastifyInstance, options: HttpServerOptions): void {
  const runner: HttpRunner = { ...options, transport: 'http' }
  for (const name of operationNames) {
    for (const url of pathsOf(name)) {
      app.route({
        method: routes[name].method,
        url,
        config: { role: operationRoles[name] },
        handler: (request, reply) => answer(runner, name, request, reply),
      })
    }
  }
}

/** An operation on points has two paths: its own for the default collection, and one below a named collection. */
function pathsOf(name: OperationName): readonly string[] {
  const { path } = routes[name]
  return pointOperations.includes(name) ? [path, collectionPrefix + path] : [path]
}

interface HttpRunner extends OperationRunner {
  readonly budgets: BodyBudgets
}

async function answer<Name extends OperationName>(
  runner: HttpRunner,
  name: Name,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { method, status, decode, encode }: Route<Name> = routes[name]
  const parts = request.params as PathParts
  const codec = {
    decode: () =>
      decode(
        method === 'GET' || method === 'DELETE' ? noBody : bodyOf(request),
        reply,
        parts,
        request.headers['if-match'],
      ),
    async encode(output: OperationTypes[Name]['output']): Promise<JsonAnswer | undefined> {
      reply.code(typeof status === 'number' ? status : status(output))
      const json = await encode(output)
      if (json !== undefined) holdAnswer(reply.raw, json.length, runner.budgets.answers)
      return json
    },
  }
  const { cluster } = runner.context
  let json: JsonAnswer | undefined
  try {
    json = await runOperation(runner, name, codec, callOf(request, reply, parts))
  } finally {
    // A refusal tells its caller something of the points, too.
    if (cluster !== undefined) reply.header(positionHeader, String(cluster.answeredPosition))
  }
  return json === undefined ? reply.send() : reply.type('application/json; charset=utf-8').send(json)
}

function bodyOf({ method, headers, body }: FastifyRequest): Buffer {
  // A PUT may have no body: its path says enough.
  if (method === 'PUT' && body === undefined) return noBody
  if (headers['content-type'] === undefined) {
    throw new DatabaseError('unsupported_media_type', 'content-type is missing, it must be application/json')
  }
  return body instanceof RequestBody ? body.take() : noBody
}

const noBody = Buffer.alloc(0)

/** A call as the operations see it. If the response closes before it has ended, the caller has gone. */
function callOf(
  { body, headers, query }: FastifyRequest,
  reply: FastifyReply,
  { collection }: PathParts,
): Call {
  const controller = new AbortController()
  const { raw } = reply
  raw.once('close', () => {
    if (!raw.writableEnded) controller.abort(new DatabaseError('cancelled', 'the caller has gone'))
  })
  const call: Call = {
    fields: httpFields,
    collection,
    // Node joins repeated headers with a comma, as HTTP specifies.
    idempotencyKey: headers['idempotency-key'] as string | undefined,
    // A repeated parameter is a list, which no operation takes for a value.
    version: (query as Readonly<Record<string, unknown>>).version?.toString(),
    consistency: headers[consistencyHeader] as string | undefined,
    position: headers[positionHeader] as string | undefined,
    partial: headers[partialHeader] as string | undefined,
    onPartial: (missing) => reply.header(partialHeader, missingText(missing)),
    signal: controller.signal,
  }
  return body instanceof RequestBody ? { ...call, decoded: () => body.release() } : call
}

function addPages(
  app: FastifyInstance,
  { metrics, isReady, writesBlocked, cluster }: HttpServerOptions,
): void {
  app.get('/health', (_request, reply) => reply.type(plainText).send('OK'))
  app.get('/', (_request, reply) =>
    reply
      .type(plainText)
      .send('The Vicinal vector database server is running. The API is described at /docs\n'),
  )
  app.get('/readyz', (_request, reply) => {
    const waitsFor = cluster?.notReady()
    if (!isReady() && waitsFor === undefined) {
      throw new DatabaseError('not_ready', 'the stored points are still loading')
    }
    if (waitsFor !== undefined) throw new DatabaseError('not_ready', waitsFor)
    // Still 200: a service that is taken out of rotation would not answer searches either.
    const blocked = writesBlocked()
    return reply
      .type(plainText)
      .send(blocked === undefined ? 'ready' : `ready, but ${writesBlockedTexts[blocked]}`)
  })
  app.get('/metrics', { config: { role: 'read' } }, async (_request, reply) => {
    const { contentType, text } = await metrics.expose()
    return reply.type(contentType).send(text)
  })
}

/**
 * The page loads nothing from other hosts and cannot be framed. The default policy would also make browsers replace
 * http by https, so that the page would stay empty on every host but localhost.
 */
const contentSecurityPolicy =
  "default-src 'self'; img-src 'self' data:; font-src 'self' data:; object-src 'none'; base-uri 'self'; frame-ancestors 'none'"

async function addDocs(app: FastifyInstance): Promise<void> {
  app.get('/docs/openapi.yaml', (_request, reply) =>
    reply.type('application/yaml; charset=utf-8').send(openApiText),
  )
  app.addHook('onSend', async (request, reply) => {
    reply.header('x-content-type-options', 'nosniff')
    if (request.url.startsWith('/docs')) {
      reply.header('x-frame-options', 'DENY').header('referrer-policy', 'no-referrer')
    }
  })
  await app.register(swagger, {
    mode: 'static',
    specification: { path: openApiPath, baseDir: dirname(openApiPath) },
  })
  await app.register(swaggerUi, {
    routePrefix: '/docs',
    staticCSP: contentSecurityPolicy,
    theme: { title: 'Vicinal API' },
    uiConfig: { validatorUrl: null, docExpansion: 'list' },
  })
}

async function listen(app: FastifyInstance, { host, port }: HttpServerOptions): Promise<void> {
  try {
    await app.listen({ host, port })
  } catch (error) {
    await app.close()
    throw new Error(`HTTP cannot listen on ${host} port ${port} (HTTP_PORT): ${(error as Error).message}`, {
      cause: error,
    })
  }
}
