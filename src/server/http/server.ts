import { Readable } from 'node:stream'
import type { TLSSocket } from 'node:tls'
import { type FastifyError, type FastifyInstance, type FastifyRequest, fastify } from 'fastify'
import type { RunningServer } from '../../api/call.ts'
import type { OperationName } from '../../api/operations.ts'
import type { ApiKey, Role } from '../../base/api-key.ts'
import { DatabaseError } from '../../base/errors.ts'
import { isLoopback } from '../../base/runtime.ts'
import { type HttpServerOptions, type Listener, listen } from '../listener.ts'
import { errorOfFramework, headOf, onClosed, otherType, sendError } from './answers.ts'
import { cutSlowReader, RequestBody, readBody, refuseAndClose } from './bodies.ts'
import { answerBelowFramework, Connections, refuseMalformed, socketOptions } from './connections.ts'
import { serveHttp2 } from './http2.ts'
import { type FieldNotes, noteIgnored, readStrictHeader, strictHeader } from './json-objects.ts'
import { addOperations, auditRefusal } from './operations.ts'
import { addConsole, addDocs, addPages } from './pages.ts'
import { allowOrigins, refuseRequests } from './refusals.ts'

/**
 * Serves the operations over HTTP/JSON, with health, readiness, metrics, the docs and the console. With TLS, clients
 * choose HTTP/2 or HTTP/1.1.
 *
 *   request ─> key ─> route ─> content type, size, memory ─> JSON ─> operation ─> answer
 *               │       │        │                           │         └ the reason's status
 *               │       │        └ 415, 413, 429             └ 400
 *               │       └ 404, 405
 *               └ 401, 403, 421
 *
 * Every error is plain text, including those of the framework.
 *
 * @throws Error that names host, port and setting when it cannot listen
 */
export async function startHttpServer(options: HttpServerOptions): Promise<RunningServer> {
  const app = fastify({
    requestTimeout: options.requestTimeoutMs,
    http: socketOptions(options.requestTimeoutMs),
    keepAliveTimeout: keepAliveMs,
    forceCloseConnections: 'idle',
    logger: false,
    exposeHeadRoutes: true,
    // The framework would answer with JSON; `refuseRequests` answers with plain text.
    return503OnClosing: false,
    // Operations check their input. Without this, each start would load a compiler of JSON schemas.
    schemaController: { compilersFactory: { buildValidator: noSchemas, buildSerializer: noSchemas } },
    routerOptions: { maxParamLength: 4096, ignoreTrailingSlash: false },
    clientErrorHandler: refuseMalformed,
    frameworkErrors: (error, _request, reply) => sendError(reply, errorOfFramework(error, options.logger)),
  })
  app.setErrorHandler((error: FastifyError, request, reply) => {
    // The framework closes the connection after some errors. Node reads the rest of a body, so it can stay open.
    if (reply.hasHeader('connection')) reply.removeHeader('connection')
    const ours = errorOfFramework(error, options.logger)
    auditRefusal(options, request, ours.reason)
    const isOver = ours.reason === 'overloaded' || ours.reason === 'shutting_down'
    if (!isOver || request.raw.complete) return sendError(reply, ours)
    reply.hijack()
    // Among others, those that let a page of another origin read the answer.
    for (const [name, value] of Object.entries(reply.getHeaders())) reply.raw.setHeader(name, value!)
    refuseAndClose(request.raw, reply.raw, { ...headOf(ours), text: ours.message })
    return undefined
  })
  answerBelowFramework(app.server)
  const connections = new Connections()
  acceptJson(app, options)
  cutSlowReaders(app, options.requestTimeoutMs)
  nameIgnoredFields(app)
  const closing = new AbortController()
  const isLocal = await isLocalHost(options.host)
  await allowOrigins(app, options.corsOrigins)
  refuseRequests(app, { ...options, isLocal, connections }, closing.signal)
  addOperations(app, options)
  addPages(app, options)
  addDocs(app)
  addConsole(app, options.console, options.context.cluster !== undefined)
  const listener = await startListening(app, options, connections)
  return {
    host: options.host,
    port: listener.port,
    get connections() {
      return connections.size
    },
    askToReconnect: () => connections.leave(),
    async close(timeoutMs) {
      closing.abort()
      let ended: Promise<void> | undefined
      await connections.drain(timeoutMs, () => {
        ended = listener.close()
      })
      await ended
      await app.close()
    },
  }
}

const keepAliveMs = 65_000

async function isLocalHost(host: string): Promise<boolean> {
  // If the host has no address, listening fails and reports it.
  return isLoopback(host).catch(() => false)
}

/** Reads bodies as bytes. The decoders decide whether an empty body is valid, and check UTF-8. */
function acceptJson(app: FastifyInstance, { maxRequestBytes, budgets }: HttpServerOptions): void {
  const bounds = { maxRequestBytes, requestBytes: budgets.requests }
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(/^application\/json\s*(;|$)/i, async ({ headers, raw }: FastifyRequest) => {
    const { 'content-encoding': encoding = 'identity' } = headers
    if (!/^(identity)?$/i.test(encoding)) {
      const what = `content-encoding ${encoding} is not supported: send the body uncompressed`
      throw new DatabaseError('unsupported_media_type', what)
    }
    const charset = /charset\s*=\s*"?([^\s;"]+)/i.exec(headers['content-type'] ?? '')?.[1]
    if (charset === undefined || /^utf-?8$/i.test(charset)) return await readBody(raw, bounds)
    throw new DatabaseError('unsupported_media_type', `charset ${charset} is not supported: send UTF-8`)
  })
  // Some clients always send a content type, and no DELETE has a body that means anything.
  app.addContentTypeParser('*', async ({ method, raw }: FastifyRequest) => {
    if (method === 'DELETE') return await readBody(raw, bounds)
    throw new DatabaseError('unsupported_media_type', otherType)
  })
  app.addHook('preHandler', (request, { raw }, done) => {
    const { body } = request
    if (body instanceof RequestBody) onClosed(raw, () => body.release())
    done()
  })
}

/** Closes the connections of slow readers, except for streams, which have any length and their own time-out. */
function cutSlowReaders(app: FastifyInstance, timeoutMs: number): void {
  app.addHook('onSend', (_request, reply, payload, done) => {
    if (!(payload instanceof Readable)) cutSlowReader(reply.raw, timeoutMs)
    done()
  })
}

declare module 'fastify' {
  interface FastifyReply extends Omit<FieldNotes, 'isStrict'> {
    isStrict: boolean
  }
  interface FastifyRequest {
    /** The caller's key. */
    apiKey: ApiKey | undefined
    /** Whether its operation has begun, which leaves the line in the audit. */
    isAudited: boolean
  }
  interface FastifyContextConfig {
    /** The role that the route needs; `write` if absent. */
    role?: Role
    /** The operation of the route. */
    operation?: OperationName
    /** See `OperationRow`. */
    within?: 'collections' | 'filter' | undefined
    /** The names of its query parameters; none if absent. */
    parameters?: readonly string[]
  }
}

/**
 * Adds the names of ignored fields to every answer, errors included. In a strict request, unknown fields and parameters
 * are errors.
 */
function nameIgnoredFields(app: FastifyInstance): void {
  app.decorateReply('ignoredFields', undefined)
  app.decorateReply('isStrict', false)
  app.addHook('preHandler', (request, reply, done) => {
    const header = request.headers[strictHeader]
    if (header === undefined) return done()
    try {
      reply.isStrict = readStrictHeader(header)
      const { parameters = [] } = request.routeOptions.config
      for (const name of Object.keys(reply.isStrict ? (request.query as object) : {})) {
        if (!parameters.includes(name)) noteIgnored(reply, '', name, parameters)
      }
      done()
    } catch (error) {
      done(error as DatabaseError)
    }
  })
  app.addHook('onSend', (_request, reply, _payload, done) => {
    if (reply.ignoredFields !== undefined) {
      reply.header('vicinal-ignored-fields', reply.ignoredFields.toString())
    }
    done()
  })
}

/** Accepts connections, and passes them to the framework's server, which does not listen itself. */
async function startListening(
  app: FastifyInstance,
  options: HttpServerOptions,
  connections: Connections,
): Promise<Listener> {
  const { host, port, reusePort = false, certificate, readScheduler, requestTimeoutMs } = options
  try {
    await app.ready()
    // Then it looks for late requests.
    app.server.emit('listening')
    const protocols = ['h2', 'http/1.1'] as const
    return await listen({ host, port, reusePort, certificate, protocols, allowHalfOpen: true }, (socket) => {
      readScheduler.track(socket)
      const isHttp2 = (socket as Partial<TLSSocket>).alpnProtocol === 'h2'
      connections.add(
        socket,
        isHttp2 ? serveHttp2(socket, app.server, { requestTimeoutMs, keepAliveMs }) : undefined,
      )
      if (!isHttp2) app.server.emit('connection', socket)
    })
  } catch (error) {
    await app.close()
    throw new Error(`HTTP cannot listen on ${host} port ${port} (HTTP_PORT): ${(error as Error).message}`, {
      cause: error,
    })
  }
}

function noSchemas(): never {
  throw new Error('no route has a schema')
}
