/** The client for browsers, and for whatever else has `fetch`: nothing that it imports needs Node or another package. */
export type { CollectionInfo, HnswSettings } from '../base/collection.ts'
export { DatabaseError, type Reason } from '../base/errors.ts'
export type { ContentType, Metric, Payload } from '../base/point.ts'
export type { CallOptions, InsertOptions } from './call-options.ts'
export type { Point, PointsClient, PointToInsert, Query, VectorClient } from './client.ts'
export type { AliasChanges, Aliases, CollectionsClient, NewCollection, PutResult } from './collections.ts'
export { createHttpClient, type HttpClientOptions } from './http-client.ts'
