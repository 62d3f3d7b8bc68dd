import { LruCache } from '../base/budgets.ts'
import type { Analyzer, WantedWord } from './analyzer.ts'
import type { TermEntry } from './dictionary.ts'
import type { Part } from './part.ts'

/**
 * Which points have words, for filters: `$match` wants all words of a text, `$phrase` wants them in its order. The
 * filters look at postings, and at positions for phrases only; nothing of the stored texts is read.
 */

/** A set of points: a bit for each slot. */
export interface SlotBitmap {
  readonly words: Uint32Array
  /** How many bits are set. */
  readonly count: number
}

export interface Wanted {
  readonly kind: 'match' | 'phrase'
  readonly text: string
  /** The number of the path; undefined for any. */
  readonly path?: number | undefined
}

/** A longer phrase is refused: in a long text, every word of it takes time. */
const phraseTermsMax = 1024

export class PhraseTooLong extends RangeError {
  constructor(words: number) {
    super(`has ${words} words, the maximum is ${phraseTermsMax}`)
  }
}

/** Finds the code plus one of a term in documents of a part, which ascend; 0 without it. */
type FindCodes = (part: Part, term: string, documents: Uint32Array) => Uint32Array

/**
 * Returns the slots of the points that have the wanted words, as they are in the language of the point. So it depends on
 * the point and the words alone, and on no other points, of which nodes have different ones.
 *
 * @param texts the terms of the wanted text, with the languages in which it has them
 */
export function matchingSlots(
  wanted: Wanted,
  texts: ReadonlyMap<readonly WantedTerm[], ReadonlySet<number>>,
  parts: readonly Part[],
  slots: number,
  find: FindCodes,
): SlotBitmap {
  const words = new Uint32Array(Math.ceil(slots / 32))
  for (const [terms, of] of texts) {
    if (terms.length === 0) continue
    checkPhrase(wanted, terms)
    for (const part of parts) {
      for (const document of matchingDocuments(part, terms, wanted, find)) {
        if (!of.has(part.languages[document]!)) continue
        const slot = part.slots[document]!
        words[slot >> 5]! |= 1 << (slot & 31)
      }
    }
  }
  let count = 0
  for (const word of words) for (let bits = word; bits !== 0; bits &= bits - 1) count += 1
  return { words, count }
}

function checkPhrase({ kind }: Wanted, terms: readonly WantedTerm[]): void {
  if (kind === 'phrase' && terms.length > phraseTermsMax) throw new PhraseTooLong(terms.length)
}

/** Returns at least as many as `matchingSlots` finds. @throws PhraseTooLong */
export function matchingMax(
  wanted: Wanted,
  texts: ReadonlyMap<readonly WantedTerm[], unknown>,
  parts: readonly Part[],
): number {
  let max = 0
  for (const terms of texts.keys()) {
    checkPhrase(wanted, terms)
    for (const part of parts) {
      let least = terms.length === 0 ? 0 : part.slots.length
      for (const { term } of terms) {
        least = Math.min(least, part.dictionary.find(term)?.documents ?? 0)
        if (least === 0) break
      }
      max += least
    }
  }
  return max
}

/** Returns the live documents of a part that have the wanted terms. */
function matchingDocuments(
  part: Part,
  terms: readonly WantedTerm[],
  { kind, path }: Wanted,
  find: FindCodes,
): Uint32Array {
  const entries: { readonly term: string; readonly entry: TermEntry }[] = []
  for (const term of new Set(terms.map((each) => each.term))) {
    const entry = part.dictionary.find(term)
    if (entry === undefined) return new Uint32Array()
    entries.push({ term, entry })
  }
  const [rarest, ...others] = entries.sort((a, b) => a.entry.documents - b.entry.documents)
  const postings = part.reader()
  postings.read(rarest!.entry.list, rarest!.entry.documents)
  let documents = postings.documents
    .subarray(0, rarest!.entry.documents)
    .filter((document, index) => part.isLive(document) && part.hasInPath(postings.codes[index]!, path))
  for (const { term } of others) {
    const codes = find(part, term, documents)
    documents = documents.filter((_, index) => codes[index]! > 0 && part.hasInPath(codes[index]! - 1, path))
  }
  return kind === 'phrase' && terms.length > 1 ? withPhrase(part, terms, path, documents) : documents
}

/** Returns those of the documents in which the terms are at the distances of the wanted text. */
function withPhrase(
  part: Part,
  terms: readonly WantedTerm[],
  path: number | undefined,
  documents: Uint32Array,
): Uint32Array {
  const paths = path === undefined ? part.lengths.map((_, each) => each) : [path]
  const isWanted = new Set(documents)
  const wanted = new Map<string, number[]>()
  for (const { term, position } of terms) wanted.set(term, [...(wanted.get(term) ?? []), position])
  const byRarity = [...wanted]
    .map(([term, offsets]) => ({ entry: part.dictionary.find(term)!, offsets }))
    .sort((a, b) => a.entry.occurrences - b.entry.occurrences)
  /** Where the wanted text can begin, by document and path; the terms read so far agree. */
  let starts: Map<number, readonly Uint32Array[]> | undefined
  for (const { entry, offsets } of byRarity) {
    const agreeing = new Map<number, readonly Uint32Array[]>()
    for (const { document, positions } of part.occurrences(entry, (each) => isWanted.has(each))) {
      const before = starts?.get(document)
      const here = paths.map((each, index) => phraseStarts(positions[each]!, offsets, before?.[index]))
      if (here.some(({ length }) => length > 0)) agreeing.set(document, here)
      else isWanted.delete(document)
    }
    starts = agreeing
  }
  return documents.filter((document) => isWanted.has(document))
}

/**
 * Returns where a phrase can begin, ascending.
 *
 * @param positions of a term in a text, ascending
 * @param offsets where the phrase has the term
 * @param before where it can begin as far as its other terms are concerned; undefined for anywhere
 */
function phraseStarts(
  positions: readonly number[],
  offsets: readonly number[],
  before: Uint32Array | undefined,
): Uint32Array {
  const last = positions.at(-1)
  if (last === undefined) return noStarts
  // A word that is repeated in phrase and text: 32 places at once, or else the work is the product of both.
  if (offsets.length > 1 && last < positionsPerWord * positions.length) {
    const all = repeatedStarts(positions, offsets, last)
    return before === undefined ? all : common(before, all, 0)
  }
  let starts = before
  for (const offset of offsets) {
    starts =
      starts === undefined
        ? Uint32Array.from(
            positions.filter((position) => position >= offset),
            (at) => at - offset,
          )
        : common(starts, positions, offset)
  }
  return starts!
}

/** Returns those of some starts that have a position at an offset; both ascend. */
function common(starts: Uint32Array, positions: ArrayLike<number>, offset: number): Uint32Array {
  let [at, count] = [0, 0]
  const kept = new Uint32Array(starts.length)
  for (const start of starts) {
    while (at < positions.length && positions[at]! < start + offset) at += 1
    if (at === positions.length) break
    if (positions[at] === start + offset) kept[count++] = start
  }
  return kept.subarray(0, count)
}

/** Returns the starts from which there is a position at every offset: bits of places, shifted and combined. */
function repeatedStarts(positions: readonly number[], offsets: readonly number[], last: number): Uint32Array {
  const length = (last >>> 5) + 1
  // Room behind the end, so that no shift reads beyond it.
  const bits = new Uint32Array(length + (offsets.at(-1)! >>> 5) + 2)
  for (const position of positions) bits[position >>> 5]! |= 1 << (position & 31)
  const starts = new Uint32Array(length).fill(-1)
  for (const offset of offsets) {
    const [words, shift] = [offset >>> 5, offset & 31]
    for (let at = 0; at < length; at += 1) {
      const low = bits[at + words]! >>> shift
      starts[at]! &= shift === 0 ? low : low | (bits[at + words + 1]! << (32 - shift))
    }
  }
  const found: number[] = []
  for (const [word, value] of starts.entries()) {
    for (let rest = value; rest !== 0; rest &= rest - 1) found.push(32 * word + 31 - Math.clz32(rest & -rest))
  }
  return Uint32Array.from(found)
}

const noStarts = new Uint32Array(0)

/** A word of bits costs about as much as this many positions of a list. */
const positionsPerWord = 64

/** A part of a text that a query found. */
export interface Highlight {
  readonly start: number
  readonly end: number
}

/** Returns the words of a text that are among the terms of a query, in order; those that overlap are one. */
export function* highlights(
  analyzer: Analyzer,
  text: string,
  language: number,
  terms: { has(term: string): boolean },
): Generator<void, Highlight[]> {
  const found: Highlight[] = []
  yield* analyzer.analyzeInSteps(text, language, (term, _position, start, end) => {
    if (!terms.has(term)) return
    const last = found.at(-1)
    if (last !== undefined && start < last.end)
      found[found.length - 1] = { start: last.start, end: Math.max(last.end, end) }
    else found.push({ start, end })
  })
  return found
}

/** A word that is wanted, and where it is in the wanted text. */
interface WantedTerm {
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
