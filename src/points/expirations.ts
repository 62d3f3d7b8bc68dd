import { MemoryCount } from '../attributes/memory-count.ts'
import { SlotGroup } from '../attributes/slot-group.ts'
import type { Logger } from '../base/log.ts'
import { Turn } from '../base/turns.ts'

interface ExpirationOptions {
  /** Microseconds since 1970. */
  readonly clock: () => number
  /** The clock of the timer, if `clock` is that of a log. */
  readonly systemUs?: () => number
  /** Called when points are due by the system's clock but not yet by that of the log. */
  readonly onDue?: (() => void) | undefined
  /** When a visible point expires, in microseconds since 1970; undefined if never. */
  readonly expiryOf: (slot: number) => number | undefined
  /** Hides a point from readers. */
  readonly hide: (slot: number) => void
  /** Deletes some of the hidden points; resolves when that is durable, with how many were to be deleted. */
  readonly deleteSome: () => Promise<number>
  /** The delay before deleting is tried again after a failure; tests use a few milliseconds. */
  readonly retryMs?: number | undefined
  readonly logger: Logger
}

/**
 * Tracks points that expire.
 *
 *   waiting ──> due: hidden, by the next read or by a timer ──> deleted on disk in groups, the slot is free
 *
 * A hidden point keeps its slot until its deletion is durable. If the process restarts before that, the point is loaded
 * again and is immediately due.
 *
 * A decided change that renews a point postpones its expiry immediately, before the change is stored. Otherwise the
 * point would be missing from reads from its old expiry until the change takes effect, although it is there both before
 * and after.
 *
 * Time comes from the system's clock or the log's, as it is now: the system's clock can go back. A point that was found
 * to be expired is hidden in the same turn, so it stays expired then, and every other point lives until the clock
 * reaches its moment. Main thread only.
 */
export class Expirations {
  readonly #options: ExpirationOptions
  /** The visible points that expire. */
  readonly #queue = new ExpiryQueue()
  readonly #memory = new MemoryCount()
  /** The slots of hidden points. */
  readonly #hidden = new SlotGroup(this.#memory)
  /**
   * By slot of a visible point: the expiry that a decided change gives it, or `never`. A map, because it has few entries
   * in slots far apart, and only for the time of a group.
   */
  readonly #postponed = new Map<number, number>()
  #isDeleting = false
  #hasFailed = false
  #retry: NodeJS.Timeout | undefined
  #timer: NodeJS.Timeout | undefined
  /** When the timer ends. */
  #timerUs = Number.POSITIVE_INFINITY
  #isStarted = false

  constructor(options: ExpirationOptions) {
    this.#options = options
  }

  /** Begins to hide and delete points without being asked. Call when all points are loaded. */
  start(): void {
    this.#isStarted = true
    this.#setTimer()
    void this.#deleteAll()
  }

  /** Nothing is hidden or deleted automatically any more. */
  close(): void {
    this.#isStarted = false
    clearTimeout(this.#timer)
    clearTimeout(this.#retry)
  }

  get hiddenCount(): number {
    return this.#hidden.count
  }

  get memoryBytes(): number {
    return this.#queue.memoryBytes + this.#memory.bytes + this.#postponed.size * postponedCost
  }

  get nowUs(): number {
    return this.#options.clock()
  }

  /** When a visible point expires next; infinity if none does. */
  get nextUs(): number {
    return this.#queue.next ?? never
  }

  isHidden(slot: number): boolean {
    return this.#hidden.has(slot)
  }

  /** When the visible point in a slot expires, in microseconds since 1970; undefined if never. */
  expiryOf(slot: number): number | undefined {
    const expiresAtUs = this.#postponed.get(slot) ?? this.#options.expiryOf(slot)
    return expiresAtUs === never ? undefined : expiresAtUs
  }

  /** Whether the point in a slot has expired. If so, it is hidden now, and stays expired. */
  hasExpired(slot: number): boolean {
    if (this.isHidden(slot)) return true
    const expiresAtUs = this.expiryOf(slot)
    if (expiresAtUs === undefined || expiresAtUs > this.nowUs) return false
    this.#hide(slot)
    void this.#deleteAll()
    return true
  }

  /** Call when the point in a slot was placed or changed. A hidden point stays hidden. */
  set(slot: number, expiresAtUs: number | undefined): void {
    this.#postponed.delete(slot)
    if (this.isHidden(slot)) return
    if (expiresAtUs === undefined) this.#queue.remove(slot)
    else {
      this.#queue.push(slot, expiresAtUs)
      this.#setTimer()
    }
  }

  /**
   * Call when a change has been decided that gives the visible point in a slot this expiry. The point stays visible
   * until then, unless the change fails: see `endPostponement`. A change to an earlier expiry has no effect yet.
   */
  postpone(slot: number, expiresAtUs: number | undefined): void {
    const beforeUs = this.expiryOf(slot)
    const untilUs = expiresAtUs ?? never
    if (beforeUs === undefined || untilUs <= beforeUs || this.isHidden(slot)) return
    this.#postponed.set(slot, untilUs)
    if (untilUs === never) this.#queue.remove(slot)
    else this.#queue.push(slot, untilUs)
  }

  /** Call when a decided change has failed. Its point expires as before, or is due if that moment has passed. */
  endPostponement(slot: number): void {
    if (!this.#postponed.delete(slot)) return
    this.#queue.push(slot, this.expiryOf(slot)!)
    this.#setTimer()
  }

  /** Call when all changes of a group have taken effect or failed. */
  async endPostponements(): Promise<void> {
    const turn = new Turn()
    for (const slot of this.#postponed.keys()) {
      this.endPostponement(slot)
      if (turn.isOver) await turn.next()
    }
  }

  /** Call when the point has left its slot. */
  clear(slot: number): void {
    this.#postponed.delete(slot)
    if (this.isHidden(slot)) this.#hidden.delete(slot)
    else this.#queue.remove(slot)
  }

  /** Hides all due points; undefined if none remain. */
  hideDue(): Promise<void> | undefined {
    this.hideNow()
    return this.isDue ? this.#hideRest() : undefined
  }

  /** Hides due points for at most a few milliseconds. */
  hideNow(): void {
    if (!this.isDue) return
    for (let hidden = 0; hidden < hiddenPerCall && this.#hideNext(); hidden += 1);
    this.#setTimer()
    void this.#deleteAll()
  }

  async #hideRest(): Promise<void> {
    const turn = new Turn()
    // `hideNow` has just used this turn.
    await turn.next()
    while (this.#hideNext()) if (turn.isOver) await turn.next()
    this.#setTimer()
    void this.#deleteAll()
  }

  /** Whether there are points to hide. */
  get isDue(): boolean {
    const nextUs = this.#queue.next
    return nextUs !== undefined && nextUs <= this.nowUs
  }

  /** Whether points are due by the system's clock but not by that of the log. */
  get isDueSoon(): boolean {
    const { systemUs } = this.#options
    const nextUs = this.#queue.next
    return systemUs !== undefined && nextUs !== undefined && nextUs > this.nowUs && nextUs <= systemUs()
  }

  /** Hides one point that is due; false if there is none. */
  #hideNext(): boolean {
    const slot = this.#queue.popDue(this.nowUs)
    if (slot === undefined) return false
    this.#hide(slot)
    return true
  }

  #hide(slot: number): void {
    this.#queue.remove(slot)
    this.#postponed.delete(slot)
    this.#hidden.add(slot)
    this.#options.hide(slot)
  }

  /**
   * Returns the slots of some hidden points, to be deleted next. If they are not, they are returned again.
   *
   * @param isWanted whether a point may be deleted now
   */
  takeHidden(limit: number, isWanted: (slot: number) => boolean = () => true): readonly number[] {
    const taken: number[] = []
    for (const slot of this.#hidden) {
      if (taken.length === limit) break
      if (isWanted(slot)) taken.push(slot)
    }
    return taken
  }

  /** Deletes hidden points, group by group. Failures are retried later; nobody sees the points meanwhile. */
  async #deleteAll(): Promise<void> {
    if (this.#isDeleting) return
    this.#isDeleting = true
    try {
      while (this.#hidden.count > 0 && this.#isStarted) {
        if ((await this.#options.deleteSome()) === 0) break
        this.#hasFailed = false
      }
    } catch (error) {
      // Logged once, however often it fails.
      if (!this.#hasFailed && this.#isStarted) {
        const { logger } = this.#options
        logger.warn({ err: error }, 'expired points cannot be deleted on disk yet: they stay hidden')
      }
      this.#hasFailed = true
    } finally {
      this.#isDeleting = false
    }
    if (this.#hidden.count === 0 || !this.#isStarted) return
    clearTimeout(this.#retry)
    this.#retry = setTimeout(() => void this.#deleteAll(), this.#options.retryMs ?? retryMs).unref()
  }

  /** Sets the timer to when the next point is due. */
  #setTimer(): void {
    const nextUs = this.#queue.next
    if (nextUs === undefined || nextUs >= this.#timerUs || !this.#isStarted) return
    clearTimeout(this.#timer)
    this.#timerUs = nextUs
    const { systemUs, onDue } = this.#options
    const ms = Math.ceil((nextUs - (systemUs?.() ?? this.nowUs)) / 1000)
    const msMin = onDue === undefined ? 1 : logMs
    this.#timer = setTimeout(() => this.#onTimer(), Math.min(Math.max(ms, msMin), timeoutMsMax)).unref()
  }

  #onTimer(): void {
    this.#timerUs = Number.POSITIVE_INFINITY
    void this.hideDue()
    if (this.isDueSoon) this.#options.onDue?.()
    this.#setTimer()
  }
}

const never = Number.POSITIVE_INFINITY
const retryMs = 5000
/** About as many bytes as an entry of a map takes. */
const postponedCost = 48
/** A few milliseconds of hiding. */
const hiddenPerCall = 1024
/** The minimum delay before the log is asked again to move its clock forward. */
const logMs = 20
/** The longest delay that Node's timers support. */
const timeoutMsMax = 2 ** 31 - 1

/**
 * A priority queue of expiring slots, soonest first. A binary heap holds (moment, slot) in typed arrays, 12 bytes an
 * entry. Pages hold the heap position of each slot, 4 bytes a slot; a page exists only if it was ever needed.
 */
export class ExpiryQueue {
  #moments = new Float64Array(sizeMin)
  #slots = new Uint32Array(sizeMin)
  /** By slot, in pages: the heap position of its entry plus one; 0 if it has none. */
  readonly #positions: (Uint32Array | undefined)[] = []
  #count = 0

  /** Number of slots that expire. */
  get count(): number {
    return this.#count
  }

  get memoryBytes(): number {
    const pages = this.#positions.reduce((sum, page) => sum + (page?.byteLength ?? 0), 0)
    return this.#moments.byteLength + this.#slots.byteLength + pages
  }

  /** When the next slot expires, in microseconds; undefined if none does. */
  get next(): number | undefined {
    return this.#count === 0 ? undefined : this.#moments[0]
  }

  /** Sets when a slot expires, replacing any earlier time. */
  push(slot: number, expiresAtUs: number): void {
    this.remove(slot)
    this.#makeRoom(slot)
    this.#count += 1
    this.#rise(this.#count - 1, expiresAtUs, slot)
  }

  /** Removes a slot from the queue. Idempotent. */
  remove(slot: number): void {
    const page = this.#positions[slot >>> pageBits]
    const position = (page?.[slot & pageMask] ?? 0) - 1
    if (page === undefined || position === -1) return
    page[slot & pageMask] = 0
    this.#count -= 1
    if (position === this.#count) return
    const moment = this.#moments[this.#count]!
    const moved = this.#slots[this.#count]!
    if (position > 0 && this.#moments[(position - 1) >> 1]! > moment) this.#rise(position, moment, moved)
    else this.#sink(position, moment, moved)
  }

  /** Removes and returns the first slot that has expired at a given time; undefined if none has. */
  popDue(nowUs: number): number | undefined {
    if (this.#count === 0 || this.#moments[0]! > nowUs) return undefined
    const slot = this.#slots[0]!
    this.remove(slot)
    return slot
  }

  /** Moves an entry up from this position to where it belongs. */
  #rise(from: number, moment: number, slot: number): void {
    let position = from
    while (position > 0) {
      const parent = (position - 1) >> 1
      if (this.#moments[parent]! <= moment) break
      this.#place(position, this.#moments[parent]!, this.#slots[parent]!)
      position = parent
    }
    this.#place(position, moment, slot)
  }

  /** Moves an entry down from this position to where it belongs. */
  #sink(from: number, moment: number, slot: number): void {
    let position = from
    for (let child = position * 2 + 1; child < this.#count; child = position * 2 + 1) {
      const sooner =
        child + 1 < this.#count && this.#moments[child + 1]! < this.#moments[child]! ? child + 1 : child
      if (this.#moments[sooner]! >= moment) break
      this.#place(position, this.#moments[sooner]!, this.#slots[sooner]!)
      position = sooner
    }
    this.#place(position, moment, slot)
  }

  #place(position: number, moment: number, slot: number): void {
    this.#moments[position] = moment
    this.#slots[position] = slot
    this.#positions[slot >>> pageBits]![slot & pageMask] = position + 1
  }

  #makeRoom(slot: number): void {
    if (this.#count === this.#slots.length) {
      this.#moments = grown(this.#moments, new Float64Array(this.#count * 2))
      this.#slots = grown(this.#slots, new Uint32Array(this.#count * 2))
    }
    const page = slot >>> pageBits
    while (this.#positions.length <= page) this.#positions.push(undefined)
    this.#positions[page] ??= new Uint32Array(pageLength)
  }
}

function grown<Numbers extends Float64Array | Uint32Array>(old: Numbers, target: Numbers): Numbers {
  target.set(old)
  return target
}

const sizeMin = 16
const pageBits = 12
const pageLength = 1 << pageBits
const pageMask = pageLength - 1
