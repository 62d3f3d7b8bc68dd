import { cancellation, DatabaseError } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import type { Include } from '../base/point.ts'
import { inTurns } from '../base/turns.ts'
import { cursorAfter, orderOfCursor } from './cursor.ts'
import type { ListPage, ListQuery } from './database.ts'
import { detailBytes } from './hit-details.ts'
import { inInsertionOrder, type OrderedSlot } from './insertion-order.ts'
import type { LivePoints } from './live-points.ts'
import type { PointReader } from './point-reader.ts'

/**
 * Pages of points in the order of their insertion, each as of one moment: when it is complete.
 *
 * A page is selected and read in turns, and points change meanwhile. The attribute index keeps a journal of the slots that
 * were touched: in the last turn, those of them that the page is about are looked at again.
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

  async list(query: ListQuery, signal?: AbortSignal): Promise<ListPage> {
    const after = query.cursor === undefined ? 0 : orderOfCursor(query.cursor)
    for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
      if (signal?.aborted) throw cancellation(signal)
      const page = await this.#attempt(query, after)
      if (page !== undefined) return page
    }
    throw new DatabaseError(
      'overloaded',
      'points change too fast for this page: ask for fewer points, or try again later',
    )
  }

  /** A page; undefined if so much has changed meanwhile that the journal has run over. */
  async #attempt(
    { filter, limit, include, ordered }: ListQuery,
    after: number,
  ): Promise<ListPage | undefined> {
    const points = this.#points
    await points.hideDue()
    const { position } = points.attributes.journal
    const matching = filter && (await inTurns(points.attributes.evaluate(filter)))
    const found = await inInsertionOrder(points.table, matching, { after, limit: limit + 1 })
    const last = found.length > limit ? found[limit - 1]!.order : Number.POSITIVE_INFINITY
    const draft = new Draft({ points, reader: this.#reader, include, filter, after, last, ordered })
    await inTurns(draft.read(found.slice(0, limit)))
    return await inTurns(draft.complete(position, limit))
  }
}

interface DraftOptions {
  readonly points: LivePoints
  readonly reader: PointReader
  readonly include: Include
  readonly filter: Filter | undefined
  /** The page has matching points with a higher order than this. */
  readonly after: number
  /** Up to this one; infinite if there are no others at its end. */
  readonly last: number
  readonly ordered: boolean | undefined
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
      // Otherwise the point has left the slot: the journal says so.
      if (table.isVisible(slot) && table.orderOf(slot) === order) this.#add(slot, order)
      if (this.#bytes > pageBytesMax) {
        this.#last = order
        return
      }
      yield
    }
  }

  /** Brings the page up to date with what the journal has; undefined if that has run over. */
  *complete(position: number, limit: number): Generator<void, ListPage | undefined> {
    const { journal } = this.#options.points.attributes
    for (let at = position; at < journal.position; at += 1) {
      if (!journal.reaches(position)) return undefined
      this.#look(journal.slotAt(at))
      if (at % looksPerStep === 0 && journal.position - at > looksPerStep) yield
    }
    return this.#page(limit)
  }

  /** Looks at a slot that was touched. */
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
    const { points, reader, include } = this.#options
    const details = reader.details(slot, include)
    // Otherwise the journal has the slot now.
    if (details === undefined) return
    this.#bytes += detailBytes(details)
    this.#entries.set(order, { slot, order, point: { id: points.idOf(slot), ...details } })
    this.#orders.set(slot, order)
  }

  #page(limit: number): ListPage {
    const { points, ordered } = this.#options
    const entries = [...this.#entries.values()]
      .filter(({ slot }) => !points.hasExpired(slot))
      .sort((one, other) => one.order - other.order)
    // Fewer than the limit when points have been removed meanwhile: the next page goes on behind all of them.
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
/** A page with more is shorter than its limit. */
const pageBytesMax = 16 * 1024 * 1024
/** About a tenth of a millisecond. */
const looksPerStep = 256
