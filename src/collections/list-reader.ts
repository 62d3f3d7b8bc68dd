import type { AnswerRoom } from '../base/byte-budget.ts'
import { cancellation, DatabaseError } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import type { Include } from '../base/point.ts'
import { inTurns } from '../base/turns.ts'
import type { ListPage, ListQuery, ReadCall } from '../points/database.ts'
import { cursorAfter, inInsertionOrder, type OrderedSlot, orderOfCursor } from '../points/insertion-order.ts'
import { detailBytes } from '../search/hit-details.ts'
import type { LivePoints } from './live-points.ts'
import type { PointReader } from './point-reader.ts'

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
      const page = await this.#attempt(query, after, room)
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
    room: AnswerRoom | undefined,
  ): Promise<ListPage | undefined> {
    const points = this.#points
    await points.hideDue()
    const { position } = points.attributes.journal
    const matching = filter && (await inTurns(points.attributes.evaluate(filter)))
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
    const order = points.orderOf(slot)
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
    this.#entries.set(order, { slot, order, point: { id: points.idOf(slot), ...details } })
    this.#orders.set(slot, order)
  }

  /** Gives back the room of a page that is read again. */
  drop(): void {
    this.#options.room?.add(-this.#bytes)
  }

  #page(limit: number): ListPage {
    const { points, ordered } = this.#options
    const entries = [...this.#entries.values()]
      .filter(({ slot }) => !points.hasExpired(slot))
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

const attemptsMax = 5
/** A page that exceeds this is shorter than its limit. */
const pageBytesMax = 16 * 1024 * 1024
/** About a tenth of a millisecond. */
const looksPerStep = 256
