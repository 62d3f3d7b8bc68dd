import { call, collectionPath } from '../api/client.ts'
import { listPoints } from '../api/points.ts'
import type { Hit, JsonObject, Payload } from '../api/types.ts'
import type { Metric } from '../lib/distance.ts'
import type { Neighbours } from './layout.ts'

/** What the map knows of a point: no vector comes to the browser. */
export interface MapPoint {
  readonly id: string
  readonly payload: Payload
}

export interface MapSample {
  readonly points: readonly MapPoint[]
  readonly neighbours: Neighbours
}

export interface SampleQuery {
  readonly collection: string
  readonly filter: JsonObject
  readonly metric: Metric
  readonly limit: number
}

const pagePoints = 1000
const batchQueries = 100
const neighbourCount = 15
/** Of a content, for labels: 100,000 whole documents would not fit into the browser. */
const keptCharacters = 200

/**
 * The first points of a collection that match, with their nearest neighbours among themselves. The server finds the
 * neighbours, through its index.
 *
 * @param onProgress called with the share that is loaded
 */
export async function loadSample(
  query: SampleQuery,
  onProgress: (share: number) => void,
  signal: AbortSignal,
): Promise<MapSample> {
  const points = await loadPoints(query, (share) => onProgress(share * 0.3), signal)
  const neighbours = await loadNeighbours(query, points, (share) => onProgress(0.3 + share * 0.7), signal)
  return { points, neighbours }
}

async function loadPoints(
  { collection, filter, limit }: SampleQuery,
  onProgress: (share: number) => void,
  signal: AbortSignal,
): Promise<readonly MapPoint[]> {
  const points: MapPoint[] = []
  let cursor: string | undefined
  do {
    const wanted = Math.min(pagePoints, limit - points.length)
    const page = await listPoints(collection, { filter, limit: wanted, cursor }, signal)
    for (const { id, payload } of page.points) points.push({ id, payload: shortened(payload) })
    cursor = page.next_cursor
    onProgress(points.length / limit)
  } while (cursor !== undefined && points.length < limit)
  return points
}

function shortened(payload: Payload): Payload {
  const { content } = payload
  return content.length <= keptCharacters
    ? payload
    : { ...payload, content: `${content.slice(0, keptCharacters)}…` }
}

interface BatchAnswer {
  readonly hits: readonly (readonly Hit[])[]
}

async function loadNeighbours(
  { collection, filter, metric }: SampleQuery,
  points: readonly MapPoint[],
  onProgress: (share: number) => void,
  signal: AbortSignal,
): Promise<Neighbours> {
  const count = points.length
  const k = Math.max(1, Math.min(neighbourCount, count - 1))
  const ids = new Int32Array(count * k).fill(-1)
  const distances = new Float32Array(count * k)
  const numbers = new Map(points.map(({ id }, number) => [id, number]))
  const filtered = Object.keys(filter).length === 0 ? {} : { filter }
  for (let start = 0; start < count; start += batchQueries) {
    const asked = points.slice(start, start + batchQueries)
    const queries = asked.map(({ id }) => ({
      id,
      similarity: metric,
      limit: k,
      include: { distance: true },
      ...filtered,
    }))
    const path = `${collectionPath(collection)}/points/search/batch`
    const { hits } = await call<BatchAnswer>('POST', path, { body: { queries }, signal })
    for (const [index, list] of hits.entries()) {
      let place = (start + index) * k
      for (const { id, distance } of list) {
        const number = numbers.get(id)
        // A neighbour that is not in the sample.
        if (number === undefined) continue
        ids[place] = number
        distances[place] = distance ?? 0
        place++
      }
    }
    onProgress(Math.min(1, (start + batchQueries) / count))
  }
  return { count, k, ids, distances }
}
