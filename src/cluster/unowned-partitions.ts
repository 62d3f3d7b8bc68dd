import type { PartitionSet } from '../base/partitions.ts'

/**
 * Partitions that were found to have no owner that can be asked, after a moment of looking: whoever takes an answer without
 * them need not wait for that again.
 */
export class UnownedPartitions {
  #found: PartitionSet | undefined
  #untilMs = 0

  /** @param missing found now, or found before and still so */
  note(missing: PartitionSet): void {
    if (missing.size === 0) return
    this.#found = missing
    this.#untilMs = performance.now() + keptMs
  }

  /** Whether all of these have been found a while ago, and none since. */
  has(missing: PartitionSet): boolean {
    const found = this.#found
    if (found === undefined || performance.now() > this.#untilMs) return false
    for (const partition of missing) if (!found.has(partition)) return false
    return true
  }
}

const keptMs = 10_000
