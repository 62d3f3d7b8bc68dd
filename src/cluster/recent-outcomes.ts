import { DatabaseError } from '../base/errors.ts'
import type { PartitionSet } from '../base/partitions.ts'
import type { OutcomeQuestion } from './outcome-answers.ts'
import type { Outcome } from './outcomes.ts'

/**
 * The outcomes of the last log records on this node, for nodes that do not hold the points of these records. Nodes
 * ask as soon as their records are in the log, so few outcomes are enough. After that the outcome is unknown here,
 * and the client learns that the write may have been stored.
 */
export class RecentOutcomes {
  readonly #kept = new Map<number, { readonly outcome: Outcome; readonly items: number }>()
  #items = 0

  add(position: number, outcome: Outcome): void {
    const items = itemsOf(outcome)
    this.#kept.set(position, { outcome, items })
    this.#items += items
    for (const [oldest, { items: freed }] of this.#kept) {
      if (this.#kept.size <= countMax && this.#items <= itemsMax) break
      this.#kept.delete(oldest)
      this.#items -= freed
    }
  }

  /**
   * Returns the outcome at a position that this node has applied.
   *
   * @throws DatabaseError `not_ready` when this node does not know it, and another one may
   */
  find({ position, partitions }: OutcomeQuestion): Outcome {
    const outcome = this.#kept.get(position)?.outcome
    if (outcome === undefined) throw unknown(`the outcome of record ${position} is no longer known here`)
    const { held } = outcome
    if (held !== undefined && !hasAll(held, partitions)) {
      throw unknown(`this node did not hold all of the points that record ${position} is about`)
    }
    return outcome
  }
}

function hasAll(held: PartitionSet, partitions: PartitionSet): boolean {
  return [...partitions].every((partition) => held.has(partition))
}

function itemsOf(outcome: Outcome): number {
  const result = 'result' in outcome ? outcome.result : undefined
  return typeof result === 'object' && 'ids' in result ? 1 + result.ids.length : 1
}

function unknown(message: string): DatabaseError {
  return new DatabaseError('not_ready', message)
}

/** A second or more of records, in some megabytes. */
const countMax = 16_384
const itemsMax = 262_144
