import { assert } from '../base/errors.ts'
import { distanceMetrics } from '../base/point.ts'
import { Hits } from '../index/hits.ts'
import { type IndexQuery, noWork, type QueryWork, type SlotRange } from '../index/searcher.ts'
import type { SlotBits } from '../index/slot-filter.ts'

/** A unit of work for a search thread: queries over ranges of slots. */
export interface RingWork {
  /** The id of the index to search. */
  readonly index: number
  readonly queries: readonly IndexQuery[]
  readonly ranges: readonly SlotRange[]
  /** The estimated duration, in microseconds. */
  readonly cost: number
}

/**
 * The shared memory through which a search thread receives its work and returns its hits.
 *
 *   ├ words ─────────────────────┼ places ────────────────┼ records ──────────────────────────────────────────┤
 *   │ bell, asleep, submitted,   │ where record n begins, │ head │ ranges │ queries │ hits of all queries │ … │
 *   │ completed, messages        │ at n mod 64            │      │        │         │                     │   │
 *
 * Records are created, answered and released in the same order. Only the main thread decides where a record is placed,
 * and writes all of it before it counts it as submitted. The worker adds hits where they lie, and counts the record as
 * completed. Each side therefore reads only what the other has finished, and nothing has to be cloned or locked.
 *
 *   record: cancelled, failed, queries, ranges, dimension, cost, index                7 x i32
 *   range:  ordinal, from, to                                                         3 x i32
 *   query:  metric, k, ef, graph (-1: exact scan), distanceKind, efMultiplier, hits found,
 *           filter (0: none), its version, compared at most, whether work is counted,
 *           compared, measured, microseconds, whether a walk gave up, use of codes   16 x i32
 *           vector                                                                    f32 x dimension
 *   hits:   distances, sequences                                                      f64 x (the sum of all k) each
 *           slots                                                                     u32 x (the sum of all k)
 *
 * Ranges, queries and hits start at 8-byte boundaries.
 */
export class SearchRing {
  readonly buffer: SharedArrayBuffer
  readonly #i32: Int32Array
  readonly #u32: Uint32Array
  readonly #f32: Float32Array
  readonly #f64: Float64Array

  constructor(buffer: SharedArrayBuffer) {
    this.buffer = buffer
    this.#i32 = new Int32Array(buffer)
    this.#u32 = new Uint32Array(buffer)
    this.#f32 = new Float32Array(buffer)
    this.#f64 = new Float64Array(buffer)
  }

  /** The bytes available to records. */
  get capacity(): number {
    return this.buffer.byteLength - recordsAt
  }

  get submitted(): number {
    return Atomics.load(this.#i32, words.submitted)
  }

  get completed(): number {
    return Atomics.load(this.#i32, words.completed)
  }

  /** The number of messages posted to the worker's port since the start. */
  get messages(): number {
    return Atomics.load(this.#i32, words.messages)
  }

  /** Returns the address of the record with this number. */
  recordAt(number: number): number {
    return this.#i32[placesAt / 4 + (number & (recordsMax - 1))]!
  }

  /**
   * Main thread: writes a record at `offset` in the records' part, and wakes the worker. Returns the record's address.
   */
  submit(offset: number, work: RingWork): number {
    const at = recordsAt + offset
    this.#write(at, work)
    this.#i32[placesAt / 4 + (this.submitted & (recordsMax - 1))] = at
    Atomics.add(this.#i32, words.submitted, 1)
    this.#ring()
    return at
  }

  /** Main thread: makes the worker read its port. Call after posting to it. */
  announceMessage(): void {
    Atomics.add(this.#i32, words.messages, 1)
    this.#ring()
  }

  /** Worker: sleeps until something arrives; returns immediately if something has arrived since `bell` was read. */
  sleep(bell: number): void {
    Atomics.store(this.#i32, words.asleep, 1)
    Atomics.wait(this.#i32, words.bell, bell)
    Atomics.store(this.#i32, words.asleep, 0)
  }

  get bell(): number {
    return Atomics.load(this.#i32, words.bell)
  }

  /** Main thread: cancels a record whose hits are no longer needed. */
  cancel(at: number): void {
    Atomics.store(this.#i32, at / 4 + head.cancelled, 1)
  }

  isCancelled(at: number): boolean {
    return Atomics.load(this.#i32, at / 4 + head.cancelled) !== 0
  }

  hasFailed(at: number): boolean {
    return Atomics.load(this.#i32, at / 4 + head.failed) !== 0
  }

  /**
   * Worker: reads a record. The vectors are views of it.
   *
   * @param filters the bitmaps that the worker has received
   */
  read(at: number, filters: ReadonlyMap<number, FilterWords>): RingWork {
    const i32 = this.#i32
    const word = at / 4
    const dimension = i32[word + head.dimension]!
    const ranges = Array.from({ length: i32[word + head.ranges]! }, (_, index) => {
      const range = word + headWords + index * rangeWords
      return { ordinal: i32[range]!, from: i32[range + 1]!, to: i32[range + 2]! }
    })
    const queries: IndexQuery[] = []
    let query = firstQueryAt(at, ranges.length)
    for (let index = 0; index < i32[word + head.queries]!; index += 1) {
      queries.push(this.#readQuery(query, dimension, filters))
      query += queryBytes(dimension)
    }
    return { index: i32[word + head.index]!, queries, ranges, cost: this.costOf(at) }
  }

  /** Worker: returns the estimated duration of a record, in microseconds. */
  costOf(at: number): number {
    return this.#i32[at / 4 + head.cost]!
  }

  /** The lists of hits of a record, in its memory. The worker adds to them; the main thread reads a completed record. */
  hits(at: number): Hits {
    const i32 = this.#i32
    const bytes = queryBytes(i32[at / 4 + head.dimension]!)
    const rooms: number[] = []
    const counts: number[] = []
    let total = 0
    let query = firstQueryAt(at, i32[at / 4 + head.ranges]!)
    for (let index = 0; index < i32[at / 4 + head.queries]!; index += 1) {
      const k = i32[query / 4 + field.k]!
      rooms.push(k)
      counts.push(i32[query / 4 + field.found]!)
      total += k
      query += bytes
    }
    const columns = {
      slots: this.#u32.subarray(query / 4 + 4 * total, query / 4 + 5 * total),
      sequences: this.#f64.subarray(query / 8 + total, query / 8 + 2 * total),
      distances: this.#f64.subarray(query / 8, query / 8 + total),
    }
    return new Hits(rooms, columns, counts)
  }

  /**
   * Worker: completes a record.
   *
   * @param hits the record's own lists; undefined if the search failed
   * @param queries whose work is reported
   */
  complete(at: number, hits: Hits | undefined, queries: readonly Pick<IndexQuery, 'work'>[] = []): void {
    const i32 = this.#i32
    if (hits === undefined) Atomics.store(i32, at / 4 + head.failed, 1)
    const bytes = queryBytes(i32[at / 4 + head.dimension]!)
    let query = firstQueryAt(at, i32[at / 4 + head.ranges]!)
    for (let list = 0; hits !== undefined && list < hits.length; list += 1) {
      i32[query / 4 + field.found] = hits.lengthOf(list)
      const work = queries[list]?.work
      if (work !== undefined) this.#writeWork(query / 4, work)
      query += bytes
    }
    Atomics.add(i32, words.completed, 1)
  }

  #writeWork(word: number, { compared, measured, microseconds, hasGivenUp }: QueryWork): void {
    this.#i32[word + field.compared] = compared
    this.#i32[word + field.measured] = measured
    this.#i32[word + field.microseconds] = Math.round(microseconds)
    this.#i32[word + field.hasGivenUp] = Number(hasGivenUp)
  }

  /** Main thread: adds the work done for a completed record to its queries. */
  addWork(at: number, queries: readonly IndexQuery[]): void {
    const i32 = this.#i32
    const dimension = i32[at / 4 + head.dimension]!
    let query = firstQueryAt(at, i32[at / 4 + head.ranges]!)
    for (const { work } of queries) {
      if (work !== undefined) {
        work.compared += i32[query / 4 + field.compared]!
        work.measured += i32[query / 4 + field.measured]!
        work.microseconds += i32[query / 4 + field.microseconds]!
        work.hasGivenUp ||= i32[query / 4 + field.hasGivenUp] === 1
      }
      query += queryBytes(dimension)
    }
  }

  /** Wakes the worker. The flag saves this system call for each record that arrives while the worker is awake. */
  #ring(): void {
    Atomics.add(this.#i32, words.bell, 1)
    if (Atomics.load(this.#i32, words.asleep) === 1) Atomics.notify(this.#i32, words.bell)
  }

  #write(at: number, { index: of, queries, ranges, cost }: RingWork): void {
    const i32 = this.#i32
    const dimension = queries[0]!.vector.length
    i32.set([0, 0, queries.length, ranges.length, dimension, Math.min(cost, 0x7fff_ffff), of], at / 4)
    for (const [index, { ordinal, from, to }] of ranges.entries()) {
      i32.set([ordinal, from, to], at / 4 + headWords + index * rangeWords)
    }
    let query = firstQueryAt(at, ranges.length)
    for (const each of queries) {
      assert(each.vector.length === dimension, 'the queries of a record have one dimension')
      this.#writeQuery(query, each)
      query += queryBytes(dimension)
    }
  }

  #writeQuery(at: number, query: IndexQuery): void {
    const { vector, metric, k, ef, route, matching, comparedMax, codeScan, work } = query
    const word = at / 4
    const i32 = this.#i32
    i32[word + field.metric] = distanceMetrics.indexOf(metric)
    i32[word + field.k] = k
    // A request may have any ef. One that does not fit into 32 bits is a scan, which ignores it.
    i32[word + field.ef] = Math.min(ef, 0x7fff_ffff)
    i32[word + field.graph] = route?.graph ?? -1
    i32[word + field.distanceKind] = route?.distanceKind ?? 0
    i32[word + field.efMultiplier] = route?.efMultiplier ?? 0
    i32[word + field.found] = 0
    i32[word + field.filter] = matching?.id ?? 0
    i32[word + field.version] = matching?.version ?? 0
    i32[word + field.comparedMax] = Math.min(comparedMax ?? i32Max, i32Max)
    i32[word + field.isCounted] = Number(work !== undefined)
    // For so few words, one call of `fill` takes as long as everything else here.
    for (let each = field.compared; each < field.codeScan; each += 1) i32[word + each] = 0
    i32[word + field.codeScan] = codeScanUses.indexOf(codeScan)
    this.#f32.set(vector, word + queryWords)
  }

  #readQuery(at: number, dimension: number, filters: ReadonlyMap<number, FilterWords>): IndexQuery {
    const i32 = this.#i32
    const word = at / 4
    const graph = i32[word + field.graph]!
    const id = i32[word + field.filter]!
    return {
      vector: this.#f32.subarray(word + queryWords, word + queryWords + dimension),
      metric: distanceMetrics[i32[word + field.metric]!]!,
      k: i32[word + field.k]!,
      ef: i32[word + field.ef]!,
      route:
        graph === -1
          ? undefined
          : {
              graph,
              distanceKind: i32[word + field.distanceKind]!,
              efMultiplier: i32[word + field.efMultiplier]!,
            },
      // A filter is dropped before its records are done only together with its index.
      matching:
        id === 0
          ? undefined
          : { id, version: i32[word + field.version]!, words: filters.get(id) ?? noFilterWords },
      comparedMax: i32[word + field.comparedMax]!,
      codeScan: codeScanUses[i32[word + field.codeScan]!],
      work: i32[word + field.isCounted] === 1 ? noWork() : undefined,
    }
  }
}

/** The bitmap of a filter, as a thread received it. */
export type FilterWords = SlotBits['words']

const noFilterWords: FilterWords = new Uint32Array(new SharedArrayBuffer(0))

const i32Max = 0x7fff_ffff

/** The most records in progress; a power of two. */
export const recordsMax = 64

interface RecordSize {
  readonly dimension: number
  readonly queries: number
  /** The most hits of all queries together. */
  readonly hits: number
  readonly ranges: number
}

export function recordBytes({ dimension, queries, hits, ranges }: RecordSize): number {
  return firstQueryAt(0, ranges) + queries * queryBytes(dimension) + roundUp8(hits * hitBytes)
}

export function sizeOf({ queries, ranges }: RingWork): RecordSize {
  const hits = queries.reduce((sum, { k }) => sum + k, 0)
  return { dimension: queries[0]!.vector.length, queries: queries.length, hits, ranges: ranges.length }
}

/** Creates a ring for two records of this many bytes, or many small ones. */
export function createRing(recordBytesMax: number): SearchRing {
  return new SearchRing(
    new SharedArrayBuffer(recordsAt + Math.max(usualRingBytes, roundUp8(2 * recordBytesMax))),
  )
}

/** Dozens of queries of any usual dimension. */
export const usualRingBytes: number = 1024 * 1024

const words = { bell: 0, asleep: 16, submitted: 32, completed: 48, messages: 64 } as const
const placesAt = 320
const recordsAt = placesAt + recordsMax * 4

const head = { cancelled: 0, failed: 1, queries: 2, ranges: 3, dimension: 4, cost: 5, index: 6 } as const
const headWords = 7
const rangeWords = 3
const field = {
  metric: 0,
  k: 1,
  ef: 2,
  graph: 3,
  distanceKind: 4,
  efMultiplier: 5,
  found: 6,
  filter: 7,
  version: 8,
  comparedMax: 9,
  isCounted: 10,
  compared: 11,
  measured: 12,
  microseconds: 13,
  hasGivenUp: 14,
  codeScan: 15,
} as const
const queryWords = 16
const codeScanUses: readonly IndexQuery['codeScan'][] = [undefined, 'instead', 'after']
const hitBytes = 2 * 8 + 4

function firstQueryAt(record: number, ranges: number): number {
  return record + roundUp8((headWords + ranges * rangeWords) * 4)
}

function queryBytes(dimension: number): number {
  return queryWords * 4 + roundUp8(dimension * 4)
}

function roundUp8(bytes: number): number {
  return Math.ceil(bytes / 8) * 8
}

/**
 * Allocates the bytes of a ring. Records are released in the order in which they were taken. Each is contiguous and
 * does not wrap around the end.
 *
 * The first `usual` bytes are preferred: small records stay in them, and so in the caches. The other bytes are for the
 * largest records, and take no memory until such a record is written.
 */
export class RecordSpace {
  readonly #capacity: number
  readonly #usual: number
  readonly #taken: { readonly from: number; readonly to: number }[] = []

  constructor(capacity: number, usual: number = capacity) {
    this.#capacity = capacity
    this.#usual = usual
  }

  /** Takes contiguous bytes and returns their offset; undefined if not that many are free. */
  take(bytes: number): number | undefined {
    const from = this.#find(bytes)
    if (from !== undefined) this.#taken.push({ from, to: from + bytes })
    return from
  }

  /** Releases the oldest record. */
  release(): void {
    this.#taken.shift()
  }

  #find(bytes: number): number | undefined {
    const first = this.#taken[0]?.from ?? 0
    const end = this.#taken.at(-1)?.to ?? 0
    // The taken bytes wrap around the end if the newest record lies before the oldest one.
    if (end > first || this.#taken.length === 0) {
      if (end + bytes <= this.#usual) return end
      if (bytes <= first) return 0
      return end + bytes <= this.#capacity ? end : undefined
    }
    return end + bytes <= first ? end : undefined
  }
}
