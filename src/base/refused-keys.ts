import type { Logger } from './log.ts'
import type { Transport } from './metrics.ts'

/**
 * Counts and logs calls without a valid key: the first one at once, then at most one line a second with their number.
 * Never logs what was sent as the key.
 */
export class RefusedKeys {
  readonly #logger: Logger
  readonly #counts: Record<Transport, number> = { grpc: 0, http: 0 }
  /** Since the last line. */
  #unreported = 0
  #timer: NodeJS.Timeout | undefined

  constructor(logger: Logger) {
    this.#logger = logger
  }

  /** Refused since the start. */
  get counts(): Readonly<Record<Transport, number>> {
    return this.#counts
  }

  /** @param from the caller's address, where that is known */
  add(transport: Transport, from: string | undefined): void {
    this.#counts[transport] += 1
    this.#unreported += 1
    if (this.#timer === undefined) this.#tell(transport, from)
  }

  #tell(transport: Transport, from: string | undefined): void {
    this.#logger.warn({ transport, from, calls: this.#unreported }, 'refused a missing or invalid API key')
    this.#unreported = 0
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      if (this.#unreported > 0) this.#tell(transport, from)
    }, 1000)
    this.#timer.unref()
  }
}
