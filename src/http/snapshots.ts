import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { ApiContext, Call, Lease, Snapshot } from '../api/call.ts'
import { checkName } from '../api/collections.ts'
import { admitRead } from '../api/read-position.ts'
import { noteRequest } from '../api/run-operation.ts'
import { consistencyHeader, positionHeader } from '../base/consistency.ts'
import { toDatabaseError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import type { ServiceMetrics } from '../base/metrics.ts'
import { collectionPrefix, type PathParts } from './routes.ts'
import { leavingOf, streamAnswer } from './streamed-answer.ts'

export interface SnapshotOptions {
  readonly context: ApiContext
  /** How long a client may leave a sent chunk unread. */
  readonly requestTimeoutMs: number
  readonly metrics: ServiceMetrics
  readonly logger: Logger
}

/** Of the default collection, and of any. */
export const snapshotPaths: readonly string[] = ['/snapshots', `${collectionPrefix}/snapshots`]

/**
 * Adds snapshots: all points as they are at one sequence number, as a download of any length. Read as fast as the
 * client receives it; aborted if the client leaves or stops reading.
 */
export function addSnapshots(app: FastifyInstance, options: SnapshotOptions): void {
  for (const path of snapshotPaths) app.post(path, (request, reply) => take(options, request, reply))
}

async function take(
  options: SnapshotOptions,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { collection } = request.params as PathParts
  const started = performance.now()
  const count = (outcome: string): void =>
    noteRequest({ ...options, transport: 'http' }, 'TakeSnapshot', outcome, performance.now() - started)
  const { collections, database } = options.context
  let lease: Lease | undefined
  try {
    const { cluster } = options.context
    if (cluster !== undefined) {
      await admitRead(cluster, { ...positionsOf(request), signal: leavingOf(reply) })
      reply.header(positionHeader, String(cluster.position))
    }
    if (collection !== undefined) lease = await collections.lease(checkName(collection, 'collection'))
    const snapshot = (lease?.database ?? database).snapshot()
    return sendSnapshot(reply, snapshot, options, (outcome) => {
      lease?.[Symbol.dispose]()
      count(outcome)
    })
  } catch (thrown) {
    lease?.[Symbol.dispose]()
    count(toDatabaseError(thrown).reason)
    throw thrown
  }
}

function positionsOf({ headers }: FastifyRequest): Pick<Call, 'consistency' | 'position'> {
  const [consistency, position] = [headers[consistencyHeader], headers[positionHeader]]
  return { consistency: consistency?.toString(), position: position?.toString() }
}

function sendSnapshot(
  reply: FastifyReply,
  snapshot: Snapshot,
  { requestTimeoutMs, logger }: SnapshotOptions,
  ended: (outcome: string) => void,
): FastifyReply {
  reply.headers({
    'content-type': 'application/octet-stream',
    'content-disposition': `attachment; filename="vicinal-${snapshot.databaseId}-${snapshot.sequence}.snapshot"`,
    'cache-control': 'no-store',
    'vicinal-database-id': snapshot.databaseId,
    'vicinal-sequence': snapshot.sequence,
    'vicinal-points': snapshot.points,
  })
  return streamAnswer(reply, {
    chunks: snapshot.chunks(),
    requestTimeoutMs,
    logger,
    what: 'a snapshot',
    ended: (outcome) => {
      snapshot.close()
      ended(outcome)
    },
  })
}
