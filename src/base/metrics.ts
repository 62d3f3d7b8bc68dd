import { AggregatorRegistry, Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'

export type Transport = 'grpc' | 'http'

/** All metrics of a thread with their values, as a message to another thread. */
export type Figures = readonly object[]

/**
 * The Prometheus metrics of the service. Other parts register gauges that are read only when /metrics is requested, so
 * that they cost nothing in between.
 */
export class ServiceMetrics {
  readonly #registry = new Registry()
  readonly #requests: Counter
  readonly #seconds: Histogram
  /** Requests that are not in the metrics yet, by operation and transport. */
  readonly #tallies = new Map<string, Map<Transport, RequestTally>>()
  readonly #fsyncSeconds: Histogram
  /** Only on a node of a cluster. */
  #unanswered: Counter | undefined
  #readOthers: (() => Promise<readonly Figures[]>) | undefined

  /** @param isOfThread whether this counts for one thread only, and the figures of the process are counted elsewhere */
  constructor({ isOfThread = false }: { readonly isOfThread?: boolean } = {}) {
    if (!isOfThread) collectDefaultMetrics({ register: this.#registry })
    this.#requests = new Counter({
      name: 'vicinal_requests_total',
      help: 'Requests answered, by operation, transport and outcome (ok or the error reason).',
      labelNames: ['operation', 'transport', 'outcome'],
      registers: [this.#registry],
    })
    this.#seconds = new Histogram({
      name: 'vicinal_request_duration_seconds',
      help: 'Time from a whole request to its answer, by operation and transport.',
      labelNames: ['operation', 'transport'],
      buckets: [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10],
      registers: [this.#registry],
    })
    this.#fsyncSeconds = new Histogram({
      name: 'vicinal_commit_duration_seconds',
      help: 'Time of a group commit, from its first write to the end of its last fsync.',
      buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5],
      registers: [this.#registry],
    })
  }

  /** Counts one answered request. `outcome` is `ok` or an error reason. */
  request(operation: string, transport: Transport, outcome: string, seconds: number): void {
    const tally = this.#tallies.get(operation)?.get(transport) ?? this.#addTally(operation, transport)
    tally.add(outcome, seconds)
  }

  #addTally(operation: string, transport: Transport): RequestTally {
    const tally = new RequestTally((outcomes, times) => {
      for (const [outcome, count] of outcomes) this.#requests.inc({ operation, transport, outcome }, count)
      for (const seconds of times) this.#seconds.observe({ operation, transport }, seconds)
    })
    const tallies = this.#tallies.get(operation) ?? new Map<Transport, RequestTally>()
    this.#tallies.set(operation, tallies.set(transport, tally))
    return tally
  }

  /** Starts to count requests for which points of a cluster were out of reach. */
  countUnanswered(): void {
    this.#unanswered = new Counter({
      name: 'vicinal_cluster_unanswered_requests_total',
      help: 'Requests that were refused because no node answered for some of their points.',
      registers: [this.#registry],
    })
    // A rate needs a value from before the first such request.
    this.#unanswered.inc(0)
  }

  /** Counts one request that needed points for which no node answered. */
  unanswered(): void {
    this.#unanswered?.inc()
  }

  /** Counts one group commit. */
  commit(seconds: number): void {
    this.#fsyncSeconds.observe(seconds)
  }

  /** Adds a counter with labels. Returns the function that increases it. */
  counter(
    name: string,
    help: string,
    labelNames: readonly string[],
  ): (labels: Readonly<Record<string, string>>, count: number) => void {
    const counter = new Counter({ name, help, labelNames: [...labelNames], registers: [this.#registry] })
    return (labels, count) => counter.inc(labels, count)
  }

  /** Adds a histogram. Returns the function that adds a value. */
  histogram(name: string, help: string, buckets: readonly number[]): (value: number) => void {
    const histogram = new Histogram({ name, help, buckets: [...buckets], registers: [this.#registry] })
    return (value) => histogram.observe(value)
  }

  /** Adds a gauge whose value is read whenever /metrics is requested. `name` ends with its unit. */
  gauge(name: string, help: string, read: () => number): void {
    new Gauge({
      name,
      help,
      registers: [this.#registry],
      collect() {
        setAll(this, () => [[{}, read()]])
      },
    })
  }

  /** Adds a histogram of seconds. Returns the function that adds a value. */
  seconds(name: string, help: string): (seconds: number) => void {
    const buckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
    const histogram = new Histogram({ name, help, buckets, registers: [this.#registry] })
    return (seconds) => histogram.observe(seconds)
  }

  /** Adds a gauge that is always 1: its labels hold the information. */
  info(name: string, help: string, labels: Readonly<Record<string, string>>): void {
    new Gauge({ name, help, labelNames: Object.keys(labels), registers: [this.#registry] }).set(labels, 1)
  }

  /** Adds a gauge for each value of a label. A gauge that is not known yet is left out. */
  gauges(
    name: string,
    help: string,
    label: string,
    read: () => Iterable<readonly [string, number | undefined]>,
  ): void {
    new Gauge({
      name,
      help,
      labelNames: [label],
      registers: [this.#registry],
      collect() {
        setAll(this, () => [...read()].map(([value, figure]) => [{ [label]: value }, figure] as const))
      },
    })
  }

  /** Adds a gauge for each combination of values of several labels. A gauge that is not known yet is left out. */
  gaugesOf(
    name: string,
    help: string,
    labels: readonly string[],
    read: () => Iterable<readonly [Readonly<Record<string, string>>, number | undefined]>,
  ): void {
    new Gauge({
      name,
      help,
      labelNames: [...labels],
      registers: [this.#registry],
      collect() {
        setAll(this, read)
      },
    })
  }

  /** Returns the text of /metrics, and its content type. */
  async expose(): Promise<ExposedMetrics> {
    const { contentType } = this.#registry
    if (this.#readOthers === undefined) {
      this.#report()
      return { contentType, text: await this.#registry.metrics() }
    }
    const all = [await this.figures(), ...(await this.#readOthers())]
    return { contentType, text: await AggregatorRegistry.aggregate(all.map((each) => [...each])).metrics() }
  }

  /** Returns all metrics with their values. */
  async figures(): Promise<Figures> {
    this.#report()
    return await this.#registry.getMetricsAsJSON()
  }

  /** Adds the figures of other threads to what is exposed. */
  addOthers(read: () => Promise<readonly Figures[]>): void {
    this.#readOthers = read
  }

  #report(): void {
    for (const tallies of this.#tallies.values()) for (const tally of tallies.values()) tally.report()
  }
}

export interface ExposedMetrics {
  readonly contentType: string
  readonly text: string
}

type Labels = Readonly<Record<string, string>>

/**
 * Sets the figures of a gauge that are known, and forgets others, like those of a deleted collection. A gauge whose
 * figures cannot be read now, for example those of a disk that is gone, is left out: all others must still be there to
 * show why.
 */
function setAll(gauge: Gauge, read: () => Iterable<readonly [Labels, number | undefined]>): void {
  forgetAll(gauge)
  try {
    for (const [labels, figure] of read()) if (figure !== undefined) gauge.set(labels, figure)
  } catch {
    forgetAll(gauge)
  }
}

function forgetAll(gauge: Gauge): void {
  gauge.reset()
  // Without labels, there is a 0 now.
  gauge.remove({})
}

/**
 * Collects the requests of one operation to report them together. Reporting one request with its labels takes as long
 * as decoding a small search; in a batch of hundreds, each takes a fraction of that.
 */
class RequestTally {
  readonly #report: (outcomes: ReadonlyMap<string, number>, seconds: Float64Array) => void
  readonly #outcomes = new Map<string, number>()
  readonly #seconds = new Float64Array(requestsMax)
  #count = 0

  /** @param report receives how many requests ended with each outcome, and how long each took */
  constructor(report: (outcomes: ReadonlyMap<string, number>, seconds: Float64Array) => void) {
    this.#report = report
  }

  add(outcome: string, seconds: number): void {
    this.#outcomes.set(outcome, (this.#outcomes.get(outcome) ?? 0) + 1)
    this.#seconds[this.#count] = seconds
    this.#count += 1
    if (this.#count === requestsMax) this.report()
  }

  /** Reports all requests that have not been reported. */
  report(): void {
    this.#report(this.#outcomes, this.#seconds.subarray(0, this.#count))
    this.#outcomes.clear()
    this.#count = 0
  }
}

/** Reporting so many takes about a tenth of a millisecond. */
const requestsMax = 256
