import type { DatabaseError } from '../base/errors.ts'

/** The reads in progress. What they read must not be closed before they end. */
export class RunningReads {
  readonly #refusal: () => DatabaseError | undefined
  readonly #running = new Set<Promise<unknown>>()

  /** @param refusal returns why reads are refused now */
  constructor(refusal: () => DatabaseError | undefined) {
    this.#refusal = refusal
  }

  /** Runs a read unless reads are refused. */
  async run<Result>(read: () => Promise<Result>): Promise<Result> {
    const refusal = this.#refusal()
    if (refusal !== undefined) throw refusal
    const running = read()
    this.#running.add(running)
    try {
      return await running
    } finally {
      this.#running.delete(running)
    }
  }

  /** Resolves when all reads that were in progress have ended. */
  async ended(): Promise<void> {
    await Promise.allSettled(this.#running)
  }
}
