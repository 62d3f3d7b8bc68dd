import type { PartitionSet } from '../base/partitions.ts'
import type { HeldPartitions } from '../points/held-partitions.ts'
import type { PartitionDigest } from '../storage/applied.ts'

/**
 * Tracks whether a collection has points of partitions that its node does not hold. They are either on their way from
 * another node and incomplete, or left over from a partition and not deleted yet. Such points are out of date, so no
 * read may show them.
 *
 * Main thread only.
 */
export class ForeignPoints {
  readonly #held: HeldPartitions
  /** Digests of the visible points. While a group takes effect: the one before it and the one after it. */
  #digests: readonly PartitionDigest[]
  #arrivals = 0

  constructor(held: HeldPartitions, digest: PartitionDigest) {
    this.#held = held
    this.#digests = [digest]
  }

  /** How often such points have arrived. */
  get arrivals(): number {
    return this.#arrivals
  }

  /** The partitions to which reads are restricted; undefined if all points belong to them. */
  get restriction(): PartitionSet | undefined {
    const { now } = this.#held
    return this.#digests.some((digest) => digest.hasPointsOutside(now)) ? now : undefined
  }

  /** Call before a group takes effect. */
  begin(before: PartitionDigest, after: PartitionDigest): void {
    this.#digests = [before, after]
    if (after.hasPointsOutside(this.#held.now)) this.#arrivals += 1
  }

  /** Call when the group has taken effect. */
  end(now: PartitionDigest): void {
    this.#digests = [now]
  }
}
