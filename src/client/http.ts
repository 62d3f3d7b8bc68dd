/**
 * The client for browsers and for any other runtime with `fetch`. None of its imports needs Node or another package.
 */

export { DateTime, GeoPoint } from '../base/attributes.ts'
export type { HnswSettings, WordLanguageChoice } from '../base/collection.ts'
export { DatabaseError, type Reason } from '../base/errors.ts'
export type { ContentType, Metric, OnConflict, Profile } from '../base/point.ts'
export type { BulkOptions, CallBounds, CallOptions, InsertOptions } from './calls.ts'
export { ServiceError } from './calls.ts'
export type * from './client.ts'
export { createHttpClient, type HttpClient, type HttpClientOptions } from './http-client.ts'
export { attributesOfMetadata, uuidOf } from './metadata.ts'
export type {
  AttributeInput,
  AttributeOutput,
  AttributesInput,
  AttributesOutput,
  DateValue,
  Filter,
  FilterTests,
  FilterValue,
} from './values.ts'
