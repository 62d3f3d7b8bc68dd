/** What the API sends and takes, as JSON. */

export interface CollectionInfo {
  readonly name: string
  readonly dimension?: number
  readonly points: number
  readonly hnsw: { readonly m: number; readonly ef_construction: number }
  readonly aliases: readonly string[]
  /** Of a server that embeds texts. */
  readonly embedding_model?: string
}

export type JsonValue =
  | string
  | number
  | boolean
  | null
  | readonly JsonValue[]
  | { readonly [name: string]: JsonValue }

export type JsonObject = { readonly [name: string]: JsonValue }

export type ContentType = 'Text' | 'Image'

export interface Payload {
  readonly content_type: ContentType
  readonly content: string
  readonly attributes?: JsonObject
  readonly expires_at?: string
}

export interface NewPoint {
  readonly id?: string
  /** Left out where the server embeds the content. */
  readonly vector?: readonly number[]
  readonly payload: Payload
}

export interface Point {
  readonly id: string
  readonly vector?: readonly number[]
  readonly payload: Payload
  readonly version?: number
}

export interface Hit {
  readonly id: string
  readonly distance?: number
  readonly payload?: Payload
  readonly version?: number
}

export interface Profile {
  readonly plan?: string
  readonly reason?: string
  readonly [name: string]: string | number | undefined
}

export interface FacetCount {
  readonly value: JsonValue
  readonly count: number
}
