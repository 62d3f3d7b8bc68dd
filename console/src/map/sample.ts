import { ApiError, call, collectionPath } from '../api/client.ts'
import { countPoints, listPoints } from '../api/points.ts'
import type { Hit, JsonObject, Payload, Point } from '../api/types.ts'
import type { Metric } from '../lib/distance.ts'
import { isEmptyFilter, pathsOf } from '../lib/filters.ts'
import { wait } from '../lib/wait.ts'
import type { Neighbours } from './layout.ts'
import { thinned, type VersionRange, versionRanges } from './versions.ts'

/** A point on the map. The browser never receives its vector. */
export interface MapPoint {
  readonly id: string
  readonly payload: Payload
}

export interface MapSample {
  readonly points: readonly MapPoint[]
  readonly neighbours: Neighbours
  /** The number of matching points, sampled or not. */
  readonly matching: number
  /** The attribute paths that were loaded with the points. */
  readonly paths: readonly string[]
}

export interface SampleQuery {
  readonly collection: string
  readonly filter: JsonObject
  readonly metric: Metric
  readonly limit: number
  /** The same seed samples the same points, until they change. */
  readonly seed: number
  /** An attribute path to load in any case, in addition to those found on some points; '' for none. */
  readonly path: string
}

const neighbourCount = 15
/** Enough for the nearest neighbours: a wider search takes longer and does not change the picture. */
const ef = 64
/** Contents are cut for the labels: 50,000 whole documents would not fit into the browser. */
const keptCharacters = 120
/** The number of points whose attributes are searched for paths. */
const inspectedPoints = 200
/** More attributes of 50,000 points would fill the memory of the browser. */
const maxPaths = 16
const pageLimit = 500
const queriesPerRequest = 100
/** A second request is on its way while the server answers the first one. */
const requestsAtOnce = 2
const retryMs = 500

/**
 * Loads a sample of the matching points of a collection, with their nearest neighbours within the sample. It only uses
 * operations that every client has: it lists the points of the sample, and searches near each of them with the sample
 * as the filter.
 *
 * @param onProgress called with the loaded share
 * @throws ApiError with the server's message
 */
export async function loadSample(
  query: SampleQuery,
  onProgress: (share: number) => void,
  signal: AbortSignal,
): Promise<MapSample> {
  const matching = await countPoints(query.collection, query.filter, signal)
  const filter = await sampleFilter(query, matching, signal)
  const paths = await pathsFor(query, signal)
  const listed = await listAll({ ...query, filter }, paths, signal)
  const points = thinned(listed, query.limit).map(({ id, payload }) => ({ id, payload: cut(payload) }))
  const neighbours = await neighboursOf(points, { ...query, filter }, onProgress, signal)
  return { points, neighbours, matching, paths }
}

/**
 * Returns a filter for about as many of the matching points as the map may have: those whose version lies in one of a
 * few ranges. Every change of a point gets the next version. So ranges at random choose points at random if points that
 * belong together were not inserted together, and some of each part of the collection otherwise. A list of ids would
 * choose better, but each of thousands of queries has to name the filter.
 */
async function sampleFilter(query: SampleQuery, matching: number, signal: AbortSignal): Promise<JsonObject> {
  const { collection, filter, limit, seed } = query
  if (matching <= limit) return filter
  const range = await versionsOf(query, signal)
  for (let share = Math.min(1, (limit / matching) * 1.1); share < 1; share *= 1.3) {
    const sampled = both(filter, { $or: versionRanges(range, share, seed) })
    if ((await countPoints(collection, sampled, signal)) >= limit) return sampled
  }
  return filter
}

/** The versions of the matching points, roughly. */
async function versionsOf({ collection, filter }: SampleQuery, signal: AbortSignal): Promise<VersionRange> {
  const count = async (versions: JsonObject): Promise<number> =>
    await countPoints(collection, both(filter, { $version: versions }), signal)
  let below = 1
  while (below < Number.MAX_SAFE_INTEGER / 2 && (await count({ $gte: below })) > 0) below *= 2
  const most = below
  let from = 0
  for (let step = most / 2; step >= most / 256 && step >= 1; step /= 2) {
    if ((await count({ $lt: from + step })) === 0) from += step
    if ((await count({ $gte: below - step })) === 0) below -= step
  }
  return { from, below }
}

function both(filter: JsonObject, other: JsonObject): JsonObject {
  return isEmptyFilter(filter) ? other : { $and: [filter, other] }
}

async function pathsFor(query: SampleQuery, signal: AbortSignal): Promise<readonly string[]> {
  const { collection, filter, path } = query
  const { points } = await listPoints(
    collection,
    { filter, limit: inspectedPoints, cursor: undefined },
    signal,
  )
  const found = new Set(points.flatMap(({ payload }) => pathsOf(payload.attributes ?? {})))
  const first = [...found].sort().slice(0, path === '' || found.has(path) ? maxPaths : maxPaths - 1)
  return path === '' || first.includes(path) ? first : [...first.slice(0, maxPaths - 1), path]
}

async function listAll(
  { collection, filter }: SampleQuery,
  paths: readonly string[],
  signal: AbortSignal,
): Promise<readonly Point[]> {
  const points: Point[] = []
  let cursor: string | undefined
  do {
    const page = await listPoints(collection, { filter, limit: pageLimit, cursor, attributes: paths }, signal)
    points.push(...page.points)
    cursor = page.next_cursor
  } while (cursor !== undefined)
  return points
}

async function neighboursOf(
  points: readonly MapPoint[],
  query: SampleQuery,
  onProgress: (share: number) => void,
  signal: AbortSignal,
): Promise<Neighbours> {
  const count = points.length
  const ids = new Int32Array(count * neighbourCount).fill(-1)
  const distances = new Float32Array(count * neighbourCount)
  const numberOf = new Map(points.map(({ id }, number) => [id, number]))
  let asked = 0
  const ask = async (): Promise<void> => {
    while (asked < count) {
      const from = asked
      asked = Math.min(count, from + queriesPerRequest)
      const lists = await searchNear(points.slice(from, asked), query, signal)
      for (const [index, hits] of lists.entries()) {
        let at = (from + index) * neighbourCount
        const end = at + neighbourCount
        for (const { id, distance } of hits) {
          const number = numberOf.get(id)
          if (number === undefined || at === end) continue
          ids[at] = number
          distances[at] = distance!
          at += 1
        }
      }
      onProgress(asked / count)
    }
  }
  await Promise.all(Array.from({ length: requestsAtOnce }, ask))
  return { count, k: neighbourCount, ids, distances }
}

/** Searches near each of the points. A point that was deleted meanwhile has no hits. */
async function searchNear(
  points: readonly MapPoint[],
  query: SampleQuery,
  signal: AbortSignal,
): Promise<readonly (readonly Hit[])[]> {
  const { collection, filter, metric } = query
  const queries = points.map(({ id }) => ({
    id,
    similarity: metric,
    ef,
    include: { distance: true },
    // A few more than needed: points that the sample leaves out can be among them.
    limit: Math.ceil(neighbourCount * 1.3),
    ...(isEmptyFilter(filter) ? {} : { filter }),
  }))
  for (;;) {
    signal.throwIfAborted()
    try {
      const path = `${collectionPath(collection)}/points/search/batch`
      const { hits } = await call<{ readonly hits: readonly (readonly Hit[])[] }>('POST', path, {
        body: { queries },
        signal,
      })
      return hits
    } catch (error) {
      const status = error instanceof ApiError ? error.status : 0
      if (status === 404 && points.length === 1) return [[]]
      if (status === 404) {
        const middle = points.length >> 1
        return [
          ...(await searchNear(points.slice(0, middle), query, signal)),
          ...(await searchNear(points.slice(middle), query, signal)),
        ]
      }
      if (status !== 429) throw error
    }
    await wait(retryMs, signal)
  }
}

function cut(payload: Payload): Payload {
  return { ...payload, content: cutContent(payload.content) }
}

/** A content as the map keeps it. */
export function cutContent(content: string): string {
  return content.length < keptCharacters ? content : `${content.slice(0, keptCharacters)}…`
}
