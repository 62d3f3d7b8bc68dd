import { ByteReader, ByteWriter } from './byte-writer.ts'

/**
 * The terms of a part in order (of UTF-16), in groups of 16. A term is stored without what it shares with the one
 * before. A group begins with a whole term and with the offsets of its first lists, so a lookup reads one group.
 *
 * ```
 * group   offset of postings, of positions | entries
 * entry   shared bytes, other bytes: length, bytes | documents doubled, plus one if further
 *         occurrences follow | bytes of postings, of positions
 * ```
 *
 * All numbers are integers of variable length.
 */
const groupSize = 16

/** What a part knows about a term. */
export interface TermEntry {
  /** The number of documents that have it. */
  readonly documents: number
  /** How many times it occurs in them. */
  readonly occurrences: number
  /** The offset of the list in the postings. */
  readonly list: number
  /** The offset in the positions. */
  readonly positions: number
}

/** The first term of each group, and the offset of the group. */
export interface Groups {
  readonly heads: string[]
  readonly offsets: number[]
}

export class DictionaryWriter {
  readonly #out: ByteWriter = new ByteWriter()
  #term: Uint8Array = new Uint8Array(termBytesMax)
  #last: Uint8Array = new Uint8Array(termBytesMax)
  #lastLength = 0
  count = 0
  readonly groups: Groups = { heads: [], offsets: [] }

  get written(): Uint8Array {
    return this.#out.written
  }

  /** Appends a term, which is after the ones before, with the places where its lists begin and end. */
  add(term: string, documents: number, occurrences: number, postings: Span, positions: Span): void {
    const bytes = this.#term
    const length = encodeTerm(term, bytes)
    let shared = 0
    if (this.count % groupSize === 0) {
      // A copy: a term can be a part of the text that it is of, which would stay in memory with it.
      this.groups.heads.push(decoder.decode(bytes.subarray(0, length)))
      this.groups.offsets.push(this.#out.length)
      this.#out.integer(postings.from)
      this.#out.integer(positions.from)
    } else {
      const most = Math.min(length, this.#lastLength)
      while (shared < most && bytes[shared] === this.#last[shared]) shared += 1
    }
    this.#out.integer(shared)
    this.#out.integer(length - shared)
    this.#out.copy(bytes, shared, length)
    const further = occurrences - documents
    this.#out.integer(2 * documents + (further > 0 ? 1 : 0))
    if (further > 0) this.#out.integer(further)
    this.#out.integer(postings.to - postings.from)
    this.#out.integer(positions.to - positions.from)
    this.#term = this.#last
    this.#last = bytes
    this.#lastLength = length
    this.count += 1
  }
}

/** NFKC can make a cut word longer: one character can become eighteen. */
const termBytesMax = 16_384
const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

/** Writes the UTF-8 of a term. Returns how many bytes it has. */
function encodeTerm(term: string, bytes: Uint8Array): number {
  for (let index = 0; index < term.length; index += 1) {
    const character = term.charCodeAt(index)
    if (character > 127) return encoder.encodeInto(term, bytes).written
    bytes[index] = character
  }
  return term.length
}

interface Span {
  readonly from: number
  readonly to: number
}

/** More entries are not remembered. */
const rememberedMax = 16_384

export class Dictionary {
  readonly bytes: Uint8Array
  readonly #terms: number
  readonly #groups: Groups
  readonly #remembered = new Map<string, TermEntry | undefined>()

  /** @param groups as the writer knows them; otherwise, all terms are read */
  constructor(bytes: Uint8Array, terms: number, groups: Groups = groupsOf(bytes, terms)) {
    this.bytes = bytes
    this.#terms = terms
    this.#groups = groups
  }

  find(term: string): TermEntry | undefined {
    const known = this.#remembered.get(term)
    if (known !== undefined || this.#remembered.has(term)) return known
    const found = this.#search(term)
    if (this.#remembered.size >= rememberedMax) this.#remembered.clear()
    this.#remembered.set(term, found)
    return found
  }

  #search(term: string): TermEntry | undefined {
    const { heads, offsets } = this.#groups
    let [low, high] = [0, heads.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (heads[middle]! <= term) low = middle + 1
      else high = middle
    }
    if (low === 0) return undefined
    const group = low - 1
    const left = Math.min(groupSize, this.#terms - group * groupSize)
    const cursor = new DictionaryCursor(this.bytes, left, offsets[group]!)
    while (cursor.next()) if (cursor.term === term) return cursor.entry
    return undefined
  }

  /** Returns a cursor before the first term. */
  cursor(): DictionaryCursor {
    return new DictionaryCursor(this.bytes, this.#terms)
  }
}

function groupsOf(bytes: Uint8Array, terms: number): Groups {
  const groups: Groups = { heads: [], offsets: [] }
  const cursor = new DictionaryCursor(bytes, terms)
  while (cursor.next()) {
    if (!cursor.isHead) continue
    groups.heads.push(cursor.term)
    groups.offsets.push(cursor.offset)
  }
  return groups
}

/** Reads terms in order. */
export class DictionaryCursor {
  readonly #reader: ByteReader
  readonly #bytes: Uint8Array
  #left: number
  #read = 0
  #term = Buffer.alloc(256)
  #postings = 0
  #positions = 0
  #length = 0
  #decoded: string | undefined
  entry: TermEntry = { documents: 0, occurrences: 0, list: 0, positions: 0 }
  /** Where the entry's group begins; valid if `isHead`. */
  offset = 0
  isHead = false

  constructor(bytes: Uint8Array, terms: number, offset = 0) {
    this.#bytes = bytes
    this.#reader = new ByteReader(bytes, offset)
    this.#left = terms
  }

  get term(): string {
    this.#decoded ??= this.#term.toString('utf8', 0, this.#length)
    return this.#decoded
  }

  /** Goes to the next term. Returns false if there is none. */
  next(): boolean {
    if (this.#left === 0) return false
    this.#left -= 1
    const reader = this.#reader
    this.isHead = this.#read++ % groupSize === 0
    if (this.isHead) {
      this.offset = reader.at
      this.#postings = reader.integer()
      this.#positions = reader.integer()
    }
    const shared = reader.integer()
    const rest = reader.integer()
    if (shared + rest > this.#term.length) this.#term = Buffer.concat([this.#term], 2 * (shared + rest))
    for (let index = 0; index < rest; index += 1) this.#term[shared + index] = this.#bytes[reader.at + index]!
    reader.at += rest
    this.#length = shared + rest
    this.#decoded = undefined
    const both = reader.integer()
    const documents = Math.floor(both / 2)
    const occurrences = documents + (both % 2 === 1 ? reader.integer() : 0)
    this.entry = { documents, occurrences, list: this.#postings, positions: this.#positions }
    this.#postings += reader.integer()
    this.#positions += reader.integer()
    return true
  }
}
