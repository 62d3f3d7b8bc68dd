import { selectAttributes } from '../base/attribute-patch.ts'
import type { AnswerRoom } from '../base/budgets.ts'
import { DatabaseError } from '../base/errors.ts'
import { IdLists, type SearchResults } from '../base/id-lists.ts'
import { idBytes, idFromBytes } from '../base/ids.ts'
import {
  detailBytes,
  type HitDetails,
  type Include,
  type Metric,
  type Payload,
  type Profile,
  type SearchPlan,
  type SearchQuery,
} from '../base/point.ts'
import type { Hit, Hits } from '../index/hits.ts'
import { isScan, type PlannedQuery } from './filter-planner.ts'
import { isOfOneMoment } from './one-moment.ts'
import { type Run, type SearchedPoints, wantsAllFound } from './query-planner.ts'

/**
 * The answers of a request, query by query: hits are checked against what changed since their search began, and get
 * ids and details. Each answer is valid for one moment, that of its last step. Main thread only.
 */
export class SearchAnswers {
  readonly #points: SearchedPoints
  readonly #maxDetailBytes: number
  readonly #answerRoom: AnswerRoom | undefined
  /** The bytes of details that the request may still return. */
  #detailBytesLeft: number
  #ids: Buffer
  #distances: Float64Array
  #sequences: Float64Array
  #count = 0
  readonly #ends: number[] = []
  readonly #details: (readonly HitDetails[] | undefined)[] = []
  readonly #profiles: (Profile | undefined)[] = []
  readonly #plans: (SearchPlan | undefined)[] = []

  /**
   * @param expected the number of results, if no search is repeated
   * @param maxDetailBytes the most bytes of details that the request may return
   * @param answerRoom counts them
   */
  constructor(
    points: SearchedPoints,
    expected: number,
    maxDetailBytes: number,
    answerRoom: AnswerRoom | undefined,
  ) {
    this.#points = points
    this.#maxDetailBytes = maxDetailBytes
    this.#detailBytesLeft = maxDetailBytes
    this.#answerRoom = answerRoom
    this.#ids = Buffer.allocUnsafe(expected * idBytes)
    this.#distances = new Float64Array(expected)
    this.#sequences = new Float64Array(expected)
  }

  /**
   * Adds the answer to the next query in one step, in the usual case: nothing that concerns its hits has changed, and
   * all of them are the answer, without details.
   *
   * @returns whether it was added; if not, use `add`
   */
  addUntouched(run: Run, hits: Hits, list: number): boolean {
    if (!wantsAllFound(run.query) || hits.lengthOf(list) > idsPerStep) return false
    const { metric } = run.query
    const before = this.#count
    const start = hits.startOf(list)
    const end = start + hits.lengthOf(list)
    this.#reserve(end - start)
    for (let at = start; at < end; at += 1)
      this.#push(hits.slots[at]!, hits.sequences[at]!, inUnits(metric, hits.distances[at]!))
    // Only now, because another thread can change points while ids are copied.
    if (this.isTouched(run, hits, list)) {
      this.#count = before
      return false
    }
    this.#end(run, undefined)
    return true
  }

  /**
   * Adds the answer to the next query as of the last step.
   *
   * @returns whether it was added; if not, its search must be repeated
   */
  *add(run: Run, hits: Hits, list: number): Generator<void, boolean> {
    const { query } = run
    const start = this.#count
    const left = this.#detailBytesLeft
    this.#points.hideExpired()
    // Otherwise, nothing needs to be read.
    if (this.isTouched(run, hits, list)) return false
    const found = hits.list(list)
    const details = yield* this.#read(query, wantsAllFound(query) ? found : cutTo(run, found))
    this.#points.hideExpired()
    // Points can have changed between two steps, and reading a payload can make a change take effect.
    if (this.isTouched(run, hits, list)) {
      this.#count = start
      if (this.#detailBytesLeft < left) this.#take(this.#detailBytesLeft - left)
      return false
    }
    this.#end(run, details)
    return true
  }

  /** Returns the answers to all queries. */
  results(): SearchResults {
    return {
      ids: new IdLists(this.#ids, this.#ends),
      distances: this.#distances.subarray(0, this.#count),
      sequences: this.#sequences.subarray(0, this.#count),
      details: this.#details,
      profiles: this.#profiles,
      plans: this.#plans,
    }
  }

  /** Whether a change since the search began may concern the hits. */
  isTouched({ query, planned, near, touched, replacements }: Run, hits: Hits, list: number): boolean {
    if (touched.isNone) return false
    // The point that is searched near may have another vector now.
    if (near !== -1 && touched.now()?.has(near) !== false) return true
    const points = this.#points
    return !isOfOneMoment(touched, hits, list, {
      query: planned,
      isMeasured: query.filter !== undefined || points.searches?.index.replacements !== replacements,
      canMatch: (slot) => points.canMatch(slot, query.filter),
      read: (slot) => points.searches!.index.view(slot),
    })
  }

  /** Adds hits with their ids, and reads what the query includes. */
  *#read(
    { metric, include }: SearchQuery,
    hits: readonly Hit[],
  ): Generator<void, readonly HitDetails[] | undefined> {
    const details: HitDetails[] = []
    this.#reserve(hits.length)
    for (const [rank, { slot, sequence, distance }] of hits.entries()) {
      this.#push(slot, sequence, inUnits(metric, distance))
      if (wantsDetails(include)) details.push(this.#detailsAt(slot, include))
      else if (include !== undefined) details.push(noDetails)
      // Changes made meanwhile are in the journal; everything is then read again.
      if (rank % (wantsDetails(include) ? detailsPerStep : idsPerStep) === 0 && rank > 0) yield
    }
    return include && details
  }

  /** Reads the details of the point that was added last. */
  #detailsAt(slot: number, include: Include): HitDetails {
    const parts = {
      payload: () => this.#points.payload(slot, idFromBytes(this.#ids, (this.#count - 1) * idBytes)),
      vector: () => this.#points.searches!.index.read(slot),
      version: () => this.#points.versionOf(slot),
    }
    const details = detailsOf(parts, include)
    const bytes = detailBytes(details)
    if (bytes > this.#detailBytesLeft) throw tooManyDetails(this.#maxDetailBytes)
    this.#take(bytes)
    return details
  }

  /** @throws DatabaseError `overloaded` */
  #take(bytes: number): void {
    this.#answerRoom?.add(bytes)
    this.#detailBytesLeft -= bytes
  }

  #push(slot: number, sequence: number, distance: number): void {
    const at = this.#count
    this.#points.ids.copyId(slot, this.#ids, at * idBytes)
    this.#distances[at] = distance
    this.#sequences[at] = sequence
    this.#count += 1
  }

  /** Makes room for more results: a repeated search can find more than the first one. */
  #reserve(count: number): void {
    const needed = this.#count + count
    if (needed <= this.#distances.length) return
    const length = Math.max(needed, 2 * this.#distances.length)
    const [ids, distances, sequences] = [this.#ids, this.#distances, this.#sequences]
    this.#ids = Buffer.alloc(length * idBytes)
    this.#ids.set(ids)
    this.#distances = new Float64Array(length)
    this.#distances.set(distances)
    this.#sequences = new Float64Array(length)
    this.#sequences.set(sequences)
  }

  #end({ query, planned, filterUs }: Run, details: readonly HitDetails[] | undefined): void {
    const points = this.#points.searches?.index.liveCount ?? 0
    const { report } = planned
    this.#ends.push(this.#count)
    this.#details.push(details)
    this.#profiles.push(query.profile === true ? profileOf(query, planned, points, filterUs) : undefined)
    const matching = planned.matching?.count ?? points
    this.#plans.push(report && planOf(report, matching, query.filter !== undefined))
  }
}

/** Leaves out the point that is searched near, and hits that are too far away. */
function cutTo({ query, near }: Run, hits: readonly Hit[]): readonly Hit[] {
  const { metric, limit, maxDistance } = query
  const isIn = ({ slot, distance }: Hit): boolean =>
    slot !== near && (maxDistance === undefined || inUnits(metric, distance) <= maxDistance)
  return hits.filter(isIn).slice(0, limit)
}

function tooManyDetails(maxDetailBytes: number): DatabaseError {
  return new DatabaseError(
    'request_too_large',
    `what include asks for takes more than ${maxDetailBytes} bytes, the most of one answer (MAX_BUFFERED_BYTES): ask for fewer results or less of each`,
  )
}

/** Describes for an operator how a query was answered. */
export function profileOf(
  { filter, ef }: SearchQuery,
  { matching, report }: PlannedQuery,
  points: number,
  filterUs: number,
): Profile {
  const work = report!.work
  const count = matching?.count ?? points
  const { plan, reason } = planOf(report!, count, filter !== undefined)
  return {
    plan,
    reason,
    points,
    matching: count,
    compared: work.compared,
    measured: work.measured,
    ef,
    efMultiplier: plan === 'graph' ? report!.plan!.route!.efMultiplier : 1,
    filterUs: filter === undefined ? 0 : Math.round(filterUs),
    queueUs: Math.max(0, Math.round(report!.elapsedUs - work.microseconds)),
    searchUs: Math.round(work.microseconds),
    recallEstimate: plan === 'graph' ? report!.plan!.recall : (report!.plan?.scanRecall ?? 1),
  }
}

function planOf(
  { plan, work }: NonNullable<PlannedQuery['report']>,
  matching: number,
  isFiltered: boolean,
): SearchPlan {
  if (matching === 0)
    return { plan: 'empty', reason: isFiltered ? 'no point matches' : 'there are no points' }
  const scan = isFiltered ? 'scan of matching points' : 'scan of all points'
  if (plan === undefined) return { plan: scan, reason: 'the points are few' }
  if (isScan(plan))
    return { plan: scan, reason: `${plan.reason}${plan.codeScan === undefined ? '' : byCodes}` }
  if (work.hasGivenUp)
    return {
      plan: scan,
      reason: `a walk through the graph found too few points, or cost as much as the scan${plan.codeScan === undefined ? '' : byCodes}`,
    }
  return { plan: 'graph', reason: plan.reason }
}

const byCodes = '; codes are compared first, and the nearest of them exactly'

/** Converts the index's distance to the units of the metric: the index compares squared Euclidean distances. */
function inUnits(metric: Metric, distance: number): number {
  return metric === 'Euclidean' ? Math.sqrt(distance) : distance
}

/** The parts of a point's details; each is read only if requested. */
interface PointParts {
  /** Returns undefined if the point has just been removed. */
  payload(): Payload | undefined
  vector(): Float32Array
  version(): number
}

/** Returns what `include` asks for. If it asks for attributes only, the payload has no content. */
export function detailsOf(parts: PointParts, include: Include): HitDetails {
  return {
    payload: wantsPayload(include) ? selected(parts.payload(), include) : undefined,
    vector: include.vector ? parts.vector() : undefined,
    version: include.version ? parts.version() : undefined,
  }
}

/** Whether an answer contains anything besides ids and distances. */
function wantsDetails(include: Include | undefined): include is Include {
  return include !== undefined && (wantsPayload(include) || include.vector || include.version)
}

export function wantsPayload({ payload, attributes }: Include): boolean {
  return payload || attributes !== undefined
}

function selected(
  payload: Payload | undefined,
  { payload: isWhole, attributes: paths }: Include,
): Payload | undefined {
  if (payload === undefined || (isWhole && (paths === undefined || paths === 'all'))) return payload
  const { content, attributes } = payload
  const shown = paths === 'all' ? attributes : selectAttributes(attributes, paths!)
  // A content that is not shown would be kept in memory until the answer is sent.
  return { ...payload, content: isWhole ? content : '', attributes: shown }
}

export function bytesOfDetails({ details }: SearchResults): number {
  return details.flat().reduce((sum, each) => sum + (each === undefined ? 0 : detailBytes(each)), 0)
}

const noDetails: HitDetails = {}

/** Copying this many ids takes a tenth of a millisecond, because each copy waits for memory. */
const idsPerStep = 512
/** Reading this many payloads takes a few tenths of a millisecond. */
const detailsPerStep = 64
