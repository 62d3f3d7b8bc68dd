import type { FastifyInstance } from 'fastify'
import type { PointsSnapshot } from '../../api/call.ts'
import { admitRead } from '../../api/read-position.ts'
import { positionHeader } from '../../base/consistency.ts'
import { collectionPrefix } from './routes.ts'
import { askedPosition, type StreamOptions, streamPoints } from './streamed-points.ts'

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
          if (cluster !== undefined) await admitRead(cluster, askedPosition(request, signal))
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
