import { assert } from '../base/errors.ts'
import { distanceMetrics } from '../base/point.ts'
import { Hits } from '../index/hits.ts'
import { type IndexQuery, noWork, type QueryWork, type SlotRange } from '../index/searcher.ts'
import type { SlotBits } from '../index/slot-filter.ts'

/** A unit of work: queries over ranges of slots. */
export interface BoardWork {
  /** The id of the index to search. */
  readonly index: number
  readonly queries: readonly IndexQuery[]
  readonly ranges: readonly SlotRange[]
  /** The estimated duration, in microseconds. */
  readonly cost: number
}

/** What became of work: its hits, or why it has none. */
export type Outcome = 'done' | 'failed' | 'unknown'

/**
 * The work that one thread has for all search threads, in shared memory. The owner submits; any thread takes.
 *
 *   ├ bell, open work │ state of each place │ record of each place │ its error │ records ──────────────────────────┤
 *                                                                                │ head │ ranges │ queries │ hits │ … │
 *
 *                ┌───────────────────────── owner: withdraw ──────────────────────┐
 *   free ── owner: submit ──> open: its number ── any thread: take ──> taken: the lane ──> done     ── owner: free ──>
 *                                                                         │        └─────> failed: the error
 *                                                                         └──────────────> unknown: to be done elsewhere
 *
 * The state changes by compare-and-exchange, so a piece of work has one thread that does it. The owner alone decides
 * where a record lies, and writes all of it before the place is open; the taker adds the hits where they lie, and only
 * then leaves the place. Each side reads what the other has finished, and nothing is cloned or locked. When a thread
 * has died, the main thread fails what it had taken.
 *
 *   record: cancelled, queries, ranges, dimension, cost, index                        6 x i32
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
export class Board {
  readonly buffer: SharedArrayBuffer
  /** Tells the owner of completed work. */
  readonly bell: Doorbell
  readonly #i32: Int32Array
  readonly #u32: Uint32Array
  readonly #f32: Float32Array
  readonly #f64: Float64Array
  /** Owner: the number of the work that was submitted last. The oldest open work is taken first. */
  #number = 0

  constructor(buffer: SharedArrayBuffer) {
    this.buffer = buffer
    this.bell = new Doorbell(buffer)
    this.#i32 = new Int32Array(buffer)
    this.#u32 = new Uint32Array(buffer)
    this.#f32 = new Float32Array(buffer)
    this.#f64 = new Float64Array(buffer)
  }

  /** The bytes available to records. */
  get capacity(): number {
    return this.buffer.byteLength - recordsAt
  }

  /** Owner: writes a record at `offset` in the records' part, for a free place. Wake a thread afterwards. */
  submit(place: number, offset: number, work: BoardWork): void {
    const at = recordsAt + offset
    this.#write(at, work)
    this.#i32[shared.records + place] = at
    this.#number = (this.#number % (i32Max - 1)) + 1
    Atomics.store(this.#i32, shared.states + place, this.#number)
    Atomics.add(this.#i32, shared.open, 1)
  }

  /** Owner: takes open work back. Returns whether no thread had taken it. */
  withdraw(place: number): boolean {
    const state = Atomics.load(this.#i32, shared.states + place)
    return state > 0 && this.#leaveOpen(place, state, free)
  }

  /** Owner: asks the thread that has taken the work to stop early. */
  cancel(place: number): void {
    Atomics.store(this.#i32, this.#head(place) + head.cancelled, 1)
  }

  stateOf(place: number): 'free' | 'open' | 'taken' | Outcome {
    const state = Atomics.load(this.#i32, shared.states + place)
    if (state === free) return 'free'
    if (state > 0) return 'open'
    return state > outcomesFrom ? 'taken' : outcomes[outcomesFrom - state]!
  }

  /** Owner: frees the place of work whose outcome was read. */
  free(place: number): void {
    Atomics.store(this.#i32, shared.states + place, free)
  }

  /**
   * Takes the oldest open work; undefined if there is none.
   *
   * @param lane that of the thread, from 0
   * @param costMax dearer work is left to others, in microseconds
   */
  take(lane: number, costMax: number = i32Max): number | undefined {
    const i32 = this.#i32
    for (let open = Atomics.load(i32, shared.open); open > 0; open = Atomics.load(i32, shared.open)) {
      let oldest = i32Max
      let place = -1
      for (let each = 0; each < placesMax && open > 0; each += 1) {
        const state = Atomics.load(i32, shared.states + each)
        if (state <= 0) continue
        open -= 1
        // What is read of a record that is withdrawn meanwhile does not matter: it is not taken then.
        if (state >= oldest || this.costOf(each) > costMax) continue
        oldest = state
        place = each
      }
      if (place === -1) return undefined
      if (this.#leaveOpen(place, oldest, -1 - lane)) return place
    }
    return undefined
  }

  #leaveOpen(place: number, state: number, to: number): boolean {
    const isOurs = Atomics.compareExchange(this.#i32, shared.states + place, state, to) === state
    if (isOurs) Atomics.sub(this.#i32, shared.open, 1)
    return isOurs
  }

  /** Main thread: fails what a thread had taken that has ended. */
  abandon(lane: number, error: unknown): void {
    for (let place = 0; place < placesMax; place += 1) {
      if (Atomics.load(this.#i32, shared.states + place) === -1 - lane) this.fail(place, error)
    }
    this.bell.ring()
  }

  isCancelled(place: number): boolean {
    return Atomics.load(this.#i32, this.#head(place) + head.cancelled) !== 0
  }

  /** Taker: returns the estimated duration of work, in microseconds. */
  costOf(place: number): number {
    return this.#i32[this.#head(place) + head.cost]!
  }

  #head(place: number): number {
    return this.#i32[shared.records + place]! / 4
  }

  #firstQuery(place: number): number {
    const at = this.#head(place)
    return firstQueryAt(at * 4, this.#i32[at + head.ranges]!)
  }

  /**
   * Taker: reads the work. The vectors are views of the record.
   *
   * @param filters the bitmaps that the thread knows
   * @returns undefined if it does not know one of them
   */
  read(place: number, filters: ReadonlyMap<number, FilterWords>): BoardWork | undefined {
    const i32 = this.#i32
    const at = this.#head(place)
    const dimension = i32[at + head.dimension]!
    const ranges = Array.from({ length: i32[at + head.ranges]! }, (_, index) => {
      const range = at + headWords + index * rangeWords
      return { ordinal: i32[range]!, from: i32[range + 1]!, to: i32[range + 2]! }
    })
    const queries: IndexQuery[] = []
    let query = this.#firstQuery(place)
    for (let index = 0; index < i32[at + head.queries]!; index += 1) {
      const each = this.#readQuery(query, dimension, filters)
      if (each === undefined) return undefined
      queries.push(each)
      query += queryBytes(dimension)
    }
    return { index: i32[at + head.index]!, queries, ranges, cost: this.costOf(place) }
  }

  /** The lists of hits of a record, in its memory. The taker adds to them; the owner reads those of completed work. */
  hits(place: number): Hits {
    const i32 = this.#i32
    const at = this.#head(place)
    const bytes = queryBytes(i32[at + head.dimension]!)
    const rooms: number[] = []
    const counts: number[] = []
    let total = 0
    let query = this.#firstQuery(place)
    for (let index = 0; index < i32[at + head.queries]!; index += 1) {
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
   * Taker: completes the work.
   *
   * @param hits the record's own lists
   * @param queries whose work is reported
   */
  complete(place: number, hits: Hits, queries: readonly Pick<IndexQuery, 'work'>[] = []): void {
    const i32 = this.#i32
    const bytes = queryBytes(i32[this.#head(place) + head.dimension]!)
    let query = this.#firstQuery(place)
    for (let list = 0; list < hits.length; list += 1) {
      i32[query / 4 + field.found] = hits.lengthOf(list)
      const work = queries[list]?.work
      if (work !== undefined) this.#writeWork(query / 4, work)
      query += bytes
    }
    this.#leave(place, 'done')
  }

  /** Taker: the work could not be done. */
  fail(place: number, error: unknown): void {
    const text = Buffer.from(error instanceof Error ? (error.stack ?? error.message) : String(error))
    const at = errorsAt + place * errorBytes
    new Uint8Array(this.buffer, at, errorBytes).fill(0).set(text.subarray(0, errorBytes))
    this.#leave(place, 'failed')
  }

  /** Taker: this thread does not know the index, or a filter. */
  giveUp(place: number): void {
    this.#leave(place, 'unknown')
  }

  #leave(place: number, outcome: Outcome): void {
    Atomics.store(this.#i32, shared.states + place, outcomesFrom - outcomes.indexOf(outcome))
  }

  /** Owner: returns why work failed. */
  errorOf(place: number): Error {
    const text = Buffer.from(new Uint8Array(this.buffer, errorsAt + place * errorBytes, errorBytes).slice())
    return new Error(text.toString().replace(/\0+$/u, ''))
  }

  #writeWork(word: number, { compared, measured, microseconds, hasGivenUp }: QueryWork): void {
    this.#i32[word + field.compared] = compared
    this.#i32[word + field.measured] = measured
    this.#i32[word + field.microseconds] = Math.round(microseconds)
    this.#i32[word + field.hasGivenUp] = Number(hasGivenUp)
  }

  /** Owner: adds the work done for a completed record to its queries. */
  addWork(place: number, queries: readonly IndexQuery[]): void {
    const i32 = this.#i32
    const dimension = i32[this.#head(place) + head.dimension]!
    let query = this.#firstQuery(place)
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

  #write(at: number, { index: of, queries, ranges, cost }: BoardWork): void {
    const i32 = this.#i32
    const dimension = queries[0]!.vector.length
    i32.set([0, queries.length, ranges.length, dimension, Math.min(cost, i32Max), of], at / 4)
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
    i32[word + field.ef] = Math.min(ef, i32Max)
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

  #readQuery(
    at: number,
    dimension: number,
    filters: ReadonlyMap<number, FilterWords>,
  ): IndexQuery | undefined {
    const i32 = this.#i32
    const word = at / 4
    const graph = i32[word + field.graph]!
    const id = i32[word + field.filter]!
    const words = filters.get(id)
    if (id !== 0 && words === undefined) return undefined
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
      matching: words && { id, version: i32[word + field.version]!, words },
      comparedMax: i32[word + field.comparedMax]!,
      codeScan: codeScanUses[i32[word + field.codeScan]!],
      work: i32[word + field.isCounted] === 1 ? noWork() : undefined,
    }
  }
}

/** The bitmap of a filter, as a thread received it. */
export type FilterWords = SlotBits['words']

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

export function sizeOf({ queries, ranges }: BoardWork): RecordSize {
  const hits = queries.reduce((sum, { k }) => sum + k, 0)
  return { dimension: queries[0]!.vector.length, queries: queries.length, hits, ranges: ranges.length }
}

/** Creates a board for two records of this many bytes, or many small ones. */
export function createBoard(recordBytesMax: number): Board {
  return new Board(new SharedArrayBuffer(recordsAt + Math.max(usualBytes, roundUp8(2 * recordBytesMax))))
}

/** Dozens of queries of any usual dimension. The system adds pages when they are first written. */
const usualBytes = 1024 * 1024

/** The most work that is open, taken or not yet collected. */
export const placesMax = 64

/** Of the stack of an error. */
const errorBytes = 512

const i32Max = 0x7fff_ffff
const free = 0
/** The states of ended work: this and below. */
const outcomesFrom = -0x4000_0000
const outcomes: readonly Outcome[] = ['done', 'failed', 'unknown']

/** After the words of the bell; words that several threads write have a cache line of their own. */
const shared = { open: 16, states: 32, records: 32 + placesMax } as const
const errorsAt = (shared.records + placesMax) * 4
const recordsAt = errorsAt + placesMax * errorBytes

const head = { cancelled: 0, queries: 1, ranges: 2, dimension: 3, cost: 4, index: 5 } as const
const headWords = 6
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
 * Wakes a thread when others have completed work. Its event loop must never block, so it listens with
 * `Atomics.waitAsync`. While it does not listen, ringing costs nothing, and it later collects everything that several
 * threads have completed meanwhile.
 */
export class Doorbell {
  readonly buffer: SharedArrayBuffer
  readonly #words: Int32Array

  /** @param buffer whose first two words are the bell's */
  constructor(buffer: SharedArrayBuffer = new SharedArrayBuffer(8)) {
    this.buffer = buffer
    this.#words = new Int32Array(buffer, 0, 2)
  }

  /** Other threads: reports completed work. */
  ring(): void {
    if (Atomics.exchange(this.#words, armedWord, 0) === 0) return
    Atomics.add(this.#words, bellWord, 1)
    Atomics.notify(this.#words, bellWord)
  }

  /**
   * The thread itself: the next ring calls `listener` once. Afterwards, check for work that was completed before this
   * call.
   */
  listen(listener: () => void): void {
    const bell = Atomics.load(this.#words, bellWord)
    Atomics.store(this.#words, armedWord, 1)
    const rung = Atomics.waitAsync(this.#words, bellWord, bell)
    if (rung.async) rung.value.then(listener)
    else queueMicrotask(listener)
  }
}

const armedWord = 0
const bellWord = 1

/** Allocates the bytes of a board's records: each in the first gap, so that small ones stay in the caches. */
export class RecordSpace {
  readonly #capacity: number
  /** In the order of their addresses. */
  readonly #taken: { readonly from: number; readonly to: number }[] = []

  constructor(capacity: number) {
    this.#capacity = capacity
  }

  /** Takes contiguous bytes and returns their offset; undefined if not that many are free. */
  take(bytes: number): number | undefined {
    let from = 0
    let at = 0
    for (; at < this.#taken.length && this.#taken[at]!.from - from < bytes; at += 1)
      from = this.#taken[at]!.to
    if (from + bytes > this.#capacity) return undefined
    this.#taken.splice(at, 0, { from, to: from + bytes })
    return from
  }

  /** Releases what begins at an offset. */
  release(from: number): void {
    this.#taken.splice(
      this.#taken.findIndex((each) => each.from === from),
      1,
    )
  }
}
