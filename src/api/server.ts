/** A transport that listens. */
export interface RunningServer {
  /** Where it listens; `port` is the real one when 0 was asked for. */
  readonly host: string
  readonly port: number
  /**
   * Stops taking requests and resolves when the running ones have ended; what still runs after `timeoutMs`
   * is cut off.
   */
  close(timeoutMs: number): Promise<void>
}
