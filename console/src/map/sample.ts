import { ApiError, collectionPath, send } from '../api/client.ts'
import { listPoints } from '../api/points.ts'
import type { ContentType, JsonObject, Payload } from '../api/types.ts'
import type { Metric } from '../lib/distance.ts'
import { pathsOf } from '../lib/filters.ts'
import type { Neighbours } from './layout.ts'
import { linesOf } from './lines.ts'

/** What the map knows of a point: no vector comes to the browser. */
export interface MapPoint {
  readonly id: string
  readonly payload: Payload
}

export interface MapSample {
  readonly points: readonly MapPoint[]
  readonly neighbours: Neighbours
  /** Points that match, sampled or not. */
  readonly matching: number
  /** Paths of attributes that the points have here. */
  readonly paths: readonly string[]
}

export interface SampleQuery {
  readonly collection: string
  readonly filter: JsonObject
  readonly metric: Metric
  readonly limit: number
  /** The same seed samples the same points. */
  readonly seed: number
  /** Comes with the points in any case, besides paths that some points have. */
  readonly path: string
}

const neighbourCount = 15
/** Enough for the first neighbours; wider searches take longer and change no picture. */
const breadth = 64
/** Of a content, for labels: 100,000 whole documents would not fit into the browser. */
const keptCharacters = 120
/** Points whose attributes are looked at for paths. */
const lookedAt = 200
/** As many as the server returns. */
const pathsMost = 16
const retryMs = 500

/**
 * A random sample of the points of a collection that match, with their nearest neighbours in the sample. The server finds the
 * neighbours through its index, and sends a line for each point.
 *
 * @param onProgress called with the share that is loaded
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
    throw new ApiError(0, 'The server broke off. Draw the map again.')
  return reading.finish()
}

async function pathsFor(query: SampleQuery, signal: AbortSignal): Promise<readonly string[]> {
  const { collection, filter, path } = query
  const { points } = await listPoints(collection, { filter, limit: lookedAt, cursor: undefined }, signal)
  const found = new Set(points.flatMap(({ payload }) => pathsOf(payload.attributes ?? {})))
  const first = [...found].sort().slice(0, path === '' || found.has(path) ? pathsMost : pathsMost - 1)
  return path === '' || first.includes(path) ? first : [...first.slice(0, pathsMost - 1), path]
}

/** The server makes one map of a collection at a time: this waits until nobody else's is being made. */
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
    ef: String(breadth),
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
    await new Promise((resolve) => setTimeout(resolve, retryMs))
    signal.throwIfAborted()
  }
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

/** Puts the lines of an answer together. */
class SampleReader {
  readonly #head: Head
  readonly #paths: readonly string[]
  readonly #points: MapPoint[] = []
  readonly #ids: Int32Array
  readonly #distances: Float32Array

  /** @param line the fields before the points; the list of points is open at its end */
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
    const shown = content.length === keptCharacters ? `${content}…` : content
    this.#points.push({
      id,
      payload: { content_type, content: shown, ...(attributes === undefined ? {} : { attributes }) },
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
