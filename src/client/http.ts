/** The client for browsers, and for whatever else has `fetch`: nothing that it imports needs Node or another package. */
export { DatabaseError, type Reason } from '../base/errors.ts'
export type { ContentType, Metric, Payload, Point } from '../base/point.ts'
export type { CallOptions, InsertOptions, PointToInsert, Query, VectorClient } from './client.ts'
export { createHttpClient, type HttpClientOptions } from './http-client.ts'
