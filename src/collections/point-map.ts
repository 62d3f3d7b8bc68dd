import { setTimeout as sleep } from 'node:timers/promises'
import type { AnswerRoom } from '../base/byte-budget.ts'
import { cancellation, DatabaseError } from '../base/errors.ts'
import { idBytes, idFromBytes } from '../base/ids.ts'
import type { Include, Payload } from '../base/point.ts'
import { inTurns } from '../base/turns.ts'
import type { HitLists } from '../index/hit.ts'
import { noWork } from '../index/searcher.ts'
import { newFilterId, type SlotFilter } from '../index/slot-filter.ts'
import type { VectorIndex } from '../index/vector-index.ts'
import type { MapQuery, MapRow, PointMap, ReadCall } from '../points/database.ts'
import { type SampledPoints, samplePoints } from '../points/point-sample.ts'
import { detailBytes } from '../search/hit-details.ts'
import { inUnits } from '../search/search-answers.ts'
import type { SlotQuery } from '../search/search-pieces.ts'
import type { LivePoints } from './live-points.ts'
import type { PointReader } from './point-reader.ts'

interface PointMapOptions {
  readonly points: LivePoints
  readonly reader: PointReader
  /** Runs a step and keeps the collection open meanwhile; refuses it if the collection is being closed. */
  readonly run: <Result>(step: () => Promise<Result>) => Promise<Result>
  readonly onClose: () => void
}

/** Samples the points of a map. */
export async function openPointMap(
  options: PointMapOptions,
  query: MapQuery,
  signal: AbortSignal | undefined,
): Promise<PointMap> {
  const { points } = options
  await points.hideDue()
  const { set, ...sample } = await inTurns(samplePoints(points, query))
  if (signal?.aborted) throw cancellation(signal)
  const { index, size } = points.table
  const isAll = set.count === size
  const matching = isAll ? undefined : { id: newFilterId(), version: 0, words: set.words, count: set.count }
  return new SampledMap(options, query, { ...sample, index, matching })
}

/** The points of a map. */
interface Sample extends Omit<SampledPoints, 'set'> {
  /** Undefined while there are no points. */
  readonly index: VectorIndex | undefined
  /** The slots that are searched; undefined for all. */
  readonly matching: SlotFilter | undefined
}

/**
 * The points of a sample with their nearest neighbours in it. A search near each point finds its neighbours. The search
 * uses the graph if it serves the metric. Unless the sample has all points, the sample is its filter, so that every hit
 * is in the sample. A few hundred searches run at a time; they share the search threads with all other searches, piece
 * by piece.
 *
 * A map keeps 28 bytes per point. Points can change meanwhile: a point that was removed, or has another vector, has no
 * neighbours from then on and is nobody's neighbour. Main thread only.
 */
class SampledMap implements PointMap {
  readonly points: number
  readonly sampled: number
  readonly #options: PointMapOptions
  readonly #query: MapQuery
  readonly #sample: Sample
  #isClosed = false

  constructor(options: PointMapOptions, query: MapQuery, sample: Sample) {
    this.points = sample.points
    this.sampled = sample.slots.length
    this.#options = options
    this.#query = query
    this.#sample = sample
  }

  async *rows({ signal, room }: ReadCall = {}): AsyncGenerator<readonly MapRow[], void> {
    for (let from = 0; from < this.sampled; from += rowsPerStep) {
      if (signal?.aborted) throw cancellation(signal)
      const to = Math.min(this.sampled, from + rowsPerStep)
      const [rows, bytes] = await retriedWhenFull(async () => {
        const read = await this.#options.run(() => this.#rows(from, to, signal))
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
    await this.#options.points.hideDue()
    const asked: number[] = []
    for (let number = from; number < to; number += 1) if (this.#isThere(number)) asked.push(number)
    const queries = asked.map((number) => this.#near(number))
    const { searches } = this.#options.points
    const hits = queries.length === 0 ? undefined : await searches?.search(queries, signal)
    const listOf = new Map(asked.map((number, list) => [number, list]))
    return await inTurns(this.#read(from, to, (number) => this.#neighbours(number, hits, listOf.get(number))))
  }

  *#read(
    from: number,
    to: number,
    neighboursOf: (number: number) => Pick<MapRow, 'neighbours' | 'distances'>,
  ): Generator<void, readonly MapRow[]> {
    const rows: MapRow[] = []
    for (let number = from; number < to; number += 1) {
      const payload = this.#payload(number)
      rows.push({ id: idFromBytes(this.#sample.ids, number * idBytes), ...neighboursOf(number), payload })
      yield
    }
    return rows
  }

  #near(number: number): SlotQuery {
    const { metric, k, ef } = this.#query
    const { index, slots, matching } = this.#sample
    // The point itself is also found, and left out.
    const limit = k + 1
    return {
      vector: index!.read(slots[number]!),
      metric,
      limit,
      ef: Math.max(ef, limit),
      matching,
      report: matching && { work: noWork(), elapsedUs: 0 },
    }
  }

  #neighbours(
    number: number,
    hits: HitLists | undefined,
    list: number | undefined,
  ): Pick<MapRow, 'neighbours' | 'distances'> {
    const neighbours: number[] = []
    const distances: number[] = []
    if (hits === undefined || list === undefined) return { neighbours, distances }
    const { k, metric } = this.#query
    for (let rank = 0; rank < hits.lengthOf(list) && neighbours.length < k; rank += 1) {
      const other = this.#numberOf(hits.slot(list, rank))
      if (other === -1 || other === number) continue
      if (hits.sequence(list, rank) !== this.#sample.sequences[other]) continue
      neighbours.push(other)
      distances.push(inUnits(metric, hits.distance(list, rank)))
    }
    return { neighbours, distances }
  }

  /** Whether a point still has the vector with which it was sampled. */
  #isThere(number: number): boolean {
    const { index, slots, sequences } = this.#sample
    if (index === undefined || index !== this.#options.points.table.index) return false
    const slot = slots[number]!
    return index.isLive(slot) && index.sequenceOf(slot) === sequences[number]
  }

  /** Returns the number of the point that was sampled in a slot, or -1. */
  #numberOf(slot: number): number {
    const { slots } = this.#sample
    let low = 0
    let high = slots.length - 1
    while (low <= high) {
      const middle = (low + high) >>> 1
      const found = slots[middle]!
      if (found === slot) return middle
      if (found < slot) low = middle + 1
      else high = middle - 1
    }
    return -1
  }

  /** Returns what `include` asks for, wherever the point is now; undefined if it was removed. */
  #payload(number: number): Payload | undefined {
    const include: Include | undefined = this.#query.include
    if (include === undefined) return undefined
    const { points, reader } = this.#options
    // A change that takes effect while the point is read can move it.
    for (let look = 0; look < 2; look += 1) {
      const slot = points.table.findBytes(this.#sample.ids, number * idBytes)
      if (slot === -1) return undefined
      const details = reader.details(slot, include)
      if (details !== undefined) return withContentCut(details.payload, this.#query.contentMax)
    }
    return undefined
  }
}

/**
 * Waits and retries when the queue of searches or the memory for answers is full: a map yields to other requests
 * instead of failing.
 */
export async function retriedWhenFull<Result>(step: () => Promise<Result>): Promise<Result> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await step()
    } catch (error) {
      const isFull = error instanceof DatabaseError && error.reason === 'overloaded'
      if (!isFull || attempt === attemptsMax) throw error
    }
    await sleep(pauseMs)
  }
}

/** Counts rows that have been read; returns their bytes. @throws DatabaseError `overloaded` */
export function holdRows(rows: readonly MapRow[], room: AnswerRoom | undefined): number {
  const bytes = rows.reduce(
    (sum, { payload, neighbours }) => sum + detailBytes({ payload }) + 16 * neighbours.length,
    0,
  )
  room?.add(bytes)
  return bytes
}

/** Returns a payload with at most this many characters of its content. A map shows the beginnings of long contents. */
export function withContentCut(
  payload: Payload | undefined,
  most: number = Number.POSITIVE_INFINITY,
): Payload | undefined {
  if (payload === undefined || payload.content.length <= most) return payload
  const { content } = payload
  // Do not cut between the halves of a surrogate pair.
  const end = (content.charCodeAt(most - 1) & 0xfc00) === 0xd800 ? most - 1 : most
  // A slice of a string keeps all of it in memory.
  return { ...payload, content: Buffer.from(content.slice(0, end), 'utf16le').toString('utf16le') }
}

/** Searches that run at a time: enough to keep all search threads busy between two turns of the main thread. */
const rowsPerStep = 256

/** Allows for a queue that stays full for ten seconds. */
const attemptsMax = 100
const pauseMs = 100
