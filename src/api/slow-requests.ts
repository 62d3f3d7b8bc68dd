import type { Transport } from '../base/metrics.ts'
import type { Metric } from '../base/point.ts'
import type { CollectionStats } from '../points/database.ts'

/** A slow request and its outcome, without vectors, contents or values of points. */
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

/** Facts about a request; which of them there are depends on the operation. */
export interface RequestFacts {
  /** How many queries a batch has. In a batch, the fields from `metric` to `reason` describe its first query. */
  readonly queries?: number | undefined
  readonly metric?: Metric | undefined
  readonly limit?: number | undefined
  readonly ef?: number | undefined
  /** As JSON, truncated. */
  readonly filter?: string | undefined
  readonly plan?: string | undefined
  readonly reason?: string | undefined
  /** How many ids the whole answer has. */
  readonly hits?: number | undefined
}

interface SlowRequestsOptions {
  /** Faster requests are not kept. */
  readonly slowQueryMs: number
  /** How many requests to keep for each collection. */
  readonly slowQueriesKept: number
  /** Returns the plans in force in an open collection. */
  readonly plansOf?: (collection: string) => CollectionStats['plans'] | undefined
  /** Returns the time in milliseconds since 1970; for tests. */
  readonly nowMs?: () => number
}

/**
 * The slowest requests of the last hour, a bounded number for each collection. A full list drops requests older than an
 * hour, then the fastest one. The number of collections is bounded, too: the one without a slow request for longest is
 * dropped.
 */
export class SlowRequests {
  readonly #options: SlowRequestsOptions
  readonly #nowMs: () => number
  /** By collection; the collection with the latest slow request is last. */
  readonly #kept = new Map<string, SlowRequest[]>()

  constructor(options: SlowRequestsOptions) {
    this.#options = options
    this.#nowMs = options.nowMs ?? Date.now
  }

  get thresholdMs(): number {
    return this.#options.slowQueryMs
  }

  /** Called for every request. */
  isSlow(ms: number): boolean {
    return ms >= this.#options.slowQueryMs && this.#options.slowQueriesKept > 0
  }

  add(request: Omit<SlowRequest, 'timeMs'>): void {
    const { collection } = request
    const kept = this.#recent(this.#kept.get(collection) ?? [])
    kept.push({ ...this.#planInForce(request), ...request, timeMs: this.#nowMs() })
    kept.sort(bySlowness)
    this.#kept.delete(collection)
    this.#kept.set(collection, kept.slice(0, this.#options.slowQueriesKept))
    if (this.#kept.size > collectionsMax) this.#kept.delete(this.#kept.keys().next().value!)
  }

  /** Plain searches record no plan. Theirs was the plan in force now, unless that has just changed. */
  #planInForce({ collection, metric }: Omit<SlowRequest, 'timeMs'>): Pick<RequestFacts, 'plan' | 'reason'> {
    const plans = metric === undefined ? undefined : this.#options.plansOf?.(collection)
    if (metric === undefined || plans === undefined) return {}
    return plans[metric].route === undefined
      ? { plan: 'scan of all points', reason: 'a scan costs less, or no graph serves this metric now' }
      : { plan: 'graph', reason: 'the graph reaches the recall target' }
  }

  /** Lists requests, the slowest first. @param collection undefined for all */
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
/** With the maximum number of requests kept for each, this takes some tens of megabytes. */
const collectionsMax = 64
