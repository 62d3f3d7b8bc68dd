import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { ApiContext, Database, PointsSnapshot } from '../../api/call.ts'
import { checkName } from '../../api/collections.ts'
import { type AskedPosition, admit, noteRequest } from '../../api/run-operation.ts'
import type { BodyBudgets } from '../../base/budgets.ts'
import { PartitionsUnavailable, toDatabaseError } from '../../base/errors.ts'
import type { Logger } from '../../base/log.ts'
import type { ServiceMetrics } from '../../base/metrics.ts'
import { consistencyHeader, positionHeader } from '../../base/request-headers.ts'
import { leavingOf, streamAnswer } from './answers.ts'
import { collectionPrefix, type PathParts } from './routes.ts'

/** The path for the default collection, and the one for a named collection. */
export const snapshotPaths: readonly string[] = ['/snapshots', `${collectionPrefix}/snapshots`]

/**
 * Adds snapshots: a download of all points as of one sequence number. It is read as fast as the client receives it, and
 * aborted if the client disconnects or stops reading.
 */
export function addSnapshots(app: FastifyInstance, options: StreamOptions): void {
  for (const path of snapshotPaths) {
    app.post(path, (request, reply) =>
      streamPoints(options, request, reply, {
        operation: 'TakeSnapshot',
        what: 'a snapshot',
        begin: async (open, owned, signal) => {
          const { cluster } = options.context
          if (cluster !== undefined) await admit(cluster, askedPosition(request, signal))
          const position = cluster?.position
          const snapshot = await (await open()).snapshot(signal)
          owned.defer(() => snapshot.close())
          if (position !== undefined) reply.header(positionHeader, String(snapshot.position ?? position))
          reply.headers(headersOf(snapshot))
          return snapshot.chunks()
        },
      }),
    )
  }
}

function headersOf({ databaseId, sequence, points }: PointsSnapshot): Record<string, string | number> {
  return {
    'content-type': 'application/octet-stream',
    'content-disposition': `attachment; filename="vicinal-${databaseId}-${sequence}.snapshot"`,
    'cache-control': 'no-store',
    'vicinal-database-id': databaseId,
    'vicinal-sequence': sequence,
    'vicinal-points': points,
  }
}

interface StreamOptions {
  readonly context: ApiContext
  /** How long a client may leave a sent chunk unread. */
  readonly requestTimeoutMs: number
  readonly budgets: BodyBudgets
  readonly metrics: ServiceMetrics
  readonly logger: Logger
}

/** A request whose answer is streamed from a collection's points. */
interface StreamedCall {
  /** The name in metrics and logs. */
  readonly operation: string
  /** What the answer is, for the log. */
  readonly what: string
  /**
   * Begins the answer, and sets its headers.
   *
   * @param open opens the collection that the path names, until the answer has ended
   * @param owned resources to dispose of when the answer has ended in any way, before the collection is released
   * @param signal aborts when the client disconnects
   */
  readonly begin: (
    open: () => Promise<Database>,
    owned: DisposableStack,
    signal: AbortSignal,
  ) => Promise<AsyncIterable<Buffer>>
}

/** Answers a request with a stream, and counts the request when the stream has ended. */
async function streamPoints(
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
    if (thrown instanceof PartitionsUnavailable) options.metrics.unanswered()
    throw thrown
  }
}

/** How up to date the answer of a cluster node must be. */
function askedPosition({ headers }: FastifyRequest, signal: AbortSignal): AskedPosition {
  const [consistency, position] = [headers[consistencyHeader], headers[positionHeader]]
  return { consistency: consistency?.toString(), position: position?.toString(), signal }
}
