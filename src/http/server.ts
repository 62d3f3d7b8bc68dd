import { readFileSync } from 'node:fs'
import { maxHeaderSize, STATUS_CODES } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { dirname } from 'node:path'
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
import type { ApiContext, Call } from '../api/call.ts'
import { type OperationName, operationNames } from '../api/operations.ts'
import { type OperationRunner, runOperation } from '../api/run-operation.ts'
import type { RunningServer } from '../api/server.ts'
import { createKeyCheck } from '../base/api-key.ts'
import { DatabaseError, reasons, toDatabaseError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import type { ServiceMetrics } from '../base/metrics.ts'
import { parseJson } from './json-codec.ts'
import { type Route, routes } from './routes.ts'

export interface HttpServerOptions {
  readonly context: ApiContext
  readonly host: string
  readonly port: number
  /** Demanded on everything but health, readiness, the start page and the docs; undefined leaves HTTP open. */
  readonly apiKey: string | undefined
  readonly maxRequestBytes: number
  readonly requestTimeoutMs: number
  readonly metrics: ServiceMetrics
  readonly logger: Logger
  readonly isReady: () => boolean
}

const plainText = 'text/plain; charset=utf-8'
const openApiPath = fileURLToPath(new URL('./openapi.yaml', import.meta.url))
const openApiText = readFileSync(openApiPath, 'utf8')

/**
 * Serves the operations over HTTP/JSON, with health, readiness, metrics and the docs.
 *
 *   request ─> route ─> key ─> size, content type ─> JSON ─> operation ─> answer
 *               │        │        │                    │         └ the reason's status
 *               │        │        └ 413, 415           └ 400
 *               │        └ 401
 *               └ 404, 405
 *
 * Every error, the framework's own included, is plain text.
 *
 * @throws Error that names host, port and setting when it cannot listen
 */
export async function startHttpServer(options: HttpServerOptions): Promise<RunningServer> {
  const app = fastify({
    bodyLimit: options.maxRequestBytes,
    requestTimeout: options.requestTimeoutMs,
    keepAliveTimeout: 65_000,
    forceCloseConnections: 'idle',
    logger: false,
    exposeHeadRoutes: true,
    return503OnClosing: true,
    routerOptions: { maxParamLength: 4096, ignoreTrailingSlash: false },
    clientErrorHandler: refuseMalformed,
    frameworkErrors: (error, _request, reply) => sendError(reply, errorOfFramework(error, options)),
  })
  app.setErrorHandler((error: FastifyError, _request, reply) =>
    sendError(reply, errorOfFramework(error, options)),
  )
  acceptJson(app)
  demandKey(app, options.apiKey)
  addOperations(app, options)
  addPages(app, options)
  await addDocs(app)
  refuseOtherMethods(app)
  await listen(app, options)
  const { port } = app.server.address() as AddressInfo
  return { host: options.host, port, close: (timeoutMs) => close(app, timeoutMs) }
}

/** Bodies arrive as bytes, so that an empty one is no fault where none is needed and UTF-8 is checked. */
function acceptJson(app: FastifyInstance): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(/^application\/json\s*(;|$)/i, { parseAs: 'buffer' }, (request, body, done) => {
    const charset = /charset\s*=\s*"?([^\s;"]+)/i.exec(request.headers['content-type'] ?? '')?.[1]
    if (charset === undefined || /^utf-?8$/i.test(charset)) done(null, body)
    else done(new DatabaseError('unsupported_media_type', `charset ${charset} is not supported: send UTF-8`))
  })
}

/** What is open however HTTP is guarded. */
function isOpen(path: string): boolean {
  return (
    path === '/' || path === '/health' || path === '/readyz' || path === '/docs' || path.startsWith('/docs/')
  )
}

function demandKey(app: FastifyInstance, apiKey: string | undefined): void {
  if (apiKey === undefined) return
  const isKey = createKeyCheck(apiKey)
  app.addHook('onRequest', async (request, reply) => {
    if (isOpen(request.routeOptions.url ?? '') || isKey(request.headers.authorization)) return
    reply.header('www-authenticate', 'Bearer')
    throw new DatabaseError(
      'unauthenticated',
      'missing or invalid API key: send it as the authorization header',
    )
  })
}

function addOperations(app: FastifyInstance, options: HttpServerOptions): void {
  const runner: OperationRunner = { ...options, transport: 'http' }
  for (const name of operationNames) {
    const { method, path } = routes[name]
    app.route({ method, url: path, handler: (request, reply) => answer(runner, name, request, reply) })
  }
}

async function answer<Name extends OperationName>(
  runner: OperationRunner,
  name: Name,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { method, status, decode, encode }: Route<Name> = routes[name]
  const body = method === 'POST' ? parseJson(bodyOf(request)) : undefined
  const { id = '' } = request.params as { id?: string }
  const output = await runOperation(runner, name, decode(body, id), callOf(reply))
  const text = encode(output)
  reply.code(status)
  return text === undefined ? reply.send() : reply.type('application/json; charset=utf-8').send(text)
}

function bodyOf(request: FastifyRequest): Buffer {
  if (request.headers['content-type'] === undefined) {
    throw new DatabaseError('unsupported_media_type', 'content-type is missing, it must be application/json')
  }
  return Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0)
}

/** An answer that closes before it has ended has lost its caller. */
function callOf({ raw }: FastifyReply): Call {
  const controller = new AbortController()
  raw.once('close', () => {
    if (!raw.writableEnded) controller.abort(new DatabaseError('cancelled', 'the caller has gone'))
  })
  return { fields: { queryVector: 'vector' }, signal: controller.signal }
}

function addPages(app: FastifyInstance, { metrics, isReady }: HttpServerOptions): void {
  app.get('/health', (_request, reply) => reply.type(plainText).send('OK'))
  app.get('/', (_request, reply) =>
    reply
      .type(plainText)
      .send('The Vicinal vector database server is running. The API is described at /docs\n'),
  )
  app.get('/readyz', (_request, reply) => {
    if (isReady()) return reply.type(plainText).send('ready')
    throw new DatabaseError('not_ready', 'the stored points are still loading')
  })
  app.get('/metrics', async (_request, reply) => {
    const { contentType, text } = await metrics.expose()
    return reply.type(contentType).send(text)
  })
}

async function addDocs(app: FastifyInstance): Promise<void> {
  app.get('/docs/openapi.yaml', (_request, reply) =>
    reply.type('application/yaml; charset=utf-8').send(openApiText),
  )
  // The page runs scripts of its own and of nobody else.
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
    staticCSP: true,
    uiConfig: { url: '/docs/openapi.yaml', validatorUrl: null, docExpansion: 'list' },
  })
}

/** Whatever no route takes: 405 on a path that others methods have, 404 elsewhere. */
function refuseOtherMethods(app: FastifyInstance): void {
  app.setNotFoundHandler((request, reply) => {
    const path = request.url.split('?')[0]!
    const allowed = methodsOf(path)
    if (allowed.length === 0)
      return sendError(reply, new DatabaseError('route_not_found', `no such path: ${shown(path)}`))
    reply.header('allow', allowed.join(', '))
    const message = `${request.method} is not allowed on ${shown(path)}, only ${allowed.join(', ')}`
    return sendError(reply, new DatabaseError('method_not_allowed', message))
  })
  // These two are no ids, though the pattern of an id would take them.
  for (const path of ['/points/search', '/points/batch']) {
    app.route({ method: ['GET', 'DELETE'], url: path, handler: (_request, reply) => reply.callNotFound() })
  }
}

function methodsOf(path: string): string[] {
  const paths = Object.values(routes)
  const exact = paths.filter((route) => route.path === path)
  const found = exact.length > 0 ? exact : paths.filter((route) => pattern(route.path).test(path))
  if (found.length > 0) return found.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method]))
  return isOpen(path) || path === '/metrics' ? ['GET', 'HEAD'] : []
}

function pattern(path: string): RegExp {
  return new RegExp(`^${path.replace(':id', '[^/]+')}$`)
}

function sendError(reply: FastifyReply, error: DatabaseError): FastifyReply {
  const { http } = reasons[error.reason]
  if (http === 429 || http === 503) reply.header('retry-after', '1')
  return reply.code(http).type(plainText).send(error.message)
}

/** The framework's errors in our words; what neither of us foresaw is internal. */
function errorOfFramework(error: FastifyError | Error, options: HttpServerOptions): DatabaseError {
  if (error instanceof DatabaseError) return error
  const { code } = error as FastifyError
  const invalid = (message: string): DatabaseError => new DatabaseError('invalid_argument', message)
  switch (code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return new DatabaseError(
        'request_too_large',
        `the request body is larger than ${options.maxRequestBytes} bytes (MAX_REQUEST_BYTES)`,
      )
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return new DatabaseError(
        'unsupported_media_type',
        'the content type is not supported: send application/json',
      )
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
      return invalid('the body is not as long as its content-length says')
    case 'FST_ERR_BAD_URL':
    case 'FST_ERR_MAX_PARAM_LENGTH':
      return invalid('the path of the request is malformed or too long')
    default: {
      const internal = toDatabaseError(error)
      options.logger.error({ err: error }, internal.message)
      return internal
    }
  }
}

/** Requests that never became one: answered on the socket, in plain text like all others. */
function refuseMalformed(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const [code, message] = malformedAnswers[error.code ?? ''] ?? [400, 'the request is not valid HTTP']
  socket.end(
    `HTTP/1.1 ${code} ${STATUS_CODES[code]}\r\ncontent-type: ${plainText}\r\ncontent-length: ${message.length}\r\nconnection: close\r\n\r\n${message}`,
  )
}

const malformedAnswers: Readonly<Record<string, readonly [number, string]>> = {
  HPE_HEADER_OVERFLOW: [431, `the headers are larger than ${maxHeaderSize} bytes`],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'the request did not arrive in time (REQUEST_TIMEOUT_MS)'],
}

/** A path as a message shows it: cut where it is long. */
function shown(path: string): string {
  return path.length > 100 ? `${path.slice(0, 100)}…` : path
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

async function close(app: FastifyInstance, timeoutMs: number): Promise<void> {
  const timer = setTimeout(() => app.server.closeAllConnections(), timeoutMs)
  await app.close()
  clearTimeout(timer)
}
