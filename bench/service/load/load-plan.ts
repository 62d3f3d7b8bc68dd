/** What a load generator is told to do: it runs in a process of its own, load-generator.ts. */
export interface LoadPlan {
  readonly transport: Transport
  readonly port: number
  /** Sent one after the other, from the first again after the last. */
  readonly requests: readonly WireRequest[]
  readonly seconds: number
  /** Load that comes before and is not counted. */
  readonly warmupSeconds: number
  /**
   * Requests a second that are sent whether or not earlier ones are answered: times count from when a request
   * was due, so that one slow answer is not hidden by the requests that it held back. Undefined: the next one is
   * sent when one is answered.
   */
  readonly rate: number | undefined
  readonly connections: number
  /** Requests under way at most, over all connections; over HTTP/1.1 each connection has one. */
  readonly inFlight: number
  /** Over HTTP: requests that may wait for a connection; more are refused. Unlimited when not given. */
  readonly waitingMax?: number
}

export type Transport = 'grpc' | 'http'

export interface WireRequest {
  readonly path: string
  /** POST when not given. */
  readonly method?: 'GET'
  /** The message without its frame, or JSON. */
  readonly body: Uint8Array
  /** Offsets in the body of ids that must be new in each request. */
  readonly idsAt?: readonly number[]
}

/** `refused`: 429 or RESOURCE_EXHAUSTED, and requests for which no connection was free. */
export type Outcome = 'answered' | 'refused' | 'failed'

export interface LoadResult {
  readonly answered: number
  readonly refused: number
  readonly failed: number
  readonly seconds: number
  /** Of the requests that were answered; undefined where they are too few to tell. */
  readonly milliseconds: Percentiles
  readonly millisecondsMax: number
}

export const percentiles = ['50', '95', '99', '99.9'] as const
export type Percentile = (typeof percentiles)[number]
export type Percentiles = Readonly<Record<Percentile, number | undefined>>

export const apiKey = 'a-key-for-the-benchmark'
