import { ExpiryQueue } from '../attributes/expiry-queue.ts'
import type { Logger } from '../base/log.ts'
import { Turn } from '../base/turns.ts'
import { SlotNumbers } from './slot-numbers.ts'

export interface ExpirationOptions {
  /** Microseconds since 1970. */
  readonly clock: () => number
  /** The time by which the timer runs, where `clock` is that of a log. */
  readonly systemUs?: () => number
  /** Called when points are due by the system's clock, and not yet by that of the log. */
  readonly onDue?: (() => void) | undefined
  /** When a visible point expires, in microseconds since 1970; undefined if never. */
  readonly expiryOf: (slot: number) => number | undefined
  /** Takes a point out of sight. */
  readonly hide: (slot: number) => void
  /** Deletes some of the hidden points; resolves when that is durable. */
  readonly deleteSome: () => Promise<void>
  /** After which a deletion that failed is tried again; for tests, a few. */
  readonly retryMs?: number | undefined
  readonly logger: Logger
}

/**
 * Points that expire.
 *
 *   waiting ──> due: hidden, by the next read or by a timer ──> deleted on disk in groups, the slot is free
 *
 * A hidden point keeps its slot until its deletion is durable. After a restart before that it is there again, and due.
 *
 * Time is that of the system's clock, but within a process it never goes back behind a moment at which points were hidden:
 * what has expired stays so. Main thread only.
 */
export class Expirations {
  readonly #options: ExpirationOptions
  /** Visible points. */
  readonly #queue = new ExpiryQueue()
  /** By slot of a hidden point: when it expires, `never` where a later change has removed that. */
  readonly #hidden = new SlotNumbers()
  #hiddenCount = 0
  /** Hidden slots that are to be deleted; those that have been since are passed over. */
  #waiting: number[] = []
  /** Of these, those that the group under way deletes. */
  #taken: readonly number[] = []
  #hiding: Promise<void> | undefined
  #isDeleting = false
  #hasFailed = false
  /** Points were hidden at this time. */
  #highestUs = 0
  #timer: NodeJS.Timeout | undefined
  /** When the timer ends. */
  #timerUs = Number.POSITIVE_INFINITY
  #isClosed = false

  constructor(options: ExpirationOptions) {
    this.#options = options
  }

  get hiddenCount(): number {
    return this.#hiddenCount
  }

  get memoryBytes(): number {
    return this.#queue.memoryBytes + this.#hidden.memoryBytes + this.#waiting.length * 8
  }

  get nowUs(): number {
    return Math.max(this.#options.clock(), this.#highestUs)
  }

  isHidden(slot: number): boolean {
    return this.#hiddenCount > 0 && this.#hidden.get(slot) !== undefined
  }

  /** Of all hidden points. */
  *hiddenSlots(): Generator<number, void> {
    if (this.#hiddenCount > 0) for (const [slot] of this.#hidden.entries()) yield slot
  }

  /** When the point in a slot expires, in microseconds since 1970; undefined if never. */
  expiryOf(slot: number): number | undefined {
    const expiresAtUs = this.#hidden.get(slot) ?? this.#options.expiryOf(slot)
    return expiresAtUs === never ? undefined : expiresAtUs
  }

  /** The point in a slot was placed or changed. */
  set(slot: number, expiresAtUs: number | undefined): void {
    if (this.isHidden(slot)) this.#hidden.set(slot, expiresAtUs ?? never)
    else if (expiresAtUs === undefined) this.#queue.remove(slot)
    else {
      this.#queue.push(slot, expiresAtUs)
      this.#wake()
    }
  }

  /** The point has left its slot. */
  clear(slot: number): void {
    if (this.isHidden(slot)) {
      this.#hidden.delete(slot)
      this.#hiddenCount -= 1
    } else this.#queue.remove(slot)
  }

  /** Hides what is due; undefined if that is done. */
  hideDue(): Promise<void> | undefined {
    this.hideNow()
    if (!this.isDue) return undefined
    this.#hiding ??= this.#hideRest()
    return this.#hiding
  }

  /** Hides what is due, as far as that takes no longer than some milliseconds. */
  hideNow(): void {
    if (!this.isDue) return
    for (let hidden = 0; hidden < hiddenPerCall && this.#hideNext(); hidden += 1);
    this.#wake()
    void this.#deleteAll()
  }

  async #hideRest(): Promise<void> {
    const turn = new Turn()
    try {
      while (this.#hideNext()) if (turn.isOver) await turn.next()
    } finally {
      this.#hiding = undefined
    }
    this.#wake()
    void this.#deleteAll()
  }

  /** Whether there are points to be hidden. */
  get isDue(): boolean {
    const nextUs = this.#queue.next
    return nextUs !== undefined && nextUs <= this.nowUs
  }

  /** Whether points are due by the system's clock, and not by that of the log. */
  get isDueSoon(): boolean {
    const { systemUs } = this.#options
    const nextUs = this.#queue.next
    return systemUs !== undefined && nextUs !== undefined && nextUs > this.nowUs && nextUs <= systemUs()
  }

  /** Hides one point that is due; false if there is none. */
  #hideNext(): boolean {
    const nowUs = this.nowUs
    const slot = this.#queue.popDue(nowUs)
    if (slot === undefined) return false
    this.#highestUs = nowUs
    this.#hidden.set(slot, this.#options.expiryOf(slot) ?? never)
    this.#hiddenCount += 1
    this.#waiting.push(slot)
    this.#options.hide(slot)
    return true
  }

  /** Some of the hidden slots, each once: to be deleted in the next group. */
  takeHidden(limit: number): readonly number[] {
    const taken = new Set<number>()
    while (taken.size < limit && this.#waiting.length > 0) {
      const slot = this.#waiting.pop()!
      if (this.isHidden(slot)) taken.add(slot)
    }
    this.#taken = [...taken]
    return this.#taken
  }

  /** Slots that were taken, and not deleted: those that are still hidden are to be deleted again. */
  putBack(slots: readonly number[]): void {
    for (const slot of slots) this.#waiting.push(slot)
    void this.#deleteAll()
  }

  /** Deletes what is hidden, group by group. What fails is tried again later: nobody sees it meanwhile. */
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
    // Once, however often it fails.
    if (!this.#hasFailed) {
      const { logger } = this.#options
      logger.warn({ err: error }, 'expired points cannot be deleted on disk yet: they stay hidden')
    }
    this.#hasFailed = true
    setTimeout(() => void this.#deleteAll(), this.#options.retryMs ?? retryMs).unref()
  }

  /** Sets the timer to when the next point is due. */
  #wake(): void {
    const nextUs = this.#queue.next
    if (nextUs === undefined || nextUs >= this.#timerUs || this.#isClosed) return
    clearTimeout(this.#timer)
    this.#timerUs = nextUs
    const { systemUs, onDue } = this.#options
    const ms = Math.ceil((nextUs - (systemUs?.() ?? this.nowUs)) / 1000)
    const msMin = onDue === undefined ? 1 : logMs
    this.#timer = setTimeout(() => this.#wakened(), Math.min(Math.max(ms, msMin), timeoutMsMax)).unref()
  }

  #wakened(): void {
    this.#timerUs = Number.POSITIVE_INFINITY
    void this.hideDue()
    if (this.isDueSoon) this.#options.onDue?.()
    this.#wake()
  }

  /** Nothing is hidden or deleted by itself any more. */
  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }
}

const never = Number.POSITIVE_INFINITY
const retryMs = 5000
/** Some milliseconds of hiding. */
const hiddenPerCall = 1024
/** How soon a log is asked again to move its clock on. */
const logMs = 20
/** The longest that a timer of Node can take. */
const timeoutMsMax = 2 ** 31 - 1
