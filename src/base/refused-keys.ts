import type { Logger } from './log.ts'
import type { Transport } from './metrics.ts'

/**
 * Counts and logs calls without a valid key: the first one immediately, then at most one line a second with their
 * number. Never logs the invalid key.
 */
export class RefusedKeys {
  readonly #logger: Logger
  readonly #counts: Record<Transport, number> = { grpc: 0, http: 0 }
  /** Calls since the last log line. */
  #unreported = 0
  #timer: NodeJS.Timeout | undefined

  constructor(logger: Logger) {
    this.#logger = logger
  }

  /** Calls refused since the start. */
  get counts(): Readonly<Record<Transport, number>> {
    return this.#counts
  }

  /** @param from the caller's address, if it is known */
  add(transport: Transport, from: string | undefined): void {
    this.#counts[transport] += 1
    this.#unreported += 1
    if (this.#timer === undefined) this.#report(transport, from)
  }

  #report(transport: Transport, from: string | undefined): void {
    this.#logger.warn({ transport, from, calls: this.#unreported }, 'refused a missing or invalid API key')
    this.#unreported = 0
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      if (this.#unreported > 0) this.#report(transport, from)
    }, 1000)
    this.#timer.unref()
  }
}
