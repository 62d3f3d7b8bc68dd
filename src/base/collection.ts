/** The collection of the contract's points: it is always there, and cannot be deleted. */
export const defaultCollection = 'default'

/** What a name of a collection or an alias looks like. */
export const collectionName: RegExp = /^[a-z0-9][a-z0-9_-]{0,62}$/

/** The same in words. */
export const collectionNameRule = '1 to 63 of a-z, 0-9, _ and -, the first a letter or digit'

/** What HNSW_M and HNSW_EF_CONSTRUCTION, and the same of a collection, may be. */
export const hnswBounds = { m: { min: 4, max: 64 }, efConstruction: { min: 8, max: 2000 } } as const

/** How the graphs of a collection are built; what is absent is as the settings HNSW_M and HNSW_EF_CONSTRUCTION say. */
export interface HnswSettings {
  /** Links of a node on each upper level; level 0 has twice as many. */
  readonly m?: number | undefined
  /** Width of the search for a new node's neighbours. */
  readonly efConstruction?: number | undefined
}

/** What is fixed when a collection is created. */
export interface CollectionSettings {
  /** Length of every vector; absent to let the first insert fix it. */
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
}
