import type { PartitionSet } from '../base/partitions.ts'
import type { PartitionDigest } from '../storage/partition-digest.ts'
import type { HeldPartitions } from './held-partitions.ts'

/**
 * Whether a collection has points of partitions that its node does not have: some that come from another node and are not
 * complete yet, or that are left of a partition and not deleted yet. What they are is out of date, so no read may show them.
 *
 * Main thread only.
 */
export class ForeignPoints {
  readonly #held: HeldPartitions
  /** Of what is visible: before a group takes effect and after it. */
  #digests: readonly PartitionDigest[]
  #arrivals = 0

  constructor(held: HeldPartitions, digest: PartitionDigest) {
    this.#held = held
    this.#digests = [digest]
  }

  /** How often such points have come. */
  get arrivals(): number {
    return this.#arrivals
  }

  /** The partitions that reads are restricted to; undefined when all points are of those. */
  get restriction(): PartitionSet | undefined {
    const { now } = this.#held
    return this.#digests.some((digest) => digest.hasPointsOutside(now)) ? now : undefined
  }

  /** A group takes effect from now on. */
  begin(before: PartitionDigest, after: PartitionDigest): void {
    this.#digests = [before, after]
    if (after.hasPointsOutside(this.#held.now)) this.#arrivals += 1
  }

  /** It has taken effect. */
  end(now: PartitionDigest): void {
    this.#digests = [now]
  }
}
