import type { Logger } from '../base/log.ts'
import { pause } from './pause.ts'

export interface AbsenceOptions {
  readonly logger: Logger
  readonly signal: AbortSignal
  /** Called when the node is back. */
  readonly onBack: () => void
  /** Called when the node did not have to go. */
  readonly onStay: () => void
}

/** Takes a node out of service and brings it back, retrying until that succeeds. It is never absent twice at a time. */
export class Absence {
  readonly #options: AbsenceOptions
  #current: Promise<void> | undefined

  constructor(options: AbsenceOptions) {
    this.#options = options
  }

  get isNow(): boolean {
    return this.#current !== undefined
  }

  /**
   * Begins an absence, which nobody may do during another one.
   *
   * @param leaveAndReturn takes the node out of service and starts it again; repeated until it succeeds. False: the
   *   node continues as it is
   */
  begin(leaveAndReturn: () => Promise<boolean>): void {
    this.#current = this.#untilBack(leaveAndReturn).finally(() => {
      this.#current = undefined
    })
  }

  /** Resolves when no absence is in progress. */
  async ended(): Promise<void> {
    await this.#current
  }

  async #untilBack(leaveAndReturn: () => Promise<boolean>): Promise<void> {
    const { signal, logger, onBack, onStay } = this.#options
    while (!signal.aborted) {
      try {
        if (await leaveAndReturn()) onBack()
        else onStay()
        return
      } catch (err) {
        if (signal.aborted) return
        logger.error({ err }, 'this node is still out of service: trying again')
        await pause(againMs, signal)
      }
    }
  }
}

/** Pause between attempts to return to service. */
export const againMs = 5_000
