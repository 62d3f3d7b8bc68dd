import { atOnce } from '../base/turns.ts'
import { noHint } from './analyzer.ts'
import type { Bm25Parameters } from './bm25.ts'
import { ByteWriter } from './byte-writer.ts'
import { FrequencyCodes, type PartContent, PartWriter } from './part-content.ts'
import { knownWordsMax } from './tokenizer.ts'

/** Further words of a point are not indexed. It is the number of places that a key of `#sorted` has. */
const wordsMax: number = 2 ** 20

/** More words of a document are sorted by the engine. */
const sortedByHandMax = 64

/** No term has this number. */
const noTerm = 0xffffffff

/** The number that a term with a hint had in some part: whoever reads it compares the term. */
const hinted = new Uint32Array(knownWordsMax)

/** A document of a pending part. */
interface PendingDocument {
  readonly slot: number
  readonly sequence: number
  readonly language: number
  readonly lengths: readonly number[]
  readonly firstPosting: number
  isRemoved: boolean
}

/** Documents that wait to become a part. They are kept as postings in the order of their arrival. */
export class PendingPart {
  readonly #paths: number
  readonly #terms = new Map<string, number>()
  /** By number. */
  readonly #names: string[] = []
  readonly #codes: FrequencyCodes
  readonly documents: PendingDocument[] = []
  // By posting.
  #postings: Postings = new Postings(1024)
  readonly #positions: ByteWriter = new ByteWriter()
  // By word of the document that is being added.
  #words = 0
  #keys: Float64Array = new Float64Array(1024)
  #places: Uint32Array = new Uint32Array(1024)
  #pathOf: Uint8Array = new Uint8Array(1024)
  readonly #frequencies: number[]
  /** The code of one occurrence in a path. */
  readonly #onceCodes: number[] = []

  constructor(paths: number) {
    this.#paths = paths
    this.#codes = new FrequencyCodes(paths)
    this.#frequencies = Array.from({ length: paths }, () => 0)
  }

  get postings(): number {
    return this.#postings.count
  }

  /**
   * Adds a word of the document that `add` then adds.
   *
   * @param hint of the analyzer
   */
  word(term: string, path: number, position: number, hint: number = noHint): void {
    if (this.#words >= wordsMax) return
    let number = hint === noHint ? noTerm : hinted[hint]!
    if (this.#names[number] !== term) {
      number = this.#numberOf(term)
      if (hint !== noHint) hinted[hint] = number
    }
    const at = this.#words++
    if (at === this.#keys.length) this.#growWords()
    this.#keys[at] = number * wordsMax + at
    this.#places[at] = position
    this.#pathOf[at] = path
  }

  #numberOf(term: string): number {
    let number = this.#terms.get(term)
    if (number === undefined) {
      number = this.#terms.size
      this.#terms.set(term, number)
      this.#names.push(term)
    }
    return number
  }

  #growWords(): void {
    const size = 2 * this.#keys.length
    this.#keys = grown(new Float64Array(size), this.#keys)
    this.#places = grown(new Uint32Array(size), this.#places)
    this.#pathOf = grown(new Uint8Array(size), this.#pathOf)
  }

  /** Adds a document with the words since the last. Returns its number. */
  add(slot: number, sequence: number, language: number, lengths: readonly number[]): number {
    const document = this.#begin({ slot, sequence, language, lengths })
    this.#sortWords()
    for (let from = 0; from < this.#words; ) from = this.#addPostings(from, from + 1)
    this.#words = 0
    return document
  }

  /** As `add`, for a document of many words. */
  *addInSteps(language: number, lengths: readonly number[]): Generator<void, void> {
    this.#begin({ slot: 0, sequence: 0, language, lengths })
    if (this.#words <= wordsPerStep) this.#sortWords()
    else yield* this.#sortInSteps()
    for (let from = 0; from < this.#words; yield) from = this.#addPostings(from, from + wordsPerStep)
    this.#words = 0
  }

  #begin(document: Pick<PendingDocument, 'slot' | 'sequence' | 'language' | 'lengths'>): number {
    this.documents.push({ ...document, firstPosting: this.#postings.count, isRemoved: false })
    return this.documents.length - 1
  }

  /** Adds the postings of sorted words, from one up to another or the last of its term. Returns where it ended. */
  #addPostings(first: number, end: number): number {
    const [words, sorted] = [this.#words, this.#keys]
    let from = first
    while (from < Math.min(words, end)) {
      const term = Math.floor(sorted[from]! / wordsMax)
      let to = from + 1
      while (to < words && sorted[to]! < (term + 1) * wordsMax) to += 1
      this.#addPosting(term, from, to)
      from = to
    }
    return from
  }

  /** Sorts the words by term, which leaves the words of a term in their order. */
  *#sortInSteps(): Generator<void, void> {
    const [words, keys] = [this.#words, this.#keys]
    const starts = new Uint32Array(this.#names.length + 1)
    for (let at = 0; at < words; at += 1) {
      starts[Math.floor(keys[at]! / wordsMax) + 1]! += 1
      if (at % wordsPerStep === 0) yield
    }
    for (let term = 0; term < this.#names.length; term += 1) starts[term + 1]! += starts[term]!
    const sorted = new Float64Array(keys.length)
    for (let at = 0; at < words; at += 1) {
      sorted[starts[Math.floor(keys[at]! / wordsMax)]!++] = keys[at]!
      if (at % wordsPerStep === 0) yield
    }
    this.#keys = sorted
  }

  /** Sorts the words by term. A call of the engine's sort costs as much as sorting a short text. */
  #sortWords(): void {
    const keys = this.#keys
    if (this.#words > sortedByHandMax) {
      keys.subarray(0, this.#words).sort()
      return
    }
    for (let index = 1; index < this.#words; index += 1) {
      const key = keys[index]!
      let at = index
      for (; at > 0 && keys[at - 1]! > key; at -= 1) keys[at] = keys[at - 1]!
      keys[at] = key
    }
  }

  #addPosting(term: number, from: number, to: number): void {
    this.#frequencies.fill(0)
    let lastPath = -1
    let last = 0
    for (let index = from; index < to; index += 1) {
      const word = this.#keys[index]! % wordsMax
      const path = this.#pathOf[word]!
      this.#frequencies[path]! += 1
      if (path !== lastPath) last = 0
      this.#positions.integer(this.#places[word]! - last)
      last = this.#places[word]!
      lastPath = path
    }
    const code = to - from === 1 ? this.#codeOfOne(lastPath) : this.#codes.codeOf(this.#frequencies)
    this.#postings.add(term, code, this.#positions.length)
  }

  /** Most terms occur once in a document. */
  #codeOfOne(path: number): number {
    this.#onceCodes[path] ??= this.#codes.codeOf(this.#frequencies)
    return this.#onceCodes[path]
  }

  /** Leaves a document out of the part. */
  remove(document: number): void {
    this.documents[document]!.isRemoved = true
  }

  /** Returns the documents as a part, those that were removed excepted. */
  freeze(parameters: Bm25Parameters): PartContent {
    return atOnce(this.freezeInSteps(parameters))
  }

  /** As `freeze`. Nothing may be added meanwhile. */
  *freezeInSteps(parameters: Bm25Parameters): Generator<void, PartContent> {
    const order = this.documents
      .map((_, document) => document)
      .filter((document) => !this.documents[document]!.isRemoved)
      .sort((a, b) => this.documents[a]!.sequence - this.documents[b]!.sequence)
    const kept = order.map((document) => this.documents[document]!)
    const columns = {
      slots: Uint32Array.from(kept, ({ slot }) => slot),
      sequences: Float64Array.from(kept, ({ sequence }) => sequence),
      languages: Uint8Array.from(kept, ({ language }) => language),
      lengths: Array.from({ length: this.#paths }, (_, path) =>
        Uint32Array.from(kept, ({ lengths }) => lengths[path]!),
      ),
    }
    const { table, newCodes } = this.#codes.ordered()
    const writer = new PartWriter(columns, table, parameters)
    yield* this.#writeTerms(writer, order, newCodes)
    return writer.finish()
  }

  *#writeTerms(writer: PartWriter, order: readonly number[], newCodes: Uint32Array): Generator<void, void> {
    yield
    const { starts, documents, codes, postings } = this.#byTerm(order)
    yield
    const positions = this.#positions.written
    const offsets = this.#postings.offsets
    for (const [index, number] of (yield* sortedInSteps(this.#names)).entries()) {
      if (index % termsPerStep === 0) yield
      const [from, to] = [starts[number]!, starts[number + 1]!]
      if (from === to) continue
      let occurrences = 0
      for (let at = from; at < to; at += 1) {
        const posting = postings[at]!
        occurrences += this.#codes.total(codes[at]!)
        codes[at] = newCodes[codes[at]!]!
        writer.positions.copy(positions, offsets[posting]!, offsets[posting + 1]!)
      }
      writer.term(
        this.#names[number]!,
        documents.subarray(from, to),
        codes.subarray(from, to),
        to - from,
        occurrences,
      )
    }
  }

  /**
   * Returns the postings of documents by term and in the order of the documents: those of term t are from starts[t]. The
   * documents have their new numbers.
   */
  #byTerm(order: readonly number[]): {
    readonly [name in 'starts' | 'documents' | 'codes' | 'postings']: Uint32Array
  } {
    const { terms, codes } = this.#postings
    const starts = new Uint32Array(this.#terms.size + 1)
    const ends = order.map((document) => this.documents[document + 1]?.firstPosting ?? this.#postings.count)
    const firsts = order.map((document) => this.documents[document]!.firstPosting)
    for (const [number, first] of firsts.entries()) {
      for (let posting = first; posting < ends[number]!; posting += 1) starts[terms[posting]! + 1]! += 1
    }
    for (let term = 0; term < this.#terms.size; term += 1) starts[term + 1]! += starts[term]!
    const next = starts.slice()
    const count = starts[this.#terms.size]!
    const byTerm = {
      starts,
      documents: new Uint32Array(count),
      codes: new Uint32Array(count),
      postings: new Uint32Array(count),
    }
    for (const [number, first] of firsts.entries()) {
      for (let posting = first; posting < ends[number]!; posting += 1) {
        const at = next[terms[posting]!]!++
        byTerm.documents[at] = number
        byTerm.codes[at] = codes[posting]!
        byTerm.postings[at] = posting
      }
    }
    return byTerm
  }
}

/** As `sortedTerms`: sorts some at a time, and merges them. */
function* sortedInSteps(terms: readonly string[]): Generator<void, readonly number[]> {
  if (terms.length <= termsPerSort) return sortedTerms(terms)
  let runs: number[][] = []
  for (let from = 0; from < terms.length; from += termsPerSort) {
    runs.push(sortedTerms(terms.slice(from, from + termsPerSort)).map((number) => from + number))
    yield
  }
  while (runs.length > 1) {
    const merged: number[][] = []
    for (let at = 0; at < runs.length; at += 2)
      merged.push(yield* mergedRuns(terms, runs[at]!, runs[at + 1] ?? []))
    runs = merged
  }
  return runs[0]!
}

function* mergedRuns(terms: readonly string[], a: number[], b: number[]): Generator<void, number[]> {
  const merged: number[] = []
  for (let [i, j] = [0, 0]; i < a.length || j < b.length; ) {
    const isFirst = j === b.length || (i < a.length && terms[a[i]!]! < terms[b[j]!]!)
    merged.push(isFirst ? a[i++]! : b[j++]!)
    if (merged.length % termsPerSort === 0) yield
  }
  return merged
}

/** Returns the numbers of terms in the order of the terms, sorted by their first characters and then in full. */
function sortedTerms(terms: readonly string[]): number[] {
  const keys = new Float64Array(terms.length)
  for (const [number, term] of terms.entries()) {
    let prefix = 0
    for (let index = 0; index < prefixLength; index += 1) {
      const character = index < term.length ? term.charCodeAt(index) : 0
      prefix = 256 * prefix + Math.min(255, character)
      if (character < 255) continue
      prefix *= 256 ** (prefixLength - 1 - index)
      break
    }
    keys[number] = prefix * termsMax + number
  }
  keys.sort()
  const sorted = Array.from(keys, (key) => key % termsMax)
  for (let from = 0; from < keys.length; ) {
    const prefix = Math.floor(keys[from]! / termsMax)
    let to = from + 1
    while (to < keys.length && keys[to]! < (prefix + 1) * termsMax) to += 1
    if (to - from > 1) {
      const equal = sorted.slice(from, to).sort((a, b) => (terms[a]! < terms[b]! ? -1 : 1))
      for (const [index, number] of equal.entries()) sorted[from + index] = number
    }
    from = to
  }
  return sorted
}

// What takes about a millisecond.
const wordsPerStep = 16_384
const termsPerStep = 2048
const termsPerSort = 4096

/** With it, keys are below 2^53. */
const prefixLength = 4
/** A pending part has fewer terms: it is frozen after a document that makes it large, which adds at most `wordsMax`. */
const termsMax = 2 * wordsMax

/** Postings in the order of their arrival. */
class Postings {
  count = 0
  terms: Uint32Array
  codes: Uint32Array
  /** Where the positions begin, and those of the next. */
  offsets: Uint32Array

  constructor(size: number) {
    this.terms = new Uint32Array(size)
    this.codes = new Uint32Array(size)
    this.offsets = new Uint32Array(size + 1)
  }

  /** @param end where the positions end */
  add(term: number, code: number, end: number): void {
    const at = this.count++
    if (at === this.terms.length) {
      this.terms = grown(new Uint32Array(2 * at), this.terms)
      this.codes = grown(new Uint32Array(2 * at), this.codes)
      this.offsets = grown(new Uint32Array(2 * at + 1), this.offsets)
    }
    this.terms[at] = term
    this.codes[at] = code
    this.offsets[at + 1] = end
  }
}

function grown<Numbers extends Float64Array | Uint32Array | Uint8Array>(
  larger: Numbers,
  numbers: Numbers,
): Numbers {
  larger.set(numbers)
  return larger
}
