import type { Quotas } from './quotas.ts'

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

/**
 * The languages of words, by number. The first of each script is the one for texts of that script whose words show no
 * other. Indexes store the numbers, so a new language goes to the end.
 */
export const wordLanguages = [
  'english',
  'russian',
  'hindi',
  'arabic',
  'greek',
  'tamil',
  'armenian',
  'german',
  'french',
  'spanish',
  'portuguese',
  'italian',
  'dutch',
  'danish',
  'norwegian',
  'swedish',
  'finnish',
  'hungarian',
  'romanian',
  'turkish',
  'indonesian',
  'irish',
  'lithuanian',
  'ukrainian',
  'bulgarian',
  'serbian',
  'nepali',
] as const
export type WordLanguage = (typeof wordLanguages)[number]

/** `auto` for the language of each text, `none` for words without stems. */
export const wordLanguageChoices: readonly WordLanguageChoice[] = ['auto', 'none', ...wordLanguages]
export type WordLanguageChoice = 'auto' | 'none' | WordLanguage

/** The path of a point's content, among paths of words; any other is that of an attribute. */
export const contentPath = 'content'

/** The bounds of what a collection says about its words. */
export const wordBounds = { paths: 16, weight: 1000, k1: 10, b: 1 } as const

/** What texts of a collection's points can be searched by words. */
export interface WordSettings {
  readonly language: WordLanguageChoice
  /** Which texts, with their weights in scores. */
  readonly paths: readonly { readonly path: string; readonly weight: number }[]
  /** See bm25.ts; absent: its defaults. */
  readonly k1?: number | undefined
  readonly b?: number | undefined
}

/** The same text for the same settings: nodes and changes compare them by it. */
export function wordsText({ language, paths, k1, b }: WordSettings): string {
  return JSON.stringify([language, paths.map(({ path, weight }) => [path, weight]), k1, b])
}

/** Settings of a collection. All but `words` and `quotas` are fixed when it is created. */
export interface CollectionSettings {
  /** Length of every vector. If absent, the first insert fixes it. */
  readonly dimension?: number | undefined
  readonly hnsw: HnswSettings
  /** Absent: as before, or none; null: none. */
  readonly words?: WordSettings | null | undefined
  /** Absent: as before, or none; without a field: none. */
  readonly quotas?: Quotas | undefined
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
  /** Absent if the collection has none. */
  readonly words?: WordSettings | undefined
  /** Absent if the collection has none. */
  readonly quotas?: Quotas | undefined
}
