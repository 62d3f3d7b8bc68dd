import type { Bm25Parameters } from './bm25.ts'
import { ByteReader, ByteWriter } from './byte-writer.ts'
import { FrequencyCodes, type PartContent, PartWriter } from './part-content.ts'

/** Further words of a point are not indexed. It is the number of places that a key of `#sorted` has. */
export const wordsMax: number = 2 ** 20

/** A document of a pending part. */
interface PendingDocument {
  readonly slot: number
  readonly sequence: number
  readonly language: number
  readonly lengths: readonly number[]
  isRemoved: boolean
}

/** Documents that wait to become a part. They are kept as postings in the order of their arrival. */
export class PendingPart {
  readonly #paths: number
  readonly #terms = new Map<string, number>()
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

  constructor(paths: number) {
    this.#paths = paths
    this.#codes = new FrequencyCodes(paths)
    this.#frequencies = Array.from({ length: paths }, () => 0)
  }

  get postings(): number {
    return this.#postings.count
  }

  /** Adds a word of the document that `add` then adds. */
  word(term: string, path: number, position: number): void {
    if (this.#words >= wordsMax) return
    let number = this.#terms.get(term)
    if (number === undefined) {
      number = this.#terms.size
      this.#terms.set(term, number)
    }
    const at = this.#words++
    if (at === this.#keys.length) this.#growWords()
    this.#keys[at] = number * wordsMax + at
    this.#places[at] = position
    this.#pathOf[at] = path
  }

  #growWords(): void {
    const size = 2 * this.#keys.length
    this.#keys = grown(new Float64Array(size), this.#keys)
    this.#places = grown(new Uint32Array(size), this.#places)
    this.#pathOf = grown(new Uint8Array(size), this.#pathOf)
  }

  /** Adds a document with the words since the last. Returns its number. */
  add(slot: number, sequence: number, language: number, lengths: readonly number[]): number {
    const document = this.documents.length
    this.documents.push({ slot, sequence, language, lengths, isRemoved: false })
    const sorted = this.#keys.subarray(0, this.#words).sort()
    for (let from = 0; from < sorted.length; ) {
      const term = Math.floor(sorted[from]! / wordsMax)
      let to = from + 1
      while (to < sorted.length && Math.floor(sorted[to]! / wordsMax) === term) to += 1
      this.#addPosting(term, document, sorted, from, to)
      from = to
    }
    this.#words = 0
    return document
  }

  #addPosting(term: number, document: number, sorted: Float64Array, from: number, to: number): void {
    this.#frequencies.fill(0)
    const offset = this.#positions.length
    let lastPath = -1
    let last = 0
    for (let index = from; index < to; index += 1) {
      const word = sorted[index]! % wordsMax
      const path = this.#pathOf[word]!
      this.#frequencies[path]! += 1
      if (path !== lastPath) last = 0
      this.#positions.integer(this.#places[word]! - last)
      last = this.#places[word]!
      lastPath = path
    }
    this.#postings.add(term, document, this.#codes.codeOf(this.#frequencies), offset)
  }

  /** Leaves a document out of the part. */
  remove(document: number): void {
    this.documents[document]!.isRemoved = true
  }

  /** Returns the documents as a part, those that were removed excepted. */
  freeze(parameters: Bm25Parameters): PartContent {
    const order = this.documents
      .map((_, document) => document)
      .filter((document) => !this.documents[document]!.isRemoved)
      .sort((a, b) => this.documents[a]!.sequence - this.documents[b]!.sequence)
    const numbers = new Int32Array(this.documents.length).fill(-1)
    for (const [number, document] of order.entries()) numbers[document] = number
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
    this.#writeTerms(writer, numbers, newCodes)
    return writer.finish()
  }

  #writeTerms(writer: PartWriter, numbers: Int32Array, newCodes: Uint32Array): void {
    const byTerm = this.#postings.byTerm(this.#terms.size)
    const bytes = this.#positions.written
    let documents = new Uint32Array(1024)
    let codes = new Uint32Array(1024)
    for (const term of [...this.#terms.keys()].sort()) {
      const number = this.#terms.get(term)!
      const postings = byTerm.order.subarray(byTerm.starts[number]!, byTerm.starts[number + 1]!)
      const kept = postings.filter((posting) => numbers[this.#postings.documents[posting]!]! >= 0)
      if (kept.length === 0) continue
      kept.sort((a, b) => numbers[this.#postings.documents[a]!]! - numbers[this.#postings.documents[b]!]!)
      if (kept.length > documents.length) {
        documents = new Uint32Array(2 * kept.length)
        codes = new Uint32Array(2 * kept.length)
      }
      let occurrences = 0
      for (const [index, posting] of kept.entries()) {
        const code = this.#postings.codes[posting]!
        const total = this.#codes.total(code)
        documents[index] = numbers[this.#postings.documents[posting]!]!
        codes[index] = newCodes[code]!
        occurrences += total
        const from = this.#postings.offsets[posting]!
        writer.positions.append(bytes.subarray(from, endOfPositions(bytes, from, total)))
      }
      writer.term(term, documents, codes, kept.length, occurrences)
    }
  }
}

/** Returns where `count` integers of variable length end. */
export function endOfPositions(bytes: Uint8Array, from: number, count: number): number {
  const reader = new ByteReader(bytes, from)
  reader.skip(count)
  return reader.at
}

/** Postings in the order of their arrival. */
class Postings {
  count = 0
  terms: Uint32Array
  documents: Uint32Array
  codes: Uint32Array
  /** Where the positions begin. */
  offsets: Uint32Array

  constructor(size: number) {
    this.terms = new Uint32Array(size)
    this.documents = new Uint32Array(size)
    this.codes = new Uint32Array(size)
    this.offsets = new Uint32Array(size)
  }

  add(term: number, document: number, code: number, offset: number): void {
    const at = this.count++
    if (at === this.terms.length) {
      this.terms = grown(new Uint32Array(2 * at), this.terms)
      this.documents = grown(new Uint32Array(2 * at), this.documents)
      this.codes = grown(new Uint32Array(2 * at), this.codes)
      this.offsets = grown(new Uint32Array(2 * at), this.offsets)
    }
    this.terms[at] = term
    this.documents[at] = document
    this.codes[at] = code
    this.offsets[at] = offset
  }

  /** Returns the postings of each term in the order of their arrival: those of term t are from starts[t]. */
  byTerm(terms: number): { readonly starts: Uint32Array; readonly order: Uint32Array } {
    const starts = new Uint32Array(terms + 1)
    for (let at = 0; at < this.count; at += 1) starts[this.terms[at]! + 1]! += 1
    for (let term = 0; term < terms; term += 1) starts[term + 1]! += starts[term]!
    const next = starts.slice()
    const order = new Uint32Array(this.count)
    for (let at = 0; at < this.count; at += 1) order[next[this.terms[at]!]!++] = at
    return { starts, order }
  }
}

function grown<Numbers extends Float64Array | Uint32Array | Uint8Array>(
  larger: Numbers,
  numbers: Numbers,
): Numbers {
  larger.set(numbers)
  return larger
}
