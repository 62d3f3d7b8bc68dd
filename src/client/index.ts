/** Clients of the service, one interface over both transports. */
export { DatabaseError, type Reason } from '../base/errors.ts'
export type { ContentType, Metric, Payload, Point } from '../base/point.ts'
export type { CallOptions, PointToInsert, Query, VectorClient } from './client.ts'
export { createGrpcClient, type GrpcClientOptions } from './grpc-client.ts'
export { createHttpClient, type HttpClientOptions } from './http-client.ts'
