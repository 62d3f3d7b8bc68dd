import { type Consistency, consistencyHeader, positionHeader, positionOf } from '../base/consistency.ts'

/**
 * A client's session with a cluster. Each request carries the highest position of all earlier answers, so that the node
 * that answers is at least as up to date. Outside a cluster, answers have no position, and requests carry none.
 */
export class Session {
  #position: number | undefined

  /** The headers or metadata of a request. */
  headers(consistency: Consistency | undefined): Readonly<Record<string, string>> {
    return {
      ...(consistency === undefined ? {} : { [consistencyHeader]: consistency }),
      ...(this.#position === undefined ? {} : { [positionHeader]: String(this.#position) }),
    }
  }

  /** @param position of an answer */
  note(position: string | null | undefined): void {
    const number = positionOf(position ?? '')
    if (number !== undefined) this.#position = Math.max(this.#position ?? 0, number)
  }
}
