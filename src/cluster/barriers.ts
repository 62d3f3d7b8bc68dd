import { setTimeout as delay } from 'node:timers/promises'

/**
 * One barrier for all who ask for one within two milliseconds. It is appended after the last of them has asked, so whatever
 * was acknowledged before is in the log before it.
 */
export class Barriers {
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
    this.#gathering = undefined
    return await this.#append()
  }
}
