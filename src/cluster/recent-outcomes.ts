import { DatabaseError } from '../base/errors.ts'
import type { PartitionSet } from '../base/partitions.ts'
import type { OutcomeQuestion } from './outcome-answers.ts'
import type { Outcome } from './outcomes.ts'

/**
 * How the last records of the log ended on this node, for nodes that do not have the points which they are about. They ask as
 * soon as their records are in the log, so few are enough. What is asked for later than that is told as not known, and
 * the caller that the write may have been stored.
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
   * The outcome at a position that this node has applied.
   *
   * @throws DatabaseError `not_ready` when this node cannot tell, and another one may
   */
  find({ position, partitions }: OutcomeQuestion): Outcome {
    const outcome = this.#kept.get(position)?.outcome
    if (outcome === undefined) throw unknown(`what became of record ${position} is not known here any more`)
    const { held } = outcome
    if (held !== undefined && !hasAll(held, partitions)) {
      throw unknown(`this node did not have all of the points that record ${position} is about`)
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
