import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { IdLists, SearchResults } from '../../../src/base/id-lists.ts'
import type { NewPoint, SearchQuery } from '../../../src/base/point.ts'
import { type OpenedCollection, openCollection } from '../../../test/support/collection.ts'
import { attributesAt } from '../../shared/data/attribute-table.ts'
import { rowsOf } from '../../shared/data/rows.ts'
import {
  type BuildAnswer,
  type BuildRequest,
  type Contender,
  type ContenderVariant,
  noId,
  type SearchAnswer,
  type SearchRequest,
  timed,
} from './contender.ts'
import { type FilteredAnswer, type FilteredRequest, timedQueries } from './filtered.ts'

/** Searches on the calling thread, as the libraries do. */
export const vicinalCollection: ContenderVariant = variant('calling thread')

/** Searches on a search thread, as in the service. */
export const vicinalServed: ContenderVariant = variant('search thread')

type Place = 'calling thread' | 'search thread'

function variant(place: Place): ContenderVariant {
  return {
    description: {
      version: 'this working tree',
      flags: `the engine, points with attributes on disk; searches on ${place === 'calling thread' ? 'the calling thread' : 'one search thread'}`,
      buildThreads: 'any',
      searchThreads: 'one search at a time, regardless of the number of threads',
      distanceMetrics: ['Euclidean'],
    },
    create: (folder) => new VicinalCollection(folder, place),
  }
}

/**
 * The service's engine without transports: a collection of points with attributes, in a store on disk. The engine plans
 * each search.
 */
class VicinalCollection implements Contender {
  readonly #folder: string
  readonly #place: Place
  #dimension = 0
  /** Whether recall with filters has been measured or cannot be measured. The first filtered searches trigger it. */
  #hasSettledFilters = false
  #opened!: OpenedCollection

  constructor(folder: string, place: Place) {
    this.#folder = join(folder, 'collection')
    this.#place = place
  }

  async build(request: BuildRequest): Promise<BuildAnswer> {
    rmSync(this.#folder, { recursive: true, force: true })
    await this.#open(request)
    const rows = rowsOf(request.vectors, request.dimension)
    const seconds = await timed(async () => {
      for (let from = 0; from < rows.length; from += rowsAtOnce) {
        const points = rows
          .slice(from, from + rowsAtOnce)
          .map((vector, place): NewPoint => pointOf(vector, from + place, request))
        await this.#opened.collection.insert(points)
      }
      while (this.#opened.collection.stats.unindexed > 0) await sleep(1)
    })
    await this.#settled()
    return { seconds }
  }

  async search({ queries, k, ef }: SearchRequest): Promise<SearchAnswer> {
    const asked = rowsOf(queries, this.#dimension).map(
      (vector): SearchQuery => ({ vector, metric, limit: k, ef: Math.max(k, ef) }),
    )
    const ids = new Uint32Array(asked.length * k).fill(noId)
    const seconds = await timed(async () => {
      for (const [place, query] of asked.entries()) {
        const found = await this.#opened.collection.search([query])
        ids.set(rowsFound(found.ids), place * k)
      }
    })
    return { ids, seconds }
  }

  async searchFiltered({ queries, filters, k, ef, mode }: FilteredRequest): Promise<FilteredAnswer> {
    const asked = rowsOf(queries, this.#dimension).map((vector, query): SearchQuery => {
      const exact = mode === 'exact'
      // Each request has its own filter object, as in the service, so that nothing cached per object is reused.
      const filter = structuredClone(filters[query]!)
      return { vector, metric, limit: k, ef: Math.max(k, ef), filter, exact, profile: true }
    })
    const profiles: NonNullable<SearchResults['profiles'][number]>[] = []
    const found = await timedQueries(
      asked.length,
      k,
      (query) => this.#opened.collection.search([asked[query]!]),
      (results) => {
        profiles.push(results.profiles[0]!)
        return rowsFound(results.ids)
      },
    )
    if (!this.#hasSettledFilters) {
      await sleep(untilMeasuringMs)
      await this.#settled()
      this.#hasSettledFilters = true
    }
    return { ...found, profiles }
  }

  async load(request: Omit<BuildRequest, 'vectors'>): Promise<void> {
    await this.#open(request)
    await this.#settled()
  }

  /** The points are already on disk. Closing the collection writes the graph. */
  async save(): Promise<void> {}

  ownBytes(): number {
    return this.#opened.collection.claimedBytes
  }

  async close(): Promise<void> {
    await this.#opened.close()
  }

  async #open({ dimension, m, efConstruction, threads }: Omit<BuildRequest, 'vectors'>): Promise<void> {
    this.#dimension = dimension
    this.#opened = await openCollection(this.#folder, {
      ...settings,
      inlineBytesMax: this.#place === 'calling thread' ? Number.POSITIVE_INFINITY : 0,
      indexThreads: threads,
      hnswM: m,
      hnswEfConstruction: efConstruction,
    })
  }

  /** Waits until recall has been measured. The engine chooses its plans by it. */
  async #settled(): Promise<void> {
    const { collection } = this.#opened
    for (let quiet = 0; quiet < quietRounds; quiet += 1) {
      if (collection.stats.unindexed > 0 || collection.stats.isSettling) quiet = 0
      await sleep(10)
    }
  }
}

/** The id contains the row number, so that it survives a restart. */
function pointOf(vector: Float32Array, row: number, { attributes }: BuildRequest): NewPoint {
  const id = `00000000-0000-4000-8000-${row.toString(16).padStart(12, '0')}`
  const payload = {
    contentType: 'Text',
    content: `row ${row}`,
    attributes: attributes && attributesAt(attributes, row),
  } as const
  return { vector, payload, id }
}

function rowsFound({ bytes, total }: IdLists): Uint32Array {
  const rows = new Uint32Array(total)
  const view = new DataView(bytes.buffer, bytes.byteOffset)
  for (let number = 0; number < total; number += 1) rows[number] = view.getUint32(number * 16 + 12)
  return rows
}

const metric = 'Euclidean'

const settings = {
  searchThreads: 1,
  maxLimit: 4096,
  hnswEf: 128,
  recallTarget: 0.98,
  maxQueuedQueries: 10_000,
  maxQueuedResults: 1_000_000,
  maxBufferedBytes: 256 * 1024 * 1024,
  maxMemoryBytes: 0,
} as const

/** The number of points per insert. */
const rowsAtOnce = 1000

/** A collection checks twice per second whether to measure. */
const untilMeasuringMs = 600

/** The work that follows the last link starts within a few turns of the event loop. */
const quietRounds = 10
