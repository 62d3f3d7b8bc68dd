import { setTimeout as delay } from 'node:timers/promises'
import { cancellation, DatabaseError } from '../base/errors.ts'
import type { ReadPosition } from './cluster-node-options.ts'
import type { Applier } from './log/applier.ts'
import { LogLost } from './log/commit-log.ts'
import { unlessAborted, Waiters } from './waiting.ts'

interface AdmissionOptions {
  readonly barriers: Barriers
  readonly applier: Applier
  /** The last position of the log. */
  readonly last: () => Promise<number>
  readonly timeoutMs: number
}

/** Makes a read wait until this node has applied everything that the read asks for. */
export class Admission {
  readonly #options: AdmissionOptions
  #ticking: Promise<void> | undefined

  constructor(options: AdmissionOptions) {
    this.#options = options
  }

  /**
   * Resolves when this node is as up to date as a read asks for.
   *
   * @returns the position that other nodes must have applied, too
   * @throws DatabaseError `not_ready` when that takes too long
   */
  async admit(
    { consistency = 'session', position = 0 }: ReadPosition,
    signal: AbortSignal | undefined,
  ): Promise<number> {
    if (consistency === 'available') return 0
    const latest = consistency === 'latest' ? await this.latest(signal) : 0
    if (position > this.#position) await this.#reach(position, signal)
    return Math.max(position, latest)
  }

  /**
   * Resolves when this node has applied everything that any node acknowledged before the call.
   *
   * @returns the position of that in the log
   * @throws DatabaseError `not_ready` when the log does not answer, or when it takes too long
   */
  async latest(signal: AbortSignal | undefined): Promise<number> {
    if (signal?.aborted) throw cancellation(signal)
    const { applier } = this.#options
    if (applier.failure !== undefined) throw applier.failure
    const before = this.#position
    const barrier = this.#options.barriers.next()
    const position = await unlessAborted(barrier, signal).catch((cause: unknown) => {
      if (signal?.aborted) throw cancellation(signal)
      const fault = 'the log of the cluster cannot be reached: the answer could be old'
      throw new DatabaseError('not_ready', fault, { cause })
    })
    if (position <= before) {
      const lost = new LogLost(
        `it ends at position ${position}, and this node has applied it up to ${before}`,
      )
      applier.fail(lost)
      throw applier.failure ?? lost
    }
    await this.waitFor(position, signal)
    return position
  }

  /** Waits for a position that a client has seen. What was never written is not waited for. */
  async #reach(position: number, signal: AbortSignal | undefined): Promise<void> {
    const { applier, timeoutMs } = this.#options
    await this.waitFor(position, signal, Math.min(aheadMs, timeoutMs)).catch(async (error: unknown) => {
      if (signal?.aborted || applier.failure !== undefined) throw error
      const last = await this.#options.last().catch(() => position)
      if (last < position)
        throw new DatabaseError(
          'not_ready',
          `the log of the cluster ends at position ${last}, and the request asks for ${position}: a position counts only in the cluster that it is from`,
        )
      await this.waitFor(position, signal)
    })
  }

  /** Advances the cluster's clock with a barrier, and waits at most `tickMs` for it. */
  async tick(): Promise<void> {
    this.#ticking ??= this.#options.barriers
      .next()
      .then((position) => this.waitFor(position, undefined))
      // While the log does not answer, points that are due stay visible.
      .catch(() => {})
      .finally(() => {
        this.#ticking = undefined
      })
    await Promise.race([this.#ticking, delay(tickMs, undefined, { ref: false })])
  }

  /**
   * Resolves when this node has applied the log up to a position.
   *
   * @throws DatabaseError `not_ready` when that takes too long; the applier's failure
   */
  async waitFor(
    position: number,
    signal: AbortSignal | undefined,
    timeoutMs: number = this.#options.timeoutMs,
  ): Promise<void> {
    await this.#options.applier.waitFor(position, signal ?? never, timeoutMs).catch((error: unknown) => {
      throw signal?.aborted ? cancellation(signal) : error
    })
  }

  get #position(): number {
    return this.#options.applier.applied.position
  }
}

/** Much longer than a node usually needs for a position that another node has answered with. */
const aheadMs = 1_000
/** The longest that a read waits for the cluster's clock to advance. */
const tickMs = 250

/**
 * Shares one barrier among all callers that ask within two milliseconds. It is appended after the last of them has
 * asked, so everything that was acknowledged before is in the log before it.
 */
export class Barriers {
  readonly #ended = new Waiters()
  #underWay = 0
  readonly #append: () => Promise<number>
  readonly #gatherMs: number
  #gathering: Promise<number> | undefined

  constructor(append: () => Promise<number>, gatherMs = 2) {
    this.#append = append
    this.#gatherMs = gatherMs
  }

  /** Resolves with the position of a barrier that is appended after this call. */
  next(): Promise<number> {
    this.#gathering ??= this.#begin()
    return this.#gathering
  }

  async #begin(): Promise<number> {
    await delay(this.#gatherMs)
    // While the log does not answer, all callers share the next barrier.
    while (this.#underWay >= underWayMax) await this.#ended.wait(never)
    this.#gathering = undefined
    this.#underWay += 1
    try {
      return await this.#append()
    } finally {
      this.#underWay -= 1
      this.#ended.wakeAll()
    }
  }
}

/** Maximum barriers being appended at the same time. */
const underWayMax = 8

const never: AbortSignal = new AbortController().signal
