import { LruCache } from '../base/budgets.ts'
import type { WordCounts } from '../base/point.ts'
import type { TermEntry } from './dictionary.ts'
import type { Part } from './part.ts'

/** What has been counted of the parts of an index, by set of slots. */
export class CountedParts {
  readonly #byPart = new WeakMap<Part, LruCache<CountedDocuments>>()

  /** Returns what has been counted of a set of slots. Who counts keeps it: others can displace it here. */
  take(part: Part, key: string): CountedDocuments {
    const byKey = this.#byPart.get(part) ?? new LruCache<CountedDocuments>(setsMax, () => 1)
    this.#byPart.set(part, byKey)
    const counted = byKey.get(key) ?? new CountedDocuments(part)
    byKey.set(key, counted)
    return counted
  }
}

/**
 * What statistics count of a part's documents in some slots: those of the partitions that a node of a cluster answers
 * for, since nodes have points in common, or those that match a filter. Everything is counted when it is first asked
 * for. Documents that are removed later are subtracted, as far as they had been counted.
 */
export class CountedDocuments {
  readonly #part: Part
  /** A bit for each document that was live, and in the slots, when it was looked at. */
  readonly #within: Uint32Array
  /** Documents below have been looked at. */
  #looked = 0
  /** How many documents had been removed when the counting began. */
  readonly #removedBefore: number
  /** How many of the removed documents are subtracted from the sizes. */
  #seen: number
  /** The counting of a term that is under way. */
  #counting: Generator<void, void> | undefined
  #documents = 0
  readonly #lengths: number[]
  readonly #languages = new Map<number, number>()
  /** By where their list is. */
  readonly #terms = new Map<number, Counts>()

  constructor(part: Part) {
    this.#part = part
    this.#within = new Uint32Array(Math.ceil(part.documents / 32))
    this.#removedBefore = part.removed.length
    this.#seen = this.#removedBefore
    this.#lengths = part.lengths.map(() => 0)
  }

  /** Whether nothing is left to do before some terms can be added up. */
  isComplete(terms: readonly string[]): boolean {
    return this.#looked === this.#part.documents && this.#uncounted(terms) === undefined
  }

  #uncounted(terms: readonly string[]): TermEntry | undefined {
    for (const term of terms) {
      const entry = this.#part.dictionary.find(term)
      if (entry !== undefined && !this.#terms.has(entry.list)) return entry
    }
    return undefined
  }

  /** Looks at some documents, or counts one of the terms. */
  step(isCounted: (slot: number) => boolean, terms: readonly string[]): void {
    const { documents, slots, lengths, languages } = this.#part
    if (this.#looked === documents) {
      const entry = this.#uncounted(terms)
      if (entry === undefined) return
      this.#counting ??= this.#count(entry)
      if (this.#counting.next().done === true) this.#counting = undefined
      return
    }
    const end = Math.min(documents, this.#looked + documentsPerStep)
    for (; this.#looked < end; this.#looked += 1) {
      const document = this.#looked
      if (!this.#part.isLive(document) || !isCounted(slots[document]!)) continue
      this.#within[document >> 5]! |= 1 << (document & 31)
      this.#documents += 1
      const language = languages[document]!
      this.#languages.set(language, (this.#languages.get(language) ?? 0) + 1)
      for (const [path, column] of lengths.entries()) this.#lengths[path]! += column[document]!
    }
  }

  #isWithin(document: number): boolean {
    return ((this.#within[document >> 5]! >>> (document & 31)) & 1) === 1
  }

  /** Counts a term, also in documents that have been removed since they were looked at: `countsOf` subtracts them. */
  *#count(entry: TermEntry): Generator<void, void> {
    const postings = this.#part.reader()
    const counts = { seen: this.#removedBefore, documents: 0, occurrences: 0 }
    let index = 0
    for (const end of postings.readInSteps(entry.list, entry.documents)) {
      for (; index < end; index += 1) {
        if (!this.#isWithin(postings.documents[index]!)) continue
        counts.documents += 1
        counts.occurrences += this.#part.total(postings.codes[index]!)
      }
      yield
    }
    if (this.#terms.size >= termsMax) this.#terms.clear()
    this.#terms.set(entry.list, counts)
  }

  /** Adds the sizes to others. */
  addSizes(sizes: Sizes): void {
    const { removed, lengths, languages } = this.#part
    for (; this.#seen < removed.length; this.#seen += 1) {
      const document = removed[this.#seen]!
      if (!this.#isWithin(document)) continue
      this.#documents -= 1
      this.#languages.set(languages[document]!, this.#languages.get(languages[document]!)! - 1)
      for (const [path, column] of lengths.entries()) this.#lengths[path]! -= column[document]!
    }
    sizes.documents += this.#documents
    for (const [path, length] of this.#lengths.entries()) sizes.lengths[path]! += length
    for (const [language, count] of this.#languages) sizes.languages[language]! += count
  }

  /** Returns the counts of a term, which must be complete; undefined if no document has it. */
  countsOf(term: string, find: Find): Readonly<Counts> | undefined {
    const entry = this.#part.dictionary.find(term)
    const counts = entry && this.#terms.get(entry.list)
    if (counts === undefined) return undefined
    const since = this.#part.removed.slice(counts.seen).filter((document) => this.#isWithin(document))
    counts.seen = this.#part.removed.length
    if (since.length === 0) return counts
    for (const code of find(entry!, Uint32Array.from(since).sort())) {
      if (code === 0) continue
      counts.documents -= 1
      counts.occurrences -= this.#part.total(code - 1)
    }
    return counts
  }
}

/** Returns the code plus one of a term in documents of a part, which ascend; 0 without it. */
type Find = (entry: TermEntry, documents: Uint32Array) => Uint32Array

interface Counts {
  /** How many of the removed documents are subtracted. */
  seen: number
  documents: number
  occurrences: number
}

interface Sizes {
  documents: number
  readonly lengths: number[]
  readonly languages: number[]
}

/** Adds up what has been counted in all parts of an index. */
export function countedWithin(
  parts: readonly { readonly counted: CountedDocuments; readonly find: Find }[],
  terms: readonly string[],
  { paths, languages }: { readonly paths: number; readonly languages: number },
): WordCounts {
  const sizes = {
    documents: 0,
    lengths: new Array<number>(paths).fill(0),
    languages: new Array<number>(languages).fill(0),
  }
  for (const { counted } of parts) counted.addSizes(sizes)
  const ofTerms = terms.map((term) => {
    const sum = { documents: 0, occurrences: 0 }
    for (const { counted, find } of parts) {
      const counts = counted.countsOf(term, find)
      sum.documents += counts?.documents ?? 0
      sum.occurrences += counts?.occurrences ?? 0
    }
    return sum
  })
  return { ...sizes, terms: ofTerms }
}

/** Sets of slots that are remembered, each with a bit for each document of a part. */
const setsMax = 32
/** Takes about a millisecond. */
const documentsPerStep = 32_768
/** Of a query there are at most 1,024, so those of one query are all there when they are added up. */
const termsMax = 16_384
