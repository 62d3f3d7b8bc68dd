import type { Transport } from '../base/metrics.ts'

/** A request that took long: what was asked for and how it was answered, without vectors, contents and values of points. */
export interface SlowRequest extends RequestFacts {
  /** When it ended, in milliseconds since 1970. */
  readonly timeMs: number
  readonly collection: string
  readonly operation: string
  readonly transport: Transport
  readonly tookMs: number
  /** `ok` or the reason of the error. */
  readonly outcome: string
}

/** What is known of a request, as far as its operation has it. */
export interface RequestFacts {
  /** Of a batch. */
  readonly queries?: number | undefined
  /** Of a batch, those of its first query; likewise the fields below. */
  readonly metric?: string | undefined
  readonly limit?: number | undefined
  readonly ef?: number | undefined
  /** As JSON, cut. */
  readonly filter?: string | undefined
  readonly plan?: string | undefined
  readonly reason?: string | undefined
  /** All ids of the answer. */
  readonly hits?: number | undefined
}

export interface SlowRequestsOptions {
  /** Faster requests are not kept. */
  readonly slowQueryMs: number
  /** Requests that are kept for each collection. */
  readonly slowQueriesKept: number
  /** The time, in milliseconds since 1970; for tests. */
  readonly nowMs?: () => number
}

/**
 * The slowest requests of the last hour, some for each collection. Where there is no room, one that is older than an hour makes
 * room, or else the fastest. Collections in which nothing was slow for longest are forgotten, so memory is bounded.
 */
export class SlowRequests {
  readonly #options: SlowRequestsOptions
  readonly #nowMs: () => number
  /** By collection; the one with the last slow request comes last. */
  readonly #kept = new Map<string, SlowRequest[]>()

  constructor(options: SlowRequestsOptions) {
    this.#options = options
    this.#nowMs = options.nowMs ?? Date.now
  }

  get thresholdMs(): number {
    return this.#options.slowQueryMs
  }

  /** Asked for every request. */
  isSlow(ms: number): boolean {
    return ms >= this.#options.slowQueryMs && this.#options.slowQueriesKept > 0
  }

  add(request: Omit<SlowRequest, 'timeMs'>): void {
    const { collection } = request
    const kept = this.#recent(this.#kept.get(collection) ?? [])
    kept.push({ ...request, timeMs: this.#nowMs() })
    kept.sort(bySlowness)
    this.#kept.delete(collection)
    this.#kept.set(collection, kept.slice(0, this.#options.slowQueriesKept))
    if (this.#kept.size > collectionsMax) this.#kept.delete(this.#kept.keys().next().value!)
  }

  /** The slowest first. @param collection undefined for all */
  list(collection?: string): readonly SlowRequest[] {
    const all =
      collection === undefined ? [...this.#kept.values()].flat() : (this.#kept.get(collection) ?? [])
    return this.#recent(all).sort(bySlowness)
  }

  #recent(requests: readonly SlowRequest[]): SlowRequest[] {
    const oldestMs = this.#nowMs() - keptMs
    return requests.filter(({ timeMs }) => timeMs >= oldestMs)
  }
}

function bySlowness(one: SlowRequest, other: SlowRequest): number {
  return other.tookMs - one.tookMs
}

const keptMs = 3_600_000
/** With the most that can be kept of each, some tens of megabytes. */
const collectionsMax = 64
