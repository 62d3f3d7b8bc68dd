import { type Percentiles, percentiles } from './load-plan.ts'

/**
 * Times of answers, counted in buckets that grow by one percent, so that those of several generators add up. A
 * percentile is accurate to one percent.
 */
export class Latencies {
  readonly buckets: Uint32Array

  constructor(buckets: Uint32Array = new Uint32Array(bucketCount)) {
    this.buckets = buckets
  }

  record(milliseconds: number): void {
    const bucket = Math.round(Math.log(Math.max(1, milliseconds * 1000)) / step)
    this.buckets[Math.min(bucketCount - 1, bucket)]! += 1
  }

  add(other: Latencies): void {
    for (const [bucket, count] of other.buckets.entries()) this.buckets[bucket]! += count
  }

  get count(): number {
    return this.buckets.reduce((sum, each) => sum + each, 0)
  }

  /** In milliseconds; a percentile is undefined if no answer lies beyond it, since it would be a guess. */
  percentiles(): Percentiles {
    const { count } = this
    const entries = percentiles.map((each) => {
      const isKnown = count * (1 - Number(each) / 100) >= 0.999
      return [each, isKnown ? this.#at((count * Number(each)) / 100) : undefined]
    })
    return Object.fromEntries(entries) as Percentiles
  }

  get max(): number {
    return this.#at(this.count)
  }

  #at(rank: number): number {
    const missing = Math.max(1, Math.ceil(rank))
    let seen = 0
    for (const [bucket, count] of this.buckets.entries()) {
      seen += count
      if (seen >= missing) return Math.exp(bucket * step) / 1000
    }
    return 0
  }
}

const step = Math.log(1.01)
/** Up to ten minutes. */
const bucketCount = 2032
