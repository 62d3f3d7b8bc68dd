import { setTimeout as delay } from 'node:timers/promises'
import { Waiters } from './waiters.ts'

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
