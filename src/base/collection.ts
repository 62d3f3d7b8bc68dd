/** The collection of calls that do not name one. It always exists and cannot be deleted. */
export const defaultCollection = 'default'

/** The valid names of collections and aliases. */
export const collectionName: RegExp = /^[a-z0-9][a-z0-9_-]{0,62}$/

/** The rule of `collectionName` in words. */
export const collectionNameRule = '1 to 63 of a-z, 0-9, _ and -, the first a letter or digit'

/** The bounds of what a collection says about its graphs. */
export const hnswBounds = { m: { min: 4, max: 64 }, efConstruction: { min: 8, max: 2000 } } as const

/** How the graphs of a collection are built; absent values default to those of the limits. */
export interface HnswSettings {
  /** Links of a node on each upper level; level 0 has twice as many. */
  readonly m?: number | undefined
  /** Width of the search for a new node's neighbours. */
  readonly efConstruction?: number | undefined
}

/** Settings that are fixed when a collection is created. */
export interface CollectionSettings {
  /** Length of every vector. If absent, the first insert fixes it. */
  readonly dimension?: number | undefined
  readonly hnsw: HnswSettings
}

/** A collection as callers see it. */
export interface CollectionInfo {
  readonly name: string
  /** Undefined until it is fixed. */
  readonly dimension: number | undefined
  readonly points: number
  readonly hnsw: { readonly m: number; readonly efConstruction: number }
  /** In alphabetical order. */
  readonly aliases: readonly string[]
  /** The model that turns texts into vectors; absent if the service has no embeddings. */
  readonly embeddingModel?: string | undefined
}
