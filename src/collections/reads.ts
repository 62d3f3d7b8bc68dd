import type { AnswerRoom } from '../base/budgets.ts'
import { cancellation, DatabaseError, internalMessage } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import type { PartitionSet } from '../base/partitions.ts'
import { detailBytes, type HitDetails, type Include, type Payload, type Point } from '../base/point.ts'
import { inTurns } from '../base/turns.ts'
import type { Database, FacetCount, ListPage, ListQuery, ReadCall } from '../points/database.ts'
import { cursorAfter, inInsertionOrder, type OrderedSlot, orderOfCursor } from '../points/insertion-order.ts'
import { detailsOf, wantsPayload } from '../search/search-answers.ts'
import type { PointRecord, Store } from '../storage/store.ts'
import type { TakenPoint } from '../write/requests.ts'
import type { LivePoints } from './live-points.ts'

/** How points are read without a search: one by id, pages of them, counts. */

/**
 * Reads points: vectors from memory, payloads from the store. Between the commit of a group and its changes taking
 * effect, the store is ahead of memory. Reading a point then makes its change take effect immediately, so that nobody
 * sees a vector of one state with the payload of another.
 */
export class PointReader {
  readonly #store: Store
  readonly #points: LivePoints
  readonly #settle: (id: string) => void

  /** @param settle makes a committed change of a point take effect */
  constructor(store: Store, points: LivePoints, settle: (id: string) => void) {
    this.#store = store
    this.#points = points
    this.#settle = settle
  }

  /** Returns the point with this id if it is visible, and matches a filter. */
  get(id: string, filter?: Filter): Point | undefined {
    const found = this.#find(id, filter)
    if (found === undefined) return undefined
    const { slot, record } = found
    const { payload } = record
    return { id, payload, vector: this.#points.vector(slot), version: this.#points.table.versionOf(slot) }
  }

  /** Returns the point with this id as it is stored, even if it has expired and is not deleted yet. */
  stored(id: string): TakenPoint | undefined {
    const found = this.#found(id, () => this.#points.table.slotOf(id))
    if (found === undefined) return undefined
    const { slot, record } = found
    const points = this.#points
    return {
      id,
      sequence: points.table.index!.sequenceOf(slot),
      version: points.table.versionOf(slot),
      order: points.table.orderOf(slot),
      point: { vector: points.vector(slot), payload: record.payload },
    }
  }

  /**
   * Returns the payload of a point if it is visible in this slot. A committed change of the point takes effect first.
   */
  payload(slot: number, id: string): Payload | undefined {
    const found = this.#find(id)
    return found?.slot === slot ? found.record.payload : undefined
  }

  /**
   * Returns what `include` asks for of the visible point in a slot. Returns undefined if a committed change of the
   * point takes effect meanwhile. The journal of attributes then has the slot, and the caller must check whether the
   * point still belongs to its answer.
   */
  details(slot: number, include: Include): HitDetails | undefined {
    const points = this.#points
    const version = points.table.versionOf(slot)
    const payload = wantsPayload(include) ? this.payload(slot, points.table.idOf(slot)) : undefined
    if (wantsPayload(include) && (payload === undefined || points.table.versionOf(slot) !== version))
      return undefined
    return detailsOf(
      { payload: () => payload, vector: () => points.vector(slot), version: () => version },
      include,
    )
  }

  /** Whether a point matches is known without reading it, so it takes no longer than if there were no point. */
  #find(id: string, filter?: Filter): StoredPoint | undefined {
    const points = this.#points
    return this.#found(id, () => {
      const slot = points.table.find(id)
      if (slot === -1 || points.expirations.hasExpired(slot)) return -1
      return filter === undefined || points.matches(slot, filter) ? slot : -1
    })
  }

  #found(id: string, slotOf: () => number): StoredPoint | undefined {
    const points = this.#points
    // The second attempt follows after a committed change of the point has taken effect.
    for (let look = 0; look < 2; look += 1) {
      const slot = slotOf()
      if (slot === -1) return undefined
      const record = this.#store.record(slot, id)
      if (record !== undefined && record.version === points.table.versionOf(slot)) return { slot, record }
      this.#settle(id)
    }
    throw new DatabaseError('internal', internalMessage, {
      cause: new Error(`the record of point ${id} is not the one of its slot`),
    })
  }
}

interface StoredPoint {
  readonly slot: number
  readonly record: PointRecord
}

/**
 * Pages of points in the order of their insertion. Each page is valid for one moment: when it is complete.
 *
 * A page is selected and read in several turns, and points change meanwhile. The attribute index keeps a journal of the
 * slots that were touched. In the last turn, the touched slots that could be on the page are checked again.
 *
 *   journal: ──┬ noted ──────── select, read ────────┬ touched since: dropped, or read again ──> page
 */
export class ListReader {
  readonly #points: LivePoints
  readonly #reader: PointReader

  constructor(points: LivePoints, reader: PointReader) {
    this.#points = points
    this.#reader = reader
  }

  async list(query: ListQuery, { signal, room }: ReadCall = {}): Promise<ListPage> {
    const after = query.cursor === undefined ? 0 : orderOfCursor(query.cursor)
    for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
      if (signal?.aborted) throw cancellation(signal)
      const page = await this.#attempt(query, after, { signal, room })
      if (page !== undefined) return page
    }
    throw new DatabaseError(
      'overloaded',
      'points change too fast for this page: ask for fewer points, or try again later',
    )
  }

  /** Returns a page; undefined if so much has changed meanwhile that the journal no longer reaches back. */
  async #attempt(
    { filter, limit, include, ordered }: ListQuery,
    after: number,
    { signal, room }: ReadCall,
  ): Promise<ListPage | undefined> {
    const points = this.#points
    await points.expirations.hideDue()
    const { position } = points.attributes.journal
    const matching = filter && (await inTurns(points.attributes.evaluate(filter), signal))
    const found = await inInsertionOrder(points.table, matching, { after, limit: limit + 1 })
    const last = found.length > limit ? found[limit - 1]!.order : Number.POSITIVE_INFINITY
    const draft = new Draft({ points, reader: this.#reader, include, filter, after, last, ordered, room })
    await inTurns(draft.read(found.slice(0, limit)))
    const page = await inTurns(draft.complete(position, limit))
    if (page === undefined) draft.drop()
    return page
  }
}

interface DraftOptions {
  readonly points: LivePoints
  readonly reader: PointReader
  readonly include: Include
  readonly filter: Filter | undefined
  /** The page has matching points with an order above this. */
  readonly after: number
  /** The page has matching points with an order up to this; infinite if no matching points follow. */
  readonly last: number
  readonly ordered: boolean | undefined
  /** Counts what is read. */
  readonly room: AnswerRoom | undefined
}

/** A page that is being read. */
class Draft {
  readonly #options: DraftOptions
  readonly #entries = new Map<number, Entry>()
  readonly #orders = new Map<number, number>()
  #last: number
  #bytes = 0

  constructor(options: DraftOptions) {
    this.#options = options
    this.#last = options.last
  }

  *read(found: readonly OrderedSlot[]): Generator<void, void> {
    const { table } = this.#options.points
    for (const { slot, order } of found) {
      // Otherwise the point has left the slot, and the journal has the change.
      if (table.isVisible(slot) && table.orderOf(slot) === order) this.#add(slot, order)
      if (this.#bytes > pageBytesMax) {
        this.#last = order
        return
      }
      yield
    }
  }

  /** Updates the page with the changes in the journal; returns undefined if the journal no longer reaches back. */
  *complete(position: number, limit: number): Generator<void, ListPage | undefined> {
    const { journal } = this.#options.points.attributes
    for (let at = position; at < journal.position; at += 1) {
      if (!journal.reaches(position)) return undefined
      this.#look(journal.slotAt(at))
      if (at % looksPerStep === 0 && journal.position - at > looksPerStep) yield
    }
    return this.#page(limit)
  }

  /** Checks a slot that was touched. */
  #look(slot: number): void {
    const { points, filter, after } = this.#options
    const before = this.#orders.get(slot)
    if (before !== undefined) this.#entries.delete(before)
    this.#orders.delete(slot)
    if (!points.table.isVisible(slot)) return
    const order = points.table.orderOf(slot)
    const isInRange = order > after && order <= this.#last
    if (isInRange && (filter === undefined || points.matches(slot, filter))) this.#add(slot, order)
  }

  #add(slot: number, order: number): void {
    const { points, reader, include, room } = this.#options
    const details = reader.details(slot, include)
    // Otherwise a change has taken effect, and the journal has the slot.
    if (details === undefined) return
    const bytes = detailBytes(details)
    room?.add(bytes)
    this.#bytes += bytes
    this.#entries.set(order, { slot, order, point: { id: points.table.idOf(slot), ...details } })
    this.#orders.set(slot, order)
  }

  /** Gives back the room of a page that is read again. */
  drop(): void {
    this.#options.room?.add(-this.#bytes)
  }

  #page(limit: number): ListPage {
    const { points, ordered } = this.#options
    const entries = [...this.#entries.values()]
      .filter(({ slot }) => !points.expirations.hasExpired(slot))
      .sort((one, other) => one.order - other.order)
    // Points removed meanwhile make this fewer than the limit: the next page then begins behind all of them.
    const next = entries.length > limit ? entries[limit - 1]!.order : this.#last
    const shown = entries.slice(0, limit)
    return {
      points: shown.map(({ point }) => point),
      ...(ordered && { orders: shown.map(({ order }) => order) }),
      nextCursor: next === Number.POSITIVE_INFINITY ? undefined : cursorAfter(next),
    }
  }
}

interface Entry extends OrderedSlot {
  readonly point: ListPage['points'][number]
}

/** Counts the points that match at the moment when the promise resolves. */
export async function countPoints(
  points: LivePoints,
  filter: Filter | undefined,
  signal: AbortSignal | undefined,
): Promise<number> {
  for (;;) {
    if (signal?.aborted) throw cancellation(signal)
    await points.expirations.hideDue()
    const count =
      filter === undefined
        ? points.table.size
        : (await inTurns(points.attributes.evaluate(filter), signal)).count
    // Points that have expired meanwhile no longer count.
    if (!points.expirations.isDue) return count
  }
}

/** See `Database.facets`. */
export async function facetsOf(
  points: LivePoints,
  query: Parameters<Database['facets']>[0],
  { signal, room }: ReadCall = {},
): Promise<ReadonlyMap<string, readonly FacetCount[]>> {
  await points.expirations.hideDue()
  return await inTurns(countValues(points, query, room), signal)
}

/**
 * Evaluates the filter and counts as one piece of work, so that values are counted as of the evaluation of the filter.
 */
function* countValues(
  { attributes }: LivePoints,
  { filter, paths, limit }: Parameters<Database['facets']>[0],
  room: AnswerRoom | undefined,
): Generator<void, ReadonlyMap<string, readonly FacetCount[]>> {
  const within = filter && (yield* attributes.evaluate(filter))
  return yield* attributes.facets(paths, within, limit, room)
}

/** Returns a filter that only points of some partitions match. */
export function within(partitions: PartitionSet, filter: Filter | undefined): Filter {
  const own: Filter = { kind: 'partitions', partitions: partitions.bytes }
  return filter === undefined ? own : { kind: 'all', of: [filter, own] }
}

const attemptsMax = 5
/** A page that exceeds this is shorter than its limit. */
const pageBytesMax = 16 * 1024 * 1024
/** About a tenth of a millisecond. */
const looksPerStep = 256
