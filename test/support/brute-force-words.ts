import type { Analyzer } from '../../src/words/analyzer.ts'
import { noLanguage } from '../../src/words/analyzer.ts'

/**
 * BM25F as docs and src/words/bm25.ts define it, in plain TypeScript over all points: the reference of the index of
 * words. It shares the analysis, and nothing else.
 */
export class BruteForceWords {
  readonly #analyzer: Analyzer
  readonly #weights: readonly number[]
  readonly #k1: number
  readonly #b: number
  readonly #points = new Map<number, Point>()

  constructor(analyzer: Analyzer, weights: readonly number[], k1 = 1.2, b = 0.75) {
    this.#analyzer = analyzer
    this.#weights = weights
    this.#k1 = k1
    this.#b = b
  }

  get slots(): readonly number[] {
    return [...this.#points.keys()]
  }

  put(slot: number, sequence: number, texts: readonly (readonly string[])[]): void {
    const language = this.#analyzer.languageOf(texts)
    const counts = texts.map(() => new Map<string, number>())
    const words = texts.map((ofPath) => ofPath.map((text) => this.#wordsOf(text, language)))
    const lengths = texts.map((ofPath, path) =>
      ofPath.reduce((sum, text) => {
        const add = (term: string): void => void counts[path]!.set(term, (counts[path]!.get(term) ?? 0) + 1)
        return sum + this.#analyzer.analyze(text, language, add)
      }, 0),
    )
    this.#points.set(slot, { slot, sequence, language, counts, words, lengths })
  }

  remove(slot: number): void {
    this.#points.delete(slot)
  }

  /** @param isCounted whether the statistics are of a point; absent: of all */
  search(
    text: string,
    k: number,
    matches: (slot: number) => boolean = () => true,
    isCounted?: (slot: number) => boolean,
  ): Hit[] {
    return [...this.#scores(text, isCounted)]
      .filter(([{ slot }, score]) => score > 0 && matches(slot))
      .map(([{ slot, sequence }, score]) => ({ slot, sequence, score }))
      .sort((a, b) => b.score - a.score || a.sequence - b.sequence)
      .slice(0, k)
  }

  #wordsOf(text: string, language: number): Word[] {
    const words: Word[] = []
    this.#analyzer.analyze(text, language, (term, position) => words.push({ term, position }))
    return words
  }

  /**
   * Returns the slots of the points that have all words of a text in one path, or in any; as a phrase, in its order. The
   * words are those of the point's language.
   */
  matching(kind: 'match' | 'phrase', text: string, path: number | undefined): number[] {
    const hasAll = (words: readonly Word[], wanted: readonly Word[]): boolean =>
      wanted.every(({ term }) => words.some((word) => word.term === term))
    const hasPhrase = (words: readonly Word[], wanted: readonly Word[]): boolean =>
      words.some(({ position: start }) =>
        wanted.every(({ term, position }) =>
          words.some(
            (word) => word.term === term && word.position === start + position - wanted[0]!.position,
          ),
        ),
      )
    return [...this.#points.values()]
      .filter(({ words, language }) => {
        const wanted = this.#wordsOf(text, language)
        const paths = path === undefined ? words : [words[path]!]
        if (kind === 'phrase') return paths.flat().some((each) => hasPhrase(each, wanted))
        return hasAll(path === undefined ? paths.flat(2) : paths[0]!.flat(), wanted)
      })
      .map(({ slot }) => slot)
      .sort((a, b) => a - b)
  }

  score(text: string, slot: number): number {
    return [...this.#scores(text)].find(([point]) => point.slot === slot)?.[1] ?? 0
  }

  #scores(text: string, isCounted?: (slot: number) => boolean): Map<Point, number> {
    const all = [...this.#points.values()]
    const points = isCounted === undefined ? all : all.filter(({ slot }) => isCounted(slot))
    const languages = new Array<number>(noLanguage + 1).fill(0)
    for (const { language } of points) languages[language]! += 1
    const found = [...this.#analyzer.queryTerms(text, languages)]
      .filter(([term]) => isCounted !== undefined || points.some((point) => has(point, term)))
      .map(([term, inQuery]) => ({ term, weight: inQuery * this.#weight(term, points) }))
    const greatest = Math.max(0, ...found.map(({ weight }) => weight))
    const terms = found.map(({ term, weight }) => ({ term, weight: Math.max(weight, greatest * 1e-6) }))
    const total = terms.reduce((sum, { weight }) => sum + weight, 0)
    const unit = 2 ** Math.floor(Math.log2((2 ** 31 - 1 - terms.length) / total))
    const allLengths = this.#weights.map((_, path) =>
      points.reduce((sum, { lengths }) => sum + lengths[path]!, 0),
    )
    const slope = (this.#k1 * this.#b * points.length) / sumProduct(this.#weights, allLengths)
    return new Map(
      all.map((point) => {
        const length = Math.fround(sumProduct(this.#weights, point.lengths))
        let score = 0
        for (const { term, weight } of terms) {
          const counts = point.counts.map((ofPath) => ofPath.get(term) ?? 0)
          const frequency = sumProduct(this.#weights, counts)
          if (frequency === 0) continue
          const saturation = frequency + (this.#k1 * (1 - this.#b) + slope * length)
          score += roundToEven((weight * unit * frequency) / saturation)
        }
        return [point, score / unit]
      }),
    )
  }

  /** idf x burstiness x (k1 + 1) */
  #weight(term: string, points: readonly Point[]): number {
    const having = points.filter((point) => has(point, term))
    const occurrences = having.reduce(
      (sum, { counts }) => counts.reduce((all, ofPath) => all + (ofPath.get(term) ?? 0), sum),
      0,
    )
    const idf = Math.log(1 + (points.length - having.length + 0.5) / (having.length + 0.5))
    const expected = -Math.expm1(-occurrences / points.length)
    const residual = Math.min(1, Math.max(0, Math.log2((points.length / having.length) * expected)))
    if (having.length === 0) return idf * (this.#k1 + 1)
    const burstiness = 1 - 0.95 * Math.cbrt(having.length / points.length) * (1 - residual)
    return idf * burstiness * (this.#k1 + 1)
  }
}

interface Point {
  readonly slot: number
  readonly sequence: number
  readonly language: number
  /** How often each term is in each path. */
  readonly counts: readonly ReadonlyMap<string, number>[]
  /** The words of each text of each path. */
  readonly words: readonly (readonly (readonly Word[])[])[]
  readonly lengths: readonly number[]
}

interface Word {
  readonly term: string
  readonly position: number
}

interface Hit {
  readonly slot: number
  readonly sequence: number
  readonly score: number
}

function has({ counts }: Point, term: string): boolean {
  return counts.some((ofPath) => ofPath.has(term))
}

function sumProduct(a: readonly number[], b: readonly number[]): number {
  return a.reduce((sum, each, index) => sum + each * b[index]!, 0)
}

function roundToEven(value: number): number {
  const below = Math.floor(value)
  if (value - below !== 0.5) return Math.round(value)
  return below % 2 === 0 ? below : below + 1
}
