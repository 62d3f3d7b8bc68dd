import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { unknownOperation } from '../../api/audit.ts'
import { type Call, httpFields } from '../../api/call.ts'
import {
  type OperationName,
  type OperationRow,
  type OperationTypes,
  operations,
} from '../../api/operations.ts'
import { type OperationRunner, runOperation } from '../../api/run-operation.ts'
import type { Role } from '../../base/api-key.ts'
import type { ByteHold } from '../../base/budgets.ts'
import { defaultCollection } from '../../base/collection.ts'
import { DatabaseError, type Reason } from '../../base/errors.ts'
import { consistencyHeader, positionHeader } from '../../base/request-headers.ts'
import type { HttpServerOptions } from '../listener.ts'
import { type JsonAnswer, leavingOf, sendStream } from './answers.ts'
import { answerRoom, RequestBody } from './bodies.ts'
import { type PathParts, pathsOf, type Route, routes } from './routes.ts'

/** Adds the routes of each operation; those of a cluster only on its nodes. */
export function addOperations(app: FastifyInstance, options: HttpServerOptions): void {
  const runner: HttpRunner = { ...options, transport: 'http' }
  for (const name of offeredBy(options)) {
    const { method, parameters } = routes[name]
    const { role, within }: Pick<OperationRow<OperationName>, 'role' | 'within'> = operations[name]
    for (const url of pathsOf(name)) {
      app.route({
        method,
        url,
        config: { role, within, operation: name, parameters },
        handler: (request, reply) => answer(runner, name, request, reply),
      })
    }
  }
}

/** The operations of a server. */
export function offeredBy({ context }: Pick<HttpServerOptions, 'context'>): readonly OperationName[] {
  return (Object.keys(routes) as OperationName[]).filter(
    (name) => operations[name].concerns !== 'cluster' || context.clusterControl !== undefined,
  )
}

interface HttpRunner extends OperationRunner, Pick<HttpServerOptions, 'budgets' | 'requestTimeoutMs'> {}

async function answer<Name extends OperationName>(
  runner: HttpRunner,
  name: Name,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { status, headers, hasBody, ...route }: Route<Name> = routes[name]
  const parts = { ...(request.query as PathParts), ...(request.params as PathParts) }
  const codec = {
    decode: () => route.decode(hasBody ? bodyOf(request) : noBody, reply, parts, request.headers['if-match']),
    async encode(output: OperationTypes[Name]['output']): Promise<JsonAnswer | undefined> {
      reply.code(typeof status === 'number' ? status : status(output))
      if (headers !== undefined) reply.headers(headers(output))
      const encoded = await route.encode(output, room)
      if (typeof encoded !== 'object' || !('chunks' in encoded)) {
        return holdEncoded(encoded, room, operations[name].role)
      }
      await sendStream(reply, encoded, runner.requestTimeoutMs)
      return undefined
    },
  }
  const room = answerRoom(reply.raw, runner.budgets.answers)
  const { cluster } = runner.context
  let json: JsonAnswer | undefined
  request.isAudited = true
  try {
    json = await runOperation(runner, name, codec, callOf(request, reply, request.params as PathParts, room))
  } catch (error) {
    // What was read for the answer is dropped, however long its client takes to read the refusal.
    room.release()
    // A stream has failed: its client sees that it is incomplete.
    if (reply.sent) return reply
    throw error
  } finally {
    // A refusal may depend on the stored points, so it has the position, too.
    if (cluster !== undefined && !reply.sent) reply.header(positionHeader, String(cluster.answeredPosition))
  }
  if (reply.sent) return reply
  return json === undefined ? reply.send() : reply.type('application/json; charset=utf-8').send(json)
}

/** Adds a line to the audit for a request that was refused before its operation began, or that has none. */
export function auditRefusal(
  { context: { audit } }: Pick<HttpServerOptions, 'context'>,
  { isAudited, routeOptions, params, method, apiKey, ip }: FastifyRequest,
  error: Reason,
): void {
  const { role = 'read', operation } = routeOptions.config
  if (audit === undefined || isAudited) return
  // Whoever has a right to call may ask for pages that do not exist.
  if (operation === undefined && error !== 'unauthenticated' && error !== 'permission_denied') return
  const { concerns } = operation === undefined ? {} : operations[operation]
  const { name, collection = concerns === 'points' ? defaultCollection : name } = (params ?? {}) as PathParts
  const page = routeOptions.url === undefined ? unknownOperation : `${method} ${routeOptions.url}`
  audit.note({
    key: apiKey?.name,
    operation: operation ?? page,
    // Elsewhere, the name is not that of a collection.
    collection: concerns === 'points' || concerns === 'collections' ? collection : undefined,
    error,
    transport: 'http',
    address: ip,
    role,
  })
}

/** Counts a complete answer instead of what it was made of. */
function holdEncoded(json: JsonAnswer | undefined, room: ByteHold, role: Role): JsonAnswer | undefined {
  // Node would copy a long string to send it, and keep both.
  const isLong = typeof json === 'string' && json.length > sentAsTextMax
  const sent = isLong ? Buffer.from(json) : json
  if (role === 'read') room.resize(sent?.length ?? 0)
  else room.exceed(sent?.length ?? 0)
  return sent
}

/** A shorter text is sent in one packet with the head of the answer. */
const sentAsTextMax = 16_384

function bodyOf({ method, headers, body }: FastifyRequest): Buffer {
  // A PUT may have no body if its path is sufficient.
  if (method === 'PUT' && body === undefined) return noBody
  if (headers['content-type'] === undefined) {
    throw new DatabaseError('unsupported_media_type', 'content-type is missing, it must be application/json')
  }
  return body instanceof RequestBody ? body.take() : noBody
}

const noBody = Buffer.alloc(0)

/** Converts a request for the operations. */
function callOf(
  { body, headers, query, apiKey, ip }: FastifyRequest,
  reply: FastifyReply,
  { collection }: PathParts,
  room: ByteHold,
): Call {
  const call: Call = {
    fields: httpFields,
    key: apiKey,
    address: () => ip,
    collection,
    // Node joins repeated headers with a comma, as HTTP specifies.
    idempotencyKey: headers['idempotency-key'] as string | undefined,
    // A repeated parameter is a list, whose text no operation accepts.
    version: (query as Readonly<Record<string, unknown>>).version?.toString(),
    consistency: headers[consistencyHeader] as string | undefined,
    position: headers[positionHeader] as string | undefined,
    signal: leavingOf(reply),
    room,
  }
  return body instanceof RequestBody ? { ...call, decoded: () => body.release() } : call
}
