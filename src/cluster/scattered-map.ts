import { cancellation } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import { sortIdsInTurns } from '../base/id-sort.ts'
import { idBytes, idFromBytes } from '../base/ids.ts'
import type { Include, SearchQuery } from '../base/point.ts'
import { sampleHash, sampleHashes } from '../base/sample-hash.ts'
import type { HitDetails, SearchResults } from '../base/search-results.ts'
import { inTurns } from '../base/turns.ts'
import { holdRows, retriedWhenFull, withContentCut } from '../collections/point-map.ts'
import type { MapQuery, MapRow, PointMap, ReadCall } from '../points/database.ts'
import { sortByOrder } from '../points/insertion-order.ts'
import type { SampledIds } from '../points/point-sample.ts'
import type { ScatteredReads } from './scattered-reads.ts'

/**
 * Samples points on several nodes for a map. Every node chooses the points with the lowest hashes among its own. The
 * points with the lowest hashes of all are among these, so the sample is the one that a node with all points would
 * choose.
 *
 * @param onClose called once when the map is closed
 */
export async function openScatteredMap(
  reads: ScatteredReads,
  query: MapQuery,
  onClose: () => void,
  signal: AbortSignal | undefined,
): Promise<PointMap> {
  const samples = await reads.sample(query, signal)
  const sample = await inTurns(mergedSample(samples, query))
  return new ScatteredMap({ reads: reads.begun(), query, sample, onClose })
}

/** The points of a map. The number of a point is its index. */
interface Sample {
  /** Points that match. */
  readonly points: number
  /** 16 bytes each. */
  readonly ids: Uint8Array
  readonly numbers: ReadonlyMap<string, number>
  /** A filter that the points of the sample match, and hardly any others; undefined: all points. */
  readonly within: Filter | undefined
}

function* mergedSample(
  samples: readonly SampledIds[],
  { filter, limit, seed }: MapQuery,
): Generator<void, Sample> {
  const all = Buffer.concat(samples.map(({ ids }) => ids))
  const count = all.length / idBytes
  const hashes = new Float64Array(count)
  const words = new Uint32Array(idBytes / 4)
  const bytes = new Uint8Array(words.buffer)
  for (let at = 0; at < count; at += 1) {
    bytes.set(all.subarray(at * idBytes, (at + 1) * idBytes))
    hashes[at] = sampleHash(words, seed)
    if (at % idsPerStep === 0) yield
  }
  const sorted = yield* sortByOrder(
    hashes,
    Uint32Array.from({ length: count }, (_, at) => at),
  )
  const sampled = Math.min(count, limit)
  const ids = new Uint8Array(sampled * idBytes)
  const numbers = new Map<string, number>()
  for (let number = 0; number < sampled; number += 1) {
    const from = sorted.slots[number]! * idBytes
    ids.set(all.subarray(from, from + idBytes), number * idBytes)
    numbers.set(idFromBytes(ids, number * idBytes), number)
    if (number % idsPerStep === 0) yield
  }
  const points = samples.reduce((sum, each) => sum + each.points, 0)
  const below = sampled < points ? sorted.orders[sampled - 1]! + 1 : sampleHashes
  return { points, ids, numbers, within: withSample(filter, seed, below) }
}

function withSample(filter: Filter | undefined, seed: number, below: number): Filter | undefined {
  if (below === sampleHashes) return filter
  const chosen: Filter = { kind: 'sample', seed, below }
  return filter === undefined ? chosen : { kind: 'all', of: [filter, chosen] }
}

interface ScatteredMapOptions {
  readonly reads: ScatteredReads
  readonly query: MapQuery
  readonly sample: Sample
  readonly onClose: () => void
}

/**
 * Yields the points of a sample with their nearest neighbours in it, some at a time. The vectors come from the nodes
 * that have them. Every node then searches near all of these in its part of the sample. About a hundred bytes are
 * kept per point, whatever the size of a vector. A point that was deleted meanwhile has no neighbours, and is not the
 * neighbour of any other.
 */
class ScatteredMap implements PointMap {
  readonly points: number
  readonly sampled: number
  readonly #options: ScatteredMapOptions
  #isClosed = false

  constructor(options: ScatteredMapOptions) {
    this.points = options.sample.points
    this.sampled = options.sample.numbers.size
    this.#options = options
  }

  async *rows({ signal, room }: ReadCall = {}): AsyncGenerator<readonly MapRow[], void> {
    for (let from = 0; from < this.sampled; from += rowsPerStep) {
      if (signal?.aborted) throw cancellation(signal)
      const to = Math.min(this.sampled, from + rowsPerStep)
      const [rows, bytes] = await retriedWhenFull(async () => {
        const read = await this.#rows(from, to, signal)
        return [read, holdRows(read, room)] as const
      })
      yield rows
      room?.add(-bytes)
    }
  }

  close(): void {
    if (!this.#isClosed) this.#options.onClose()
    this.#isClosed = true
  }

  async #rows(from: number, to: number, signal: AbortSignal | undefined): Promise<readonly MapRow[]> {
    const bytes = this.#options.sample.ids.slice(from * idBytes, to * idBytes)
    const ids = Array.from({ length: to - from }, (_, at) => idFromBytes(bytes, at * idBytes))
    const details = await this.#details(await inTurns(sortIdsInTurns(bytes)), signal)
    const there = ids.filter((id) => details.get(id)?.vector !== undefined)
    const queries = there.map((id) => this.#near(details.get(id)!.vector!))
    const results = queries.length === 0 ? undefined : await this.#options.reads.search(queries, { signal })
    const listOf = new Map(there.map((id, list) => [id, list]))
    return ids.map((id) => ({
      ...{ id, ...this.#neighbours(id, results, listOf.get(id)) },
      payload: this.#options.query.include && details.get(id)?.payload,
    }))
  }

  /** Reads the vectors of points, and what else the map returns of them. */
  async #details(ids: Uint8Array, signal: AbortSignal | undefined): Promise<ReadonlyMap<string, HitDetails>> {
    const { reads, query } = this.#options
    const include: Include = { ...(query.include ?? nothing), vector: true }
    const all = new Map<string, HitDetails>()
    for (let cursor: string | undefined; ; ) {
      const filter: Filter = { kind: 'ids', ids }
      const page = await reads.list({ filter, limit: rowsPerStep, cursor, include }, { signal })
      for (const { id, payload, vector } of page.points) {
        all.set(id, { vector, payload: withContentCut(payload, query.contentMax) })
      }
      cursor = page.nextCursor
      if (cursor === undefined) return all
    }
  }

  #near(vector: Float32Array): SearchQuery {
    const { query, sample } = this.#options
    const { metric, k, ef } = query
    // The point itself is found too, and left out.
    const limit = k + 1
    return { vector, metric, limit, ef: Math.max(ef, limit), filter: sample.within }
  }

  #neighbours(
    id: string,
    results: SearchResults | undefined,
    list: number | undefined,
  ): Pick<MapRow, 'neighbours' | 'distances'> {
    const neighbours: number[] = []
    const distances: number[] = []
    if (results === undefined || list === undefined) return { neighbours, distances }
    const { ids, distances: found } = results
    const { sample, query } = this.#options
    for (let at = ids.startOf(list); at < ids.endOf(list) && neighbours.length < query.k; at += 1) {
      const other = idFromBytes(ids.bytes, at * idBytes)
      const number = sample.numbers.get(other)
      if (other === id || number === undefined) continue
      neighbours.push(number)
      distances.push(found[at]!)
    }
    return { neighbours, distances }
  }
}

const nothing: Include = { distance: false, payload: false, vector: false, version: false }

/** Points whose neighbours every node searches for at a time. */
const rowsPerStep = 256
/** These take about a tenth of a millisecond. */
const idsPerStep = 1024
