import { type DatabaseError, lacksRoom } from '../base/errors.ts'
import type { LoggedRequest } from '../write/logged-request.ts'
import type { Placement } from './placement.ts'
import { partitionsOf } from './request-partitions.ts'

/**
 * Nodes whose disk or memory is full, as they answered when they were asked for the outcome of a record. Writes that
 * only such nodes would have to store are refused for a moment: the log would accept them, but nobody could say when
 * they are applied.
 */
export class StalledOwners {
  readonly #nowMs: () => number
  readonly #stalls = new Map<string, { readonly error: DatabaseError; readonly untilMs: number }>()

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs
  }

  /** Notes the error of a node that could not return the outcome of a record. */
  note(node: string, error: unknown): void {
    if (!lacksRoom(error)) return
    this.#stalls.set(node, { error, untilMs: this.#nowMs() + stallMs })
  }

  /** @throws the error of the first live owner of a partition of the request when all of them are full */
  check(request: LoggedRequest, placement: Placement): void {
    const nowMs = this.#nowMs()
    for (const [node, { untilMs }] of this.#stalls) if (untilMs <= nowMs) this.#stalls.delete(node)
    if (this.#stalls.size === 0) return
    for (const partition of partitionsOf(request)) {
      const owners = placement.owners(partition)
      const isFull = owners.length > 0 && owners.every((node) => this.#stalls.has(node))
      if (isFull) throw this.#stalls.get(owners[0]!)!.error
    }
  }
}

/** After this time, the next write is tried again. */
const stallMs = 1_000
