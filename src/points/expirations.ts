import { ExpiryQueue } from '../attributes/expiry-queue.ts'
import type { Logger } from '../base/log.ts'
import { Turn } from '../base/turns.ts'
import { SlotNumbers } from './point-table.ts'

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
  /** Deletes some of the hidden points; resolves when that is durable. */
  readonly deleteSome: () => Promise<void>
  /** The delay before a failed deletion is tried again; tests use a few milliseconds. */
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
  /** By slot of a hidden point: when it expired, or what a later change gave it: its time, or `never`. */
  readonly #hidden = new SlotNumbers()
  #hiddenCount = 0
  /**
   * By slot of a visible point: the expiry that a decided change gives it, or `never`. A map, because it has few entries
   * in slots far apart, and only for the time of a group.
   */
  readonly #postponed = new Map<number, number>()
  /** Hidden slots to be deleted; slots that were deleted since they were added are skipped. */
  #waiting: number[] = []
  /** The slots that were taken for the group in progress. */
  #taken: readonly number[] = []
  #hiding: Promise<void> | undefined
  #isDeleting = false
  #hasFailed = false
  #timer: NodeJS.Timeout | undefined
  /** When the timer ends. */
  #timerUs = Number.POSITIVE_INFINITY
  #isPaused = false
  #isClosed = false

  constructor(options: ExpirationOptions) {
    this.#options = options
  }

  get hiddenCount(): number {
    return this.#hiddenCount
  }

  get memoryBytes(): number {
    const postponedBytes = this.#postponed.size * postponedCost
    return this.#queue.memoryBytes + this.#hidden.memoryBytes + this.#waiting.length * 8 + postponedBytes
  }

  get nowUs(): number {
    return this.#options.clock()
  }

  isHidden(slot: number): boolean {
    return this.#hiddenCount > 0 && this.#hidden.get(slot) !== undefined
  }

  /** The slots of all hidden points. */
  *hiddenSlots(): Generator<number, void> {
    if (this.#hiddenCount > 0) for (const [slot] of this.#hidden.entries()) yield slot
  }

  /** When the point in a slot expires, in microseconds since 1970; undefined if never. */
  expiryOf(slot: number): number | undefined {
    const expiresAtUs = this.#hidden.get(slot) ?? this.#postponed.get(slot) ?? this.#options.expiryOf(slot)
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

  /** Call when the point in a slot was placed or changed. */
  set(slot: number, expiresAtUs: number | undefined): void {
    this.#postponed.delete(slot)
    if (this.isHidden(slot)) this.#hidden.set(slot, expiresAtUs ?? never)
    else if (expiresAtUs === undefined) this.#queue.remove(slot)
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
    if (this.isHidden(slot)) {
      this.#hidden.delete(slot)
      this.#hiddenCount -= 1
    } else this.#queue.remove(slot)
  }

  /** Hides all due points; undefined if none remain. */
  hideDue(): Promise<void> | undefined {
    this.hideNow()
    if (!this.isDue) return undefined
    this.#hiding ??= this.#hideRest()
    return this.#hiding
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
    // `hideNow` has just used this turn. And if this ended in it, the promise would be kept after its end, and later
    // callers would wait for nothing.
    await turn.next()
    try {
      while (this.#hideNext()) if (turn.isOver) await turn.next()
    } finally {
      this.#hiding = undefined
    }
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
    this.#hidden.set(slot, this.#options.expiryOf(slot) ?? never)
    this.#hiddenCount += 1
    this.#waiting.push(slot)
    this.#options.hide(slot)
  }

  /** Takes some of the hidden slots, each once, to be deleted in the next group. */
  takeHidden(limit: number): readonly number[] {
    const taken = new Set<number>()
    while (taken.size < limit && this.#waiting.length > 0) {
      const slot = this.#waiting.pop()!
      if (this.isHidden(slot)) taken.add(slot)
    }
    this.#taken = [...taken]
    return this.#taken
  }

  /** Returns slots that were taken but not deleted. Those still hidden are deleted later. */
  putBack(slots: readonly number[]): void {
    for (const slot of slots) this.#waiting.push(slot)
    void this.#deleteAll()
  }

  /** Deletes hidden points, group by group. Failures are retried later; nobody sees the points meanwhile. */
  async #deleteAll(): Promise<void> {
    if (this.#isDeleting) return
    this.#isDeleting = true
    try {
      while (this.#waiting.length > 0 && !this.#isClosed) {
        this.#taken = []
        await this.#options.deleteSome()
        this.#hasFailed = false
      }
    } catch (error) {
      for (const slot of this.#taken) this.#waiting.push(slot)
      this.#tryLater(error)
    } finally {
      this.#isDeleting = false
    }
  }

  #tryLater(error: unknown): void {
    if (this.#isClosed) return
    // Logged once, however often it fails.
    if (!this.#hasFailed) {
      const { logger } = this.#options
      logger.warn({ err: error }, 'expired points cannot be deleted on disk yet: they stay hidden')
    }
    this.#hasFailed = true
    setTimeout(() => void this.#deleteAll(), this.#options.retryMs ?? retryMs).unref()
  }

  /** Hides nothing automatically until `resume`: while points are loaded, none may change. */
  pause(): void {
    this.#isPaused = true
  }

  resume(): void {
    this.#isPaused = false
    this.#setTimer()
  }

  /** Sets the timer to when the next point is due. */
  #setTimer(): void {
    const nextUs = this.#queue.next
    if (nextUs === undefined || nextUs >= this.#timerUs || this.#isPaused || this.#isClosed) return
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

  /** Stops the timer. Nothing is hidden or deleted automatically any more. */
  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
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
