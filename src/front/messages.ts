import type { ServiceKeys } from '../base/api-key.ts'
import type { Reason } from '../base/errors.ts'
import type { MetricFigures } from '../base/metrics.ts'
import type { PortSharing } from '../base/ports.ts'
import type { Config } from '../config.ts'

/**
 * What the main thread and the front threads say to each other.
 *
 *   main thread: engine                             front n: both transports, api
 *   ───────────────────                             ─────────────────────────────────────────────
 *   new Worker(workerData: FrontSetup) ───────────> loads its modules
 *   listen ───────────────────────────────────────> opens the ports; the first front chooses where 0 was asked for
 *        <───────────────────────────────────────── the ports
 *   serve, when the stored points are loaded ─────> health says SERVING
 *        <········································· requests: records in a ring, and the main thread's doorbell
 *        <───────────────────────────────────────── large: a request in shared memory of its own
 *        <───────────────────────────────────────── cancel: nobody waits for a request any more
 *   answers: records in a ring, and its doorbell ·> in the order in which they are ready
 *   large ────────────────────────────────────────> an answer in shared memory of its own
 *        <───────────────────────────────────────── openSnapshot, chunk, closeSnapshot; othersFigures; log
 *   figures ──────────────────────────────────────> its counters
 *   setKeys, when API_KEYS_FILE has changed ──────> takes others
 *   close ────────────────────────────────────────> drains both transports
 *
 *   ───> a message (exchange.ts)       ···> shared memory: record-ring.ts, the engine's doorbell.ts
 *
 * Vectors go through shared memory only. Requests and answers have a way each, because answers come in another
 * order than requests: a `get` does not wait for the batch that was asked before it.
 */

export interface FrontSetup {
  readonly config: Config
  readonly keys: ServiceKeys
  /** Of a `FrontState`, all fronts' own. */
  readonly state: SharedArrayBuffer
  /** Of a `RecordRing` to the main thread, this front's own. */
  readonly requests: SharedArrayBuffer
  /** Of a `RecordRing` from the main thread, this front's own. */
  readonly answers: SharedArrayBuffer
  /** Of the `Doorbell` that all fronts ring. */
  readonly mainDoorbell: SharedArrayBuffer
  /** Of the `Doorbell` that the main thread rings for this front. */
  readonly frontDoorbell: SharedArrayBuffer
}

export interface Ports {
  readonly grpc: number
  /** Undefined when HTTP is disabled. */
  readonly http: number | undefined
}

/** What the main thread asks a front. */
export interface AskedOfFront {
  listen(order: ListenOrder): Ports
  serve(): void
  figures(): MetricFigures
  setKeys(keys: ServiceKeys): void
  close(): void
  large(record: SharedArrayBuffer): void
}

export interface ListenOrder {
  readonly ports: Ports
  readonly share: PortSharing
}

/** What a front asks the main thread. */
export interface AskedOfMain {
  large(record: SharedArrayBuffer): void
  cancel(cancellation: Cancellation): void
  openSnapshot(): OpenSnapshot
  /** The next bytes of this snapshot; undefined after the last. */
  chunk(number: number): Uint8Array | undefined
  closeSnapshot(number: number): void
  /** The figures of all threads but the one that asks. */
  othersFigures(): readonly MetricFigures[]
  /** A line of the front's log, as JSON. */
  log(line: string): void
}

export interface Cancellation {
  /** Of the request. */
  readonly number: number
  readonly reason: Reason
  readonly message: string
}

export interface OpenSnapshot {
  readonly number: number
  readonly databaseId: string
  readonly sequence: number
  readonly points: number
}
