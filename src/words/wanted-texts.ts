import { LruCache } from '../base/budgets.ts'
import type { Analyzer, WantedWord } from './analyzer.ts'

/** A word that is wanted, and where it is in the wanted text. */
export interface WantedTerm {
  readonly term: string
  readonly position: number
}

type Terms = readonly WantedTerm[]

/** What is known of a text. */
interface Known {
  /** See `Analyzer.stemming`. */
  readonly stemming: (language: number) => string
  /** By `stemming`. Lists that are equal are the same object. */
  readonly lists: Map<string, Terms>
  /** The key of the cache. */
  readonly text: string
}

/**
 * The terms of the texts that filters want, in the languages of points. They are kept, because a filter is asked again
 * after each change of the points.
 */
export class WantedTexts {
  readonly #analyzer: Analyzer
  readonly #known: LruCache<Known> = new LruCache(cacheBytes, bytesOf)

  constructor(analyzer: Analyzer) {
    this.#analyzer = analyzer
  }

  get memoryBytes(): number {
    return this.#known.bytes
  }

  /** Returns the terms of a text, in steps, with the languages in which it has them: most have the same ones. */
  *termsOf(text: string, languages: readonly number[]): Generator<void, ReadonlyMap<Terms, Set<number>>> {
    const known = this.#known.get(text) ?? {
      stemming: this.#analyzer.stemming(text),
      lists: new Map<string, Terms>(),
      text,
    }
    const all = new Map<Terms, Set<number>>()
    let words: readonly WantedWord[] | undefined
    for (const language of languages) {
      const stemming = known.stemming(language)
      let terms = known.lists.get(stemming)
      if (terms === undefined) {
        words ??= yield* this.#analyzer.wordsOf(text)
        const found = yield* this.#termsIn(words, language)
        terms = [...known.lists.values()].find((each) => areEqual(each, found)) ?? found
        known.lists.set(stemming, terms)
        this.#known.set(text, known)
      }
      all.set(terms, (all.get(terms) ?? new Set()).add(language))
    }
    return all
  }

  *#termsIn(words: readonly WantedWord[], language: number): Generator<void, Terms> {
    const terms: WantedTerm[] = []
    for (const [at, word] of words.entries()) {
      const term = this.#analyzer.termIn(word, language)
      if (term !== '') terms.push({ term, position: word.position })
      if (at % wordsPerStep === wordsPerStep - 1) yield
    }
    return terms
  }
}

function areEqual(some: Terms, others: Terms): boolean {
  if (some.length !== others.length) return false
  return some.every(
    ({ term, position }, at) => term === others[at]!.term && position === others[at]!.position,
  )
}

function bytesOf({ text, lists }: Known): number {
  const terms = [...new Set(lists.values())].reduce((sum, { length }) => sum + length, 0)
  return 2 * text.length + knownBytes + termBytes * terms
}

/** A text of the most characters has a third of it in all languages of a script. */
const cacheBytes = 8 * 1024 * 1024
const knownBytes = 1000
const termBytes = 80
/** Stemming them takes less than a millisecond. */
const wordsPerStep = 128
