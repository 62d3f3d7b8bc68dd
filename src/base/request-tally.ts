/**
 * Requests of one operation that are not reported yet. To report each by itself, with its labels, takes as long as decoding a
 * small search; hundreds in a row take a fraction of that each.
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

  /** Reports what has not been reported. */
  report(): void {
    this.#report(this.#outcomes, this.#seconds.subarray(0, this.#count))
    this.#outcomes.clear()
    this.#count = 0
  }
}

/** Reported in about a tenth of a millisecond. */
const requestsMax = 256
