import { type Consistency, consistencyHeader, positionHeader, positionOf } from '../base/consistency.ts'

/**
 * What a client has seen of a cluster: each request names the highest position of an answer before, so that whichever node
 * answers is at least as new. Outside a cluster answers have no position, and requests name none.
 */
export class Session {
  #position: number | undefined

  /** The headers, or metadata, of a request. */
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
