/**
 * The client for browsers and for any other runtime with `fetch`. None of its imports needs Node or another package.
 */

export { DateTime, GeoPoint } from '../base/attributes.ts'
export type { CollectionInfo, HnswSettings } from '../base/collection.ts'
export { DatabaseError, type Reason } from '../base/errors.ts'
export type { ContentType, Metric, OnConflict } from '../base/point.ts'
export type { Profile } from '../base/profile.ts'
export type {
  AttributeInput,
  AttributeOutput,
  AttributesInput,
  AttributesOutput,
  Moment,
} from './attributes.ts'
export type { CallBounds } from './call-bounds.ts'
export type { BulkOptions, CallOptions, InsertOptions } from './call-options.ts'
export type * from './client.ts'
export type { AliasChanges, Aliases, CollectionsClient, NewCollection, PutResult } from './collections.ts'
export type { Filter, FilterTests, FilterValue } from './filters.ts'
export { createHttpClient, type HttpClient, type HttpClientOptions } from './http-client.ts'
export type * from './inspection.ts'
export { attributesOfMetadata } from './metadata.ts'
export { ServiceError } from './service-error.ts'
export { uuidOf } from './uuid-of.ts'
