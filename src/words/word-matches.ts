import type { Analyzer } from './analyzer.ts'
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

/** A word that is wanted, and where it is in the wanted text. */
interface WantedTerm {
  readonly term: string
  readonly position: number
}

export interface Wanted {
  readonly kind: 'match' | 'phrase'
  readonly text: string
  /** The number of the path; undefined for any. */
  readonly path?: number | undefined
}

/** Finds the code plus one of a term in documents of a part, which ascend; 0 without it. */
export type FindCodes = (part: Part, term: string, documents: Uint32Array) => Uint32Array

/** Returns the slots of the points that have the wanted words: in one language, if the text can be in several. */
export function matchingSlots(
  wanted: Wanted,
  analyzer: Analyzer,
  documentsByLanguage: ArrayLike<number>,
  parts: readonly Part[],
  slots: number,
  find: FindCodes,
): SlotBitmap {
  const words = new Uint32Array(Math.ceil(slots / 32))
  for (const language of analyzer.queryLanguages(wanted.text, documentsByLanguage)) {
    const terms: WantedTerm[] = []
    analyzer.analyze(wanted.text, language, (term, position) => terms.push({ term, position }))
    if (terms.length === 0) continue
    for (const part of parts) {
      for (const document of matchingDocuments(part, terms, wanted, find)) {
        const slot = part.slots[document]!
        words[slot >> 5]! |= 1 << (slot & 31)
      }
    }
  }
  let count = 0
  for (const word of words) for (let bits = word; bits !== 0; bits &= bits - 1) count += 1
  return { words, count }
}

/** Returns the live documents of a part that have the wanted terms. */
function matchingDocuments(
  part: Part,
  terms: readonly WantedTerm[],
  { kind, path }: Wanted,
  find: FindCodes,
): Uint32Array {
  const distinct = [...new Set(terms.map(({ term }) => term))]
  const entries = distinct.map((term) => ({ term, entry: part.dictionary.find(term) }))
  if (entries.some(({ entry }) => entry === undefined)) return new Uint32Array()
  const [rarest, ...others] = entries.sort((a, b) => a.entry!.documents - b.entry!.documents)
  const postings = part.reader()
  postings.read(rarest!.entry!.list, rarest!.entry!.documents)
  let documents = postings.documents
    .subarray(0, rarest!.entry!.documents)
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
  /** Where the wanted text can begin, by document and path; the terms read so far agree. */
  let starts: Map<number, ReadonlySet<number>[]> | undefined
  for (const { term, position } of terms) {
    const agreeing = new Map<number, ReadonlySet<number>[]>()
    for (const { document, positions } of part.occurrences(part.dictionary.find(term)!, (each) =>
      isWanted.has(each),
    )) {
      const before = starts?.get(document)
      const here = paths.map((each, index) => {
        const possible = positions[each]!.map((at) => at - position)
        return new Set(
          before === undefined ? possible : possible.filter((start) => before[index]!.has(start)),
        )
      })
      if (here.some(({ size }) => size > 0)) agreeing.set(document, here)
      else isWanted.delete(document)
    }
    starts = agreeing
  }
  return documents.filter((document) => isWanted.has(document))
}

/** A part of a text that a query found. */
export interface Highlight {
  readonly start: number
  readonly end: number
}

/** Returns the words of a text that are among the terms of a query, in order; those that overlap are one. */
export function highlights(
  analyzer: Analyzer,
  text: string,
  language: number,
  terms: { has(term: string): boolean },
): Highlight[] {
  const found: Highlight[] = []
  analyzer.analyze(text, language, (term, _position, start, end) => {
    if (!terms.has(term)) return
    const last = found.at(-1)
    if (last !== undefined && start < last.end)
      found[found.length - 1] = { start: last.start, end: Math.max(last.end, end) }
    else found.push({ start, end })
  })
  return found
}
