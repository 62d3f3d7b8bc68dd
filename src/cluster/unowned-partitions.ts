import type { PartitionSet } from '../base/partitions.ts'

/**
 * Partitions that still had no live owner after a short wait. Callers that accept an answer without them need not
 * wait for that again.
 */
export class UnownedPartitions {
  #found: PartitionSet | undefined
  #untilMs = 0

  /** @param missing partitions without an owner, just found or found before and still without one */
  note(missing: PartitionSet): void {
    if (missing.size === 0) return
    this.#found = missing
    this.#untilMs = performance.now() + keptMs
  }

  /** Whether all of these were noted within the last `keptMs`. */
  has(missing: PartitionSet): boolean {
    const found = this.#found
    if (found === undefined || performance.now() > this.#untilMs) return false
    for (const partition of missing) if (!found.has(partition)) return false
    return true
  }
}

const keptMs = 10_000
