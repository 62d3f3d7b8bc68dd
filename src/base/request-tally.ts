/**
 * Collects the requests of one operation to report them together. Reporting one request with its labels takes as long
 * as decoding a small search; in a batch of hundreds, each takes a fraction of that.
 */
export class RequestTally {
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
