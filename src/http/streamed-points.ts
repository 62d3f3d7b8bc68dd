import type { FastifyReply, FastifyRequest } from 'fastify'
import type { ApiContext, Database } from '../api/call.ts'
import { checkName } from '../api/collections.ts'
import type { AskedPosition } from '../api/read-position.ts'
import { noteRequest } from '../api/run-operation.ts'
import { consistencyHeader, positionHeader } from '../base/consistency.ts'
import { PointsOutOfReach, toDatabaseError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import type { ServiceMetrics } from '../base/metrics.ts'
import type { PathParts } from './routes.ts'
import { leavingOf, streamAnswer } from './streamed-answer.ts'

export interface StreamOptions {
  readonly context: ApiContext
  /** How long a client may leave a sent chunk unread. */
  readonly requestTimeoutMs: number
  readonly metrics: ServiceMetrics
  readonly logger: Logger
}

/** A request whose answer is made of a collection's points while it is sent. */
export interface StreamedCall {
  /** As it is counted. */
  readonly operation: string
  /** What the answer is, for the log. */
  readonly what: string
  /**
   * Begins the answer, and sets its headers.
   *
   * @param open opens the collection that the path names, until the answer has ended
   * @param owned what is disposed of when the answer has ended in any way, before the collection is let go
   * @param signal aborts when the client leaves
   */
  readonly begin: (
    open: () => Promise<Database>,
    owned: DisposableStack,
    signal: AbortSignal,
  ) => Promise<AsyncIterable<Buffer>>
}

/** Answers a request by a stream, and counts it when it has ended. */
export async function streamPoints(
  options: StreamOptions,
  request: FastifyRequest,
  reply: FastifyReply,
  { operation, what, begin }: StreamedCall,
): Promise<FastifyReply> {
  const { context } = options
  const { collection } = request.params as PathParts
  const started = performance.now()
  const owned = new DisposableStack()
  const end = (outcome: string): void => {
    owned.dispose()
    noteRequest({ ...options, transport: 'http' }, operation, outcome, performance.now() - started)
  }
  const open = async (): Promise<Database> => {
    if (collection === undefined) return context.database
    return owned.use(await context.collections.lease(checkName(collection, 'collection'))).database
  }
  try {
    const chunks = await begin(open, owned, leavingOf(reply))
    return streamAnswer(reply, { ...options, chunks, what, ended: end })
  } catch (thrown) {
    end(toDatabaseError(thrown).reason)
    if (thrown instanceof PointsOutOfReach) options.metrics.incomplete('none')
    throw thrown
  }
}

/** How new the answer of a node of a cluster has to be. */
export function askedPosition({ headers }: FastifyRequest, signal: AbortSignal): AskedPosition {
  const [consistency, position] = [headers[consistencyHeader], headers[positionHeader]]
  return { consistency: consistency?.toString(), position: position?.toString(), signal }
}
