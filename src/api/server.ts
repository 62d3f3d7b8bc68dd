/** A transport that listens. */
export interface RunningServer {
  /** Where it listens; `port` is the actual port if 0 was configured. */
  readonly host: string
  readonly port: number
  /**
   * Stops taking requests and resolves when the running ones have ended; what still runs after `timeoutMs`
   * is cut off.
   */
  close(timeoutMs: number): Promise<void>
}
