import { ApiError, collectionPath, send } from '../api/client.ts'
import { listPoints } from '../api/points.ts'
import type { ContentType, JsonObject, Payload } from '../api/types.ts'
import type { Metric } from '../lib/distance.ts'
import { pathsOf } from '../lib/filters.ts'
import { wait } from '../lib/wait.ts'
import type { Neighbours } from './layout.ts'
import { linesOf } from './lines.ts'

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
  /** The same seed samples the same points. */
  readonly seed: number
  /** An attribute path to load in any case, in addition to those found on some points; '' for none. */
  readonly path: string
}

const neighbourCount = 15
/** Enough for the nearest neighbours: a wider search takes longer and does not change the picture. */
const ef = 64
/** Contents are cut for the labels: 100,000 whole documents would not fit into the browser. */
const keptCharacters = 120
/** The number of points whose attributes are searched for paths. */
const inspectedPoints = 200
/** The server's limit. */
const maxPaths = 16
const retryMs = 500

/**
 * Loads a random sample of the matching points of a collection, with their nearest neighbours within the sample. The
 * server finds the neighbours through its index and sends one line per point.
 *
 * @param onProgress called with the loaded share
 * @throws ApiError with the server's message
 */
export async function loadSample(
  query: SampleQuery,
  onProgress: (share: number) => void,
  signal: AbortSignal,
): Promise<MapSample> {
  const paths = await pathsFor(query, signal)
  const response = await askWhenFree(query, paths, signal)
  let reading: SampleReader | undefined
  let last = ''
  for await (const line of linesOf(response.body!)) {
    last = line
    if (reading === undefined) reading = new SampleReader(line, paths)
    else if (line.startsWith('{')) {
      reading.add(line)
      if (reading.count % 100 === 0) onProgress(reading.share)
    }
  }
  if (reading === undefined || last !== ']}')
    throw new ApiError(0, 'The server sent an incomplete response. Redraw the map.')
  return reading.finish()
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

/** The server computes one map of a collection at a time. This retries until no other map is being computed. */
async function askWhenFree(
  { collection, filter, metric, limit, seed }: SampleQuery,
  paths: readonly string[],
  signal: AbortSignal,
): Promise<Response> {
  const parameters = new URLSearchParams({
    limit: String(limit),
    similarity: metric,
    seed: String(seed),
    k: String(neighbourCount),
    ef: String(ef),
    content: String(keptCharacters),
  })
  if (Object.keys(filter).length > 0) parameters.set('filter', JSON.stringify(filter))
  for (const path of paths) parameters.append('attributes', path)
  for (;;) {
    try {
      return await send('GET', `${collectionPath(collection)}/map?${parameters}`, { signal })
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 429) throw error
    }
    await wait(retryMs, signal)
    signal.throwIfAborted()
  }
}

/** A content as the map keeps it. The server already cuts what it sends. */
export function cutContent(content: string): string {
  return content.length < keptCharacters ? content : `${content.slice(0, keptCharacters)}…`
}

interface Head {
  readonly matching: number
  readonly sampled: number
}

interface Row {
  readonly id: string
  readonly neighbours: readonly number[]
  readonly distances: readonly number[]
  readonly content_type?: ContentType
  readonly content?: string
  readonly attributes?: JsonObject
}

/** Assembles a sample from the lines of a response. */
class SampleReader {
  readonly #head: Head
  readonly #paths: readonly string[]
  readonly #points: MapPoint[] = []
  readonly #ids: Int32Array
  readonly #distances: Float32Array

  /** @param line the first line: the fields before the points, and the opening of the list of points */
  constructor(line: string, paths: readonly string[]) {
    this.#head = JSON.parse(`${line}]}`) as Head
    this.#paths = paths
    this.#ids = new Int32Array(this.#head.sampled * neighbourCount).fill(-1)
    this.#distances = new Float32Array(this.#head.sampled * neighbourCount)
  }

  get count(): number {
    return this.#points.length
  }

  get share(): number {
    return this.count / Math.max(1, this.#head.sampled)
  }

  add(line: string): void {
    const row = JSON.parse(line.endsWith(',') ? line.slice(0, -1) : line) as Row
    const start = this.count * neighbourCount
    this.#ids.set(row.neighbours, start)
    this.#distances.set(row.distances, start)
    const { id, content_type = 'Text', content = '', attributes } = row
    this.#points.push({
      id,
      payload: {
        content_type,
        content: cutContent(content),
        ...(attributes === undefined ? {} : { attributes }),
      },
    })
  }

  finish(): MapSample {
    return {
      points: this.#points,
      neighbours: { count: this.count, k: neighbourCount, ids: this.#ids, distances: this.#distances },
      matching: this.#head.matching,
      paths: this.#paths,
    }
  }
}
