/** What a load generator is told to do: it runs in a process of its own, load-generator.ts. */
export interface LoadPlan {
  readonly transport: Transport
  readonly port: number
  /** Sent one after the other, from the first again after the last. */
  readonly requests: readonly WireRequest[]
  readonly seconds: number
  /**
   * Requests a second that are sent whether or not earlier ones are answered: times count from when a request
   * was due, so that one slow answer is not hidden by the requests that it held back. Undefined: the next one is
   * sent when one is answered, `concurrency` at a time.
   */
  readonly rate: number | undefined
  readonly concurrency: number
}

export type Transport = 'grpc' | 'http'

export interface WireRequest {
  readonly path: string
  /** The message without its frame, or JSON. */
  readonly body: Uint8Array
  /** Where ids stand in the body that must be new in each request. */
  readonly idsAt?: readonly number[]
}

export interface LoadResult {
  readonly answered: number
  /** Answers that were not a success. */
  readonly failed: number
  readonly seconds: number
  readonly milliseconds: Readonly<Record<Percentile, number>>
}

export const percentiles = ['50', '95', '99', '99.9'] as const
export type Percentile = (typeof percentiles)[number]

export const apiKey = 'a-key-for-the-benchmark'
