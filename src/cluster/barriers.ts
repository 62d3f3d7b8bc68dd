import { setTimeout as delay } from 'node:timers/promises'
import { Waiters } from './waiters.ts'

/**
 * One barrier for all who ask for one within two milliseconds. It is appended after the last of them has asked, so whatever
 * was acknowledged before is in the log before it.
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

  /** The position of a barrier that is appended from now on. */
  next(): Promise<number> {
    this.#gathering ??= this.#begin()
    return this.#gathering
  }

  async #begin(): Promise<number> {
    await delay(this.#gatherMs)
    // While the log does not answer, all who ask share the next one.
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

/** Barriers that are being appended. */
const underWayMax = 8

const never: AbortSignal = new AbortController().signal
