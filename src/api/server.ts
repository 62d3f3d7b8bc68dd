/** A transport that listens. */
export interface RunningServer {
  /** The address that it listens on; `port` is the actual port if 0 was configured. */
  readonly host: string
  readonly port: number
  /**
   * Stops accepting requests and resolves when the running ones have ended. Requests that still run after `timeoutMs`
   * are aborted.
   */
  close(timeoutMs: number): Promise<void>
}
