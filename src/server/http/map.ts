import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { ApiContext, Database, ReadCall } from '../../api/call.ts'
import { httpFields } from '../../api/call.ts'
import { type MapAnswer, type MapPointsInput, type MapRow, mapPoints } from '../../api/map-points.ts'
import { admitRead } from '../../api/read-position.ts'
import { positionHeader } from '../../base/consistency.ts'
import { inTurns } from '../../base/turns.ts'
import { encodeAttributes } from './json-attributes.ts'
import { JsonText } from './json-text.ts'
import { QueryParameters } from './query-parameters.ts'
import { collectionPrefix, type PathParts } from './routes.ts'
import { askedPosition, type StreamOptions, streamPoints } from './streamed-points.ts'

/** The path for the default collection, and the one for a named collection. */
export const mapPaths: readonly string[] = ['/map', `${collectionPrefix}/map`]

/**
 * Adds maps: sampled points with their neighbours, as JSON that is streamed as fast as the client receives it. When the
 * client disconnects, the searches stop.
 */
export function addMap(app: FastifyInstance, options: StreamOptions): void {
  for (const url of mapPaths) {
    app.route({
      method: 'GET',
      url,
      // A HEAD request would run all searches and send nothing.
      exposeHeadRoute: false,
      config: { role: 'read', parameters: parameterNames },
      handler: (request, reply) =>
        streamPoints(options, request, reply, {
          operation: 'MapPoints',
          what: 'a map',
          begin: async (open, owned, signal) => {
            const input = await inputOf(request, reply)
            const { collection } = request.params as PathParts
            const { cluster } = options.context
            const position = cluster && (await admitRead(cluster, askedPosition(request, signal)))
            const context = {
              ...limitsOf(options.context),
              database: readingOf(await open(), position),
            }
            const answer = await mapPoints(context, input, { fields: httpFields, collection, signal })
            owned.defer(() => answer.map.close())
            const room = options.budgets.answers.hold(0)
            owned.defer(() => room.release())
            if (cluster !== undefined) reply.header(positionHeader, String(cluster.answeredPosition))
            reply.type('application/json; charset=utf-8').header('cache-control', 'no-store')
            return chunksOf(answer, { signal, room })
          },
        }),
    })
  }
}

/** @param position that other nodes must have reached; undefined on a single node */
function readingOf(database: Database, position: number | undefined): Database {
  return position === undefined ? database : (database.asOf?.(position) ?? database)
}

/** The context without `database`, which cannot be read before the points are loaded. */
function limitsOf({ collections, limits }: ApiContext): Omit<ApiContext, 'database'> {
  return { collections, limits }
}

async function inputOf({ query }: FastifyRequest, reply: FastifyReply): Promise<MapPointsInput> {
  const parameters = new QueryParameters(query, parameterNames, reply)
  return {
    limit: parameters.number('limit'),
    similarity: parameters.text('similarity'),
    seed: parameters.number('seed'),
    k: parameters.number('k'),
    ef: parameters.number('ef'),
    filter: await parameters.filter('filter'),
    attributes: parameters.texts('attributes'),
    content: parameters.number('content'),
  }
}

const parameterNames = ['limit', 'similarity', 'seed', 'k', 'ef', 'filter', 'attributes', 'content']

/** Yields one JSON document, with each point on a separate line, so that a client can read it while it arrives. */
async function* chunksOf(answer: MapAnswer, call: ReadCall): AsyncGenerator<Buffer> {
  const { map, query } = answer
  const { metric: similarity, seed, k } = query
  const head = JSON.stringify({ similarity, seed, k, matching: map.points, sampled: map.sampled })
  yield Buffer.from(`${head.slice(0, -1)},"points":[`)
  let separator = '\n'
  for await (const rows of map.rows(call)) {
    yield await inTurns(rowSteps(rows, separator, answer))
    separator = ',\n'
  }
  yield Buffer.from('\n]}')
}

function* rowSteps(
  rows: readonly MapRow[],
  separator: string,
  { query }: MapAnswer,
): Generator<void, Buffer> {
  const json = new JsonText('')
  const hasContent = query.include?.payload === true
  for (const [index, row] of rows.entries()) {
    const { id, neighbours, distances, payload } = row
    json.add(index === 0 ? separator : ',\n')
    json.add(
      `{"id":"${id}","neighbours":[${neighbours.join(',')}],"distances":[${distances.map(shortened).join(',')}]`,
    )
    if (payload !== undefined && hasContent) {
      const { contentType, content } = payload
      json.add(`,"content_type":"${contentType}","content":${JSON.stringify(content)}`)
    }
    if (payload?.attributes !== undefined) json.add(`,"attributes":${encodeAttributes(payload.attributes)}`)
    if (json.add('}')) yield
  }
  return json.finish()
}

/** Rounds a distance: a picture needs no more digits. */
function shortened(distance: number): number {
  return Number(distance.toPrecision(6))
}
