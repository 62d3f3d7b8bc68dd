import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { ApiContext, Database } from '../api/call.ts'
import { httpFields } from '../api/call.ts'
import { type MapAnswer, type MapPointsInput, type MapRow, mapPoints } from '../api/map-points.ts'
import { partialReadsOf } from '../api/partial-reads.ts'
import { admitRead } from '../api/read-position.ts'
import { positionHeader } from '../base/consistency.ts'
import { missingText, partialHeader } from '../base/partial-reads.ts'
import { inTurns } from '../base/turns.ts'
import { encodeAttributes } from './json-attributes.ts'
import { JsonText } from './json-text.ts'
import { QueryParameters } from './query-parameters.ts'
import { collectionPrefix, type PathParts } from './routes.ts'
import { askedPosition, type StreamOptions, streamPoints } from './streamed-points.ts'

/** Of the default collection, and of any. */
export const mapPaths: readonly string[] = ['/map', `${collectionPrefix}/map`]

/**
 * Adds maps: sampled points with their neighbours, as JSON that is sent while it is made, as fast as the client receives it. When
 * the client leaves, the searches stop.
 */
export function addMap(app: FastifyInstance, options: StreamOptions): void {
  for (const url of mapPaths) {
    app.route({
      method: 'GET',
      url,
      // A HEAD would search for everything and send nothing.
      exposeHeadRoute: false,
      config: { role: 'read' },
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
              database: readingOf(await open(), { position, metrics: options.metrics }, request, reply),
            }
            const answer = await mapPoints(context, input, { fields: httpFields, collection, signal })
            owned.defer(() => answer.map.close())
            if (cluster !== undefined) reply.header(positionHeader, String(cluster.answeredPosition))
            reply.type('application/json; charset=utf-8').header('cache-control', 'no-store')
            return chunksOf(answer, signal)
          },
        }),
    })
  }
}

/**
 * In a cluster, the points of which no node answers may be missing where the caller allows that.
 *
 * @param reading.position that other nodes have to be as new as; undefined for a service by itself
 */
function readingOf(
  database: Database,
  {
    position,
    metrics,
  }: { readonly position: number | undefined; readonly metrics: StreamOptions['metrics'] },
  { headers }: FastifyRequest,
  reply: FastifyReply,
): Database {
  if (position === undefined) return database
  const partial = partialReadsOf({
    partial: headers[partialHeader]?.toString(),
    onPartial: (missing) => {
      reply.header(partialHeader, missingText(missing))
      metrics.incomplete('partial')
    },
  })
  return database.asOf?.(position, partial) ?? database
}

/** Without `database`, which cannot be read before the points are loaded. */
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

/** One JSON document; each point is a line of its own, so that a client can read it while it comes. */
async function* chunksOf(answer: MapAnswer, signal: AbortSignal): AsyncGenerator<Buffer> {
  const { map, query } = answer
  const { metric: similarity, seed, k } = query
  const head = JSON.stringify({ similarity, seed, k, matching: map.points, sampled: map.sampled })
  yield Buffer.from(`${head.slice(0, -1)},"points":[`)
  let separator = '\n'
  for await (const rows of map.rows(signal)) {
    yield await inTurns(rowSteps(rows, separator, answer))
    separator = ',\n'
  }
  yield Buffer.from('\n]}')
}

function* rowSteps(
  rows: readonly MapRow[],
  separator: string,
  { query, contentMax }: MapAnswer,
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
      json.add(`,"content_type":"${contentType}","content":${JSON.stringify(cut(content, contentMax))}`)
    }
    if (payload?.attributes !== undefined) json.add(`,"attributes":${encodeAttributes(payload.attributes)}`)
    if (json.add('}')) yield
  }
  return json.finish()
}

/** A picture needs no more digits. */
function shortened(distance: number): number {
  return Number(distance.toPrecision(6))
}

function cut(content: string, most: number): string {
  if (content.length <= most) return content
  // Not between the halves of a surrogate pair.
  const end = (content.charCodeAt(most - 1) & 0xfc00) === 0xd800 ? most - 1 : most
  return content.slice(0, end)
}
