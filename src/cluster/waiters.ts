/** Callers that wait for an event. */
export class Waiters {
  readonly #waiting = new Set<() => void>()

  /** Resolves at the next `wakeAll`, or when aborted. */
  wait(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const wake = (): void => {
        signal.removeEventListener('abort', wake)
        this.#waiting.delete(wake)
        resolve()
      }
      if (signal.aborted) return resolve()
      signal.addEventListener('abort', wake)
      this.#waiting.add(wake)
    })
  }

  wakeAll(): void {
    for (const wake of [...this.#waiting]) wake()
  }
}
