/** The task of a load generator (load-generator.ts), which runs in a separate process. */
export interface LoadPlan {
  readonly transport: Transport
  readonly port: number
  /** The requests, sent in order and repeated from the first after the last. */
  readonly requests: readonly WireRequest[]
  readonly seconds: number
  /** The length of the initial load, which is not counted. */
  readonly warmupSeconds: number
  /**
   * The rate in requests per second, independent of answers. Times count from when a request was due, so that the
   * requests held back by a slow answer do not hide it. Undefined: an answer triggers the next request.
   */
  readonly rate: number | undefined
  readonly connections: number
  /** The maximum of concurrent requests over all connections. Over HTTP/1.1, each connection has one. */
  readonly inFlight: number
  /** Over HTTP, how many requests may wait for a connection; further ones are refused. No limit if absent. */
  readonly waitingMax?: number
}

export type Transport = 'grpc' | 'http'

export interface WireRequest {
  readonly path: string
  /** POST if absent. */
  readonly method?: 'GET'
  /** The protobuf message without its frame, or JSON. */
  readonly body: Uint8Array
  /** The offsets in the body of ids that must be new in each request. */
  readonly idsAt?: readonly number[]
}

/** `refused`: 429 or RESOURCE_EXHAUSTED, and requests for which no connection was free. */
export type Outcome = 'answered' | 'refused' | 'failed'

/** What one generator counted. */
export interface LoadCounted {
  /** The times of answered requests, as Latencies counts them. */
  readonly buckets: Uint32Array
  readonly refused: number
  readonly failed: number
  readonly seconds: number
}

export interface LoadResult {
  readonly answered: number
  readonly refused: number
  readonly failed: number
  readonly seconds: number
  /** The response times of answered requests; undefined if there are too few. */
  readonly milliseconds: Percentiles
  readonly millisecondsMax: number
}

export const percentiles = ['50', '95', '99', '99.9'] as const
export type Percentile = (typeof percentiles)[number]
export type Percentiles = Readonly<Record<Percentile, number | undefined>>

export const apiKey = 'a-key-for-the-benchmark'
