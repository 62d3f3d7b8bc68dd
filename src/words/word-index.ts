import { DatabaseError } from '../base/errors.ts'
import type { WordCounts, WordStatistics } from '../base/point.ts'
import { atOnce } from '../base/turns.ts'
import { Analyzer, type LanguageChoice, noLanguage } from './analyzer.ts'
import {
  type Bm25Parameters,
  type CollectionStatistics,
  defaultB,
  defaultK1,
  normsOf,
  raisedWeights,
  shiftOf,
  type TermStatistics,
  termWeight,
} from './bm25.ts'
import { type CountedDocuments, CountedParts, countedWithin } from './counted-documents.ts'
import type { TermEntry } from './dictionary.ts'
import { mergeParts } from './merge-parts.ts'
import { Arena, Part, type PartAddresses } from './part.ts'
import { type PartContent, weightedFrequencies, weightedLengths } from './part-content.ts'
import { PendingPart } from './pending-part.ts'
import {
  type Highlight,
  highlights,
  matchingMax,
  matchingSlots,
  type SlotBitmap,
  type Wanted,
  WantedTexts,
} from './word-matches.ts'
import { type PartQuery, searcherBytes, WordSearcher } from './word-searcher.ts'

/**
 * The words of a collection's points: which have the words of a query, and how well.
 *
 * ```
 * put ──> pending part ──(a search, or it is large)──> part ──┐
 *                                   part, part, part ─────────┴─(of similar sizes)──> one part
 * ```
 *
 * A part never changes, but its documents are removed: a bit is cleared. A changed point is removed and put again. The
 * statistics of scores count live documents only, so they do not depend on how documents are divided into parts.
 */

interface WordOptions {
  readonly language: LanguageChoice
  /** The weights of the paths whose texts are indexed. */
  readonly weights: readonly number[]
  readonly k1?: number
  readonly b?: number
}

export interface WordHit {
  readonly slot: number
  readonly sequence: number
  readonly score: number
}

/** A part that was saved. */
export interface SavedPart {
  readonly content: PartContent
  /** The documents that had been removed when it was saved. */
  readonly removed: readonly number[]
  /** Told which part it has become. */
  adopted(part: Part): void
}

/** A pending part of more is frozen. That takes a few milliseconds, of words that are all different, too. */
const pendingDocumentsMax = 4096
const pendingPostingsMax = 8192

/** Parts of fewer bytes together are merged at once: that takes a millisecond or two. */
const mergedAtOnceBytes = 262_144

/** Searches want a part to be merged with smaller ones if it has at most this many times their documents. */
const mergeRatio = 2

/** While nobody searches, so many parts are merged, none twice as large as another: each point is then merged rarely. */
const unsearchedPartsMax = 8

/** A part is rewritten if more than this share of its documents was removed. */
const removedShareMax = 0.3

/** Positions between two texts of a path, so that no phrase crosses from one to the other. */
const textGap = 128

/** Seeking a posting takes about as long as reading this many. */
const seekPostings = 16

/** What a posting of a pending part takes, with its share of the terms. */
const pendingPostingBytes = 40

/** Restoring so many documents takes about a tenth of a millisecond. */
const restoredPerStep = 256

/** The part number of slots without a document, and of those in the pending part. */
const nowhere = 0
const pending = 1

export class WordIndex {
  readonly parameters: Bm25Parameters
  readonly analyzer: Analyzer
  readonly #wantedTexts: WantedTexts
  readonly #arena: Arena = new Arena()
  readonly #searcher: WordSearcher
  #parts: Part[] = []
  /** Parts by number; see `nowhere`. */
  readonly #byNumber: (Part | undefined)[] = [undefined, undefined]
  #pending: PendingPart
  // By slot.
  #partOf: Uint32Array = new Uint32Array(1024)
  #documentOf: Uint32Array = new Uint32Array(1024)
  // Statistics of live documents.
  #documents = 0
  readonly #lengths: number[]
  readonly #languages: Uint32Array = new Uint32Array(noLanguage + 1)
  #filter: { readonly address: number; readonly words: number } = { address: 0, words: 0 }
  /** Where columns for other weights are, until their search is done. */
  readonly #reweighted: { readonly start: number; readonly bytes: number }[] = []
  /** The parts that `mergeInSteps` is merging. */
  #merging: readonly Part[] = []
  readonly #counted = new CountedParts()
  /** Rises with every change. */
  #changes = 0
  /** A search with a vector needs its plan twice. */
  #lastPlan: LastPlan | undefined
  /** Whether writes may have left parts to merge. */
  #mayMerge = false

  constructor({ language, weights, k1 = defaultK1, b = defaultB }: WordOptions) {
    this.parameters = { k1, b, weights }
    this.analyzer = new Analyzer(language)
    this.#wantedTexts = new WantedTexts(this.analyzer)
    this.#pending = new PendingPart(weights.length)
    this.#lengths = weights.map(() => 0)
    this.#searcher = new WordSearcher(this.#arena.memory, this.#arena.allocate(searcherBytes))
  }

  get statistics(): CollectionStatistics {
    return { documents: this.#documents, lengths: this.#lengths }
  }

  /** Differs after each change of the points. */
  get changes(): number {
    return this.#changes
  }

  /** Bytes in memory: exactly those of parts, about those of what waits to become one and of remembered words. */
  get memoryBytes(): number {
    const bySlot = this.#partOf.byteLength + this.#documentOf.byteLength
    const remembered = this.analyzer.memoryBytes + this.#wantedTexts.memoryBytes
    return this.#arena.allocatedBytes + bySlot + pendingPostingBytes * this.#pending.postings + remembered
  }

  /** Whether a slot has a point that is indexed. */
  has(slot: number): boolean {
    return (this.#partOf[slot] ?? nowhere) !== nowhere
  }

  /** The parts, to store them. */
  get parts(): readonly Part[] {
    return this.#parts
  }

  /**
   * Indexes the texts of a point, those of each path in an array. A point that was in the slot is replaced.
   *
   * @param sequence no other point has the same
   */
  put(slot: number, sequence: number, texts: readonly (readonly string[])[]): void {
    this.remove(slot)
    const language = this.analyzer.languageOf(texts)
    const lengths = texts.map((ofPath, path) => {
      let length = 0
      for (const [index, text] of ofPath.entries()) {
        const from = length + index * textGap
        length += this.analyzer.analyze(text, language, (term, position, _start, _end, hint) =>
          this.#pending.word(term, path, from + position, hint),
        )
      }
      return length
    })
    this.#growTo(slot)
    this.#changes += 1
    this.#partOf[slot] = pending
    this.#documentOf[slot] = this.#pending.add(slot, sequence, language, lengths)
    this.#count(1, language, lengths)
    const { documents, postings } = this.#pending
    if (documents.length >= pendingDocumentsMax || postings >= pendingPostingsMax) this.#freeze()
  }

  /** Analyzes the texts of a point in steps, for `putPrepared`. What it returns depends on the texts alone. */
  *prepare(texts: readonly (readonly string[])[]): Generator<void, PreparedPoint> {
    const language = this.analyzer.languageOf(texts)
    const part = new PendingPart(this.parameters.weights.length)
    const lengths: number[] = []
    for (const [path, ofPath] of texts.entries()) {
      let length = 0
      for (const [index, text] of ofPath.entries()) {
        const from = length + index * textGap
        length += yield* this.analyzer.analyzeInSteps(text, language, (term, position, _start, _end, hint) =>
          part.word(term, path, from + position, hint),
        )
      }
      lengths.push(length)
    }
    yield* part.addInSteps(language, lengths)
    return { language, lengths, content: yield* part.freezeInSteps(this.parameters) }
  }

  /** As `put`, of a point that has been prepared: it becomes a part of its own. */
  putPrepared(slot: number, sequence: number, { language, lengths, content }: PreparedPoint): void {
    this.remove(slot)
    this.#growTo(slot)
    this.#changes += 1
    this.#count(1, language, lengths)
    const columns = { slots: Uint32Array.of(slot), sequences: Float64Array.of(sequence) }
    this.#adopt(new Part(this.#arena, { ...content, ...columns }))
  }

  /** Removes the point in a slot, if it is indexed. */
  remove(slot: number): void {
    const number = this.#partOf[slot] ?? nowhere
    if (number === nowhere) return
    this.#changes += 1
    this.#partOf[slot] = nowhere
    const document = this.#documentOf[slot]!
    if (number === pending) {
      this.#pending.remove(document)
      const { language, lengths } = this.#pending.documents[document]!
      this.#count(-1, language, lengths)
      return
    }
    const part = this.#byNumber[number]!
    part.remove(document)
    if (part.removed.length > removedShareMax * part.documents) this.#mayMerge = true
    this.#countOf(part, document, -1)
  }

  #countOf(part: Part, document: number, sign: 1 | -1): void {
    const lengths = part.lengths.map((column) => column[document]!)
    this.#count(sign, part.languages[document]!, lengths)
  }

  #count(sign: 1 | -1, language: number, lengths: readonly number[]): void {
    this.#documents += sign
    this.#languages[language]! += sign
    for (const [path, length] of lengths.entries()) this.#lengths[path]! += sign * length
  }

  #growTo(slot: number): void {
    if (slot < this.#partOf.length) return
    const size = Math.max(slot + 1, 2 * this.#partOf.length)
    const [parts, documents] = [new Uint32Array(size), new Uint32Array(size)]
    parts.set(this.#partOf)
    documents.set(this.#documentOf)
    this.#partOf = parts
    this.#documentOf = documents
  }

  /**
   * Fills an empty index with saved parts, in steps. Points must not change meanwhile.
   *
   * @param isCurrent whether a slot still has the point with a sequence number
   */
  *restore(
    saved: readonly SavedPart[],
    isCurrent: (slot: number, sequence: number) => boolean,
  ): Generator<void, void> {
    for (const { content, removed, adopted } of saved) {
      const part = new Part(this.#arena, content)
      for (const document of removed) part.remove(document)
      for (let document = 0; document < part.documents; document += 1) {
        if (document % restoredPerStep === 0) yield
        if (!part.isLive(document)) continue
        if (isCurrent(part.slots[document]!, part.sequences[document]!)) this.#countOf(part, document, 1)
        else part.remove(document)
      }
      this.#adopt(part)
      adopted(part)
    }
  }

  /** Makes the pending documents a part, and merges small parts. A search does it first. */
  freeze(): void {
    this.#freeze()
    for (;;) {
      const merging = this.#mergeable(true)
      const bytes = merging.reduce((sum, part) => sum + part.bytes, 0)
      if (merging.length === 0 || bytes > mergedAtOnceBytes) return
      this.#merge(merging, atOnce(mergeParts(merging, this.parameters)))
    }
  }

  #freeze(): void {
    if (this.#pending.documents.length === 0) return
    const content = this.#pending.freeze(this.parameters)
    this.#pending = new PendingPart(this.parameters.weights.length)
    if (content.slots.length > 0) this.#adopt(new Part(this.#arena, content))
  }

  /**
   * Merges large parts, in steps. Points may change between them.
   *
   * @param isSearched whether to leave as few parts as searches want, and not only as few as writes need
   */
  *mergeInSteps(isSearched: boolean): Generator<void, void> {
    if (this.#merging.length > 0) return
    for (let parts = this.#mergeable(isSearched); parts.length > 0; parts = this.#mergeable(isSearched)) {
      this.#merging = parts
      try {
        this.#merge(parts, yield* mergeParts(parts, this.parameters))
      } finally {
        this.#merging = []
      }
      yield
    }
  }

  /** Whether `mergeInSteps` has work. */
  isMergeable(isSearched: boolean): boolean {
    // Asked for every write.
    if (!isSearched && !this.#mayMerge) return false
    if (this.#merging.length > 0) return false
    const isMergeable = this.#mergeable(isSearched).length > 0
    if (!isSearched) this.#mayMerge = isMergeable
    return isMergeable
  }

  /** Returns the parts to merge next: the smallest ones that are of similar sizes. */
  #mergeable(isSearched: boolean): readonly Part[] {
    const least = isSearched ? 2 : unsearchedPartsMax
    const free = this.#parts.filter((part) => !this.#merging.includes(part))
    let run: Part[] = []
    let total = 0
    for (const part of [...free].sort((a, b) => a.liveDocuments - b.liveDocuments)) {
      if (part.liveDocuments > mergeRatio * (isSearched ? total : (run[0]?.liveDocuments ?? 0))) {
        if (run.length >= least) break
        run = []
        total = 0
      }
      run.push(part)
      total += part.liveDocuments
    }
    if (run.length >= least) return run
    return free.filter((part) => part.removed.length > removedShareMax * part.documents).slice(0, 1)
  }

  /** Replaces parts by what they were merged to. */
  #merge(parts: readonly Part[], content: PartContent): void {
    const numbers = parts.map((part) => this.#byNumber.indexOf(part))
    if (content.slots.length > 0) {
      const part = new Part(this.#arena, content)
      // Documents that were removed while they were merged.
      for (let document = 0; document < part.documents; document += 1) {
        const slot = part.slots[document]!
        const number = this.#partOf[slot]!
        const source = numbers.includes(number) ? this.#byNumber[number] : undefined
        if (source?.sequences[this.#documentOf[slot]!] !== part.sequences[document]) part.remove(document)
      }
      this.#adopt(part)
    }
    this.#parts = this.#parts.filter((part) => !parts.includes(part))
    this.#lastPlan = undefined
    for (const number of numbers) this.#byNumber[number] = undefined
    for (const part of parts) part.release()
  }

  #adopt(part: Part): void {
    const free = this.#byNumber.indexOf(undefined, pending + 1)
    const number = free === -1 ? this.#byNumber.length : free
    this.#byNumber[number] = part
    this.#parts.push(part)
    this.#lastPlan = undefined
    this.#mayMerge = true
    for (let document = 0; document < part.documents; document += 1) {
      if (!part.isLive(document)) continue
      const slot = part.slots[document]!
      this.#growTo(slot)
      this.#partOf[slot] = number
      this.#documentOf[slot] = document
    }
  }

  /**
   * Returns the best k points for the words of a query, exactly: the highest score first, then the lowest sequence.
   *
   * @param weights of the paths, in place of those of the index; then no document is passed over by its block's maximum
   * @param statistics in place of those of this index
   */
  search(
    text: string,
    k: number,
    filter?: SlotBitmap,
    weights?: readonly number[],
    statistics?: WordStatistics,
  ): WordHit[] {
    const plan = this.plan(text, weights, statistics)
    const { unit } = plan
    const hits: WordHit[] = []
    const address = filter === undefined || this.#isSelective(plan, filter) ? 0 : this.#writeFilter(filter)
    const among = filter !== undefined && address === 0 ? this.#documentsOf(filter) : undefined
    let floor = 0
    for (const { part, query } of plan.queries) {
      const documents = among?.get(part)
      if (among !== undefined && documents === undefined) continue
      const found =
        documents === undefined
          ? this.#searcher.search(query, k, floor, address)
          : this.#searcher.searchAmong(query, k, floor, documents)
      const isFirst = hits.length === 0
      for (let index = 0; index < found.documents.length; index += 1) {
        const document = found.documents[index]!
        const score = found.scores[index]! * unit
        hits.push({ slot: part.slots[document]!, sequence: part.sequences[document]!, score })
      }
      // Those of a part are in order.
      if (!isFirst) hits.sort((a, b) => b.score - a.score || a.sequence - b.sequence).splice(k)
      // A document of another part with the same score can have a lower sequence.
      if (hits.length === k) floor = Math.max(0, hits[k - 1]!.score / unit - 1)
    }
    this.#releaseReweighted()
    return hits
  }

  /** Returns the scores of the points in given slots; 0 where no word is. */
  scores(
    text: string,
    slots: Uint32Array,
    weights?: readonly number[],
    statistics?: WordStatistics,
  ): Float64Array {
    const plan = this.plan(text, weights, statistics)
    const count = slots.length
    const scores = new Float64Array(count)
    // By document, with their places among the slots: typed arrays sort numbers several times as fast as lists do.
    const keys = Float64Array.from(slots, (slot, place) => this.#documentOf[slot]! * count + place).sort()
    for (const { part, query } of plan.queries) {
      const number = this.#byNumber.indexOf(part)
      const inPart = keys.filter((key) => this.#partOf[slots[key % count]!] === number)
      const found = this.#searcher.scores(
        query,
        Uint32Array.from(inPart, (key) => Math.floor(key / count)),
      )
      for (let index = 0; index < found.length; index += 1)
        scores[inPart[index]! % count] = found[index]! * plan.unit
    }
    this.#releaseReweighted()
    return scores
  }

  /**
   * Returns a function that finds words of a query in the texts of a point, those of each path in an array, in steps.
   *
   * @param languages the number of points by language, in place of those of this index
   */
  highlighter(
    query: string,
    languages: ArrayLike<number> = this.#languages,
  ): (texts: readonly (readonly string[])[]) => Generator<void, readonly (readonly Highlight[])[][]> {
    const { analyzer } = this
    const terms = analyzer.queryTerms(query, languages)
    return function* (texts) {
      const language = analyzer.languageOf(texts)
      const found: (readonly Highlight[])[][] = []
      for (const ofPath of texts) {
        const inPath: (readonly Highlight[])[] = []
        for (const text of ofPath) inPath.push(yield* highlights(analyzer, text, language, terms))
        found.push(inPath)
      }
      return found
    }
  }

  /** Returns the slots of the points that have wanted words. */
  matching(wanted: Wanted): SlotBitmap {
    this.freeze()
    const slots = this.#partOf.length
    const texts = atOnce(this.wantedTerms(wanted.text))
    return matchingSlots(wanted, texts, this.#parts, slots, (part, term, documents) =>
      this.#codes(part, part.dictionary.find(term)!, documents),
    )
  }

  /** Returns at least as many as `matching` finds, by the rarest of the wanted words. */
  matchingMax(wanted: Wanted): number {
    this.freeze()
    return matchingMax(wanted, atOnce(this.wantedTerms(wanted.text)), this.#parts)
  }

  /** Analyzes the text of a filter in steps, so that `matching` does not have to. */
  wantedTerms(text: string): ReturnType<WantedTexts['termsOf']> {
    const present = [...this.#languages.keys()].filter((language) => this.#languages[language]! > 0)
    // A phrase that is too long is refused without points, too.
    const languages = present.length > 0 ? present : [this.analyzer.languageOf([[text]])]
    return this.#wantedTexts.termsOf(text, languages)
  }

  /** Returns the code plus one of a term in documents of a part, which ascend; 0 without it. */
  #codes(part: Part, entry: TermEntry, documents: Uint32Array): Uint32Array {
    const list = { list: part.addresses.postings + entry.list, documents: entry.documents, weight: 0 }
    return this.#searcher.codes(this.#queryOf(part, [list]), documents)
  }

  /** Returns how often a term occurs in live documents. */
  termStatistics(term: string): TermStatistics {
    let [documents, occurrences] = [0, 0]
    for (const part of this.#parts) {
      const entry = part.dictionary.find(term)
      if (entry === undefined) continue
      const removals = part.removals(entry, (removed) => this.#codes(part, entry, removed))
      documents += entry.documents - removals.documents
      occurrences += entry.occurrences - removals.occurrences
    }
    return { documents, occurrences }
  }

  /** Returns the terms of a query, each with its weight in it. @param languages the number of points by language */
  wanted(text: string, languages: ArrayLike<number> = this.#languages): WordStatistics['wanted'] {
    return [...this.analyzer.queryTerms(text, languages)]
  }

  /**
   * Counts the points in some slots, in steps, as of the last of them. Points may change between the steps.
   *
   * @param key names the set of slots: the same key, the same set
   * @param isCounted whether a slot, which has a point, is one of them
   */
  *countWithin(
    terms: readonly string[],
    key: string,
    isCounted: (slot: number) => boolean,
  ): Generator<void, WordCounts> {
    const counted = new Map<Part, CountedDocuments>()
    const of = (part: Part): CountedDocuments => {
      const known = counted.get(part) ?? this.#counted.take(part, key)
      counted.set(part, known)
      return known
    }
    for (;;) {
      this.freeze()
      // Parts are looked up anew in each step: they can have been merged, and freed, since the last one.
      const part = this.#parts.find((each) => !of(each).isComplete(terms))
      if (part === undefined) break
      of(part).step(isCounted, terms)
      yield
    }
    const find = (part: Part) => (entry: TermEntry, documents: Uint32Array) =>
      this.#codes(part, entry, documents)
    return countedWithin(
      this.#parts.map((part) => ({ counted: of(part), find: find(part) })),
      terms,
      { paths: this.parameters.weights.length, languages: this.#languages.length },
    )
  }

  /** Returns what to compute in each part. Pending documents become a part first. */
  plan(text: string, weights?: readonly number[], statistics?: WordStatistics): WordPlan {
    this.freeze()
    const last = this.#lastPlan
    const isSame = last?.text === text && last.statistics === statistics && last.changes === this.#changes
    if (isSame && weights === undefined) return last.plan
    const plan = this.#newPlan(text, weights, statistics)
    if (weights === undefined) this.#lastPlan = { text, statistics, changes: this.#changes, plan }
    return plan
  }

  #newPlan(text: string, weights?: readonly number[], statistics?: WordStatistics): WordPlan {
    if (statistics !== undefined && statistics.lengths.length !== this.parameters.weights.length) {
      throw new DatabaseError('not_ready', 'the words of this collection were declared anew: try again')
    }
    const words = statistics?.wanted ?? this.wanted(text)
    const sizes = statistics ?? this.statistics
    const found = words.flatMap(([term, inQuery], index) => {
      const ofTerm = statistics?.terms[index] ?? this.termStatistics(term)
      // Of given statistics, which can be those of other points, the terms are given, too.
      if (statistics === undefined && ofTerm.documents === 0) return []
      return [{ term, weight: termWeight(inQuery, ofTerm, sizes, this.parameters) }]
    })
    const raised = raisedWeights(found.map(({ weight }) => weight))
    const terms = found.map(({ term }, index) => ({ term, weight: raised[index]! }))
    const shift = shiftOf(raised)
    const queries = this.#parts.flatMap((part) => {
      const lists = terms.flatMap(({ term, weight }) => {
        const entry = part.dictionary.find(term)
        if (entry === undefined) return []
        const list = part.addresses.postings + entry.list
        return [{ list, documents: entry.documents, weight: weight * 2 ** shift }]
      })
      return lists.length === 0 ? [] : [{ part, query: this.#queryOf(part, lists, weights, sizes) }]
    })
    // The threshold rises faster in large parts.
    queries.sort((a, b) => b.part.documents - a.part.documents)
    return { queries, unit: 2 ** -shift }
  }

  #queryOf(
    part: Part,
    terms: PartQuery['terms'],
    weights?: readonly number[],
    sizes: CollectionStatistics = this.statistics,
  ): PartQuery {
    if (weights !== undefined) {
      const norms = normsOf({ ...this.parameters, weights }, sizes)
      const addresses = this.#reweight(part, weights)
      return { addresses, documents: part.documents, norms, drift: driftMax, terms }
    }
    const norms = normsOf(this.parameters, sizes)
    const { base, slope } = part.norms
    const drift = Math.max(1, ratio(base, norms.base), ratio(slope, norms.slope))
    return { addresses: part.addresses, documents: part.documents, norms, drift, terms }
  }

  /** Computes the columns of a part that depend on the weights of its paths for others, until the search is done. */
  #reweight({ addresses, codes, lengths }: Part, weights: readonly number[]): PartAddresses {
    const frequencies = weightedFrequencies(codes, weights)
    const weighted = weightedLengths(lengths, weights)
    const bytes = frequencies.byteLength + weighted.byteLength
    const start = this.#arena.allocate(bytes)
    this.#reweighted.push({ start, bytes })
    const { buffer } = this.#arena.memory
    new Float64Array(buffer, start, frequencies.length).set(frequencies)
    const lengthsAt = start + frequencies.byteLength
    new Float32Array(buffer, lengthsAt, weighted.length).set(weighted)
    return { ...addresses, frequencies: start, lengths: lengthsAt }
  }

  #releaseReweighted(): void {
    for (const { start, bytes } of this.#reweighted.splice(0)) this.#arena.release(start, bytes)
  }

  /** Whether seeking the points of a filter in the lists costs less than reading the lists. */
  #isSelective({ queries }: WordPlan, { count }: SlotBitmap): boolean {
    let [terms, postings] = [0, 0]
    for (const { query } of queries) {
      terms = Math.max(terms, query.terms.length)
      for (const term of query.terms) postings += term.documents
    }
    return count * terms * seekPostings < postings
  }

  /** Copies a filter to the arena. Returns its address. */
  #writeFilter({ words }: SlotBitmap): number {
    const needed = Math.max(words.length, Math.ceil(this.#partOf.length / 32))
    if (this.#filter.words < needed) {
      if (this.#filter.words > 0) this.#arena.release(this.#filter.address, 4 * this.#filter.words)
      this.#filter = { address: this.#arena.allocate(4 * needed), words: needed }
    }
    const target = new Uint32Array(this.#arena.memory.buffer, this.#filter.address, this.#filter.words)
    target.set(words)
    target.fill(0, words.length)
    return this.#filter.address
  }

  /** Returns the documents of a filter's slots by part, ascending. */
  #documentsOf({ words }: SlotBitmap): Map<Part, Uint32Array> {
    const byPart = new Map<Part, number[]>()
    for (const [index, word] of words.entries()) {
      for (let bits = word; bits !== 0; bits &= bits - 1) {
        const slot = 32 * index + 31 - Math.clz32(bits & -bits)
        const part = this.#byNumber[this.#partOf[slot] ?? nowhere]
        if (part === undefined) continue
        const documents = byPart.get(part)
        if (documents === undefined) byPart.set(part, [this.#documentOf[slot]!])
        else documents.push(this.#documentOf[slot]!)
      }
    }
    return new Map([...byPart].map(([part, documents]) => [part, Uint32Array.from(documents).sort()]))
  }
}

/** The words of one point. */
export interface PreparedPoint {
  readonly language: number
  readonly lengths: readonly number[]
  readonly content: PartContent
}

interface WordPlan {
  readonly queries: readonly { readonly part: Part; readonly query: PartQuery }[]
  /** The score of 1 in the kernel. */
  readonly unit: number
}

interface LastPlan {
  readonly text: string
  readonly statistics: WordStatistics | undefined
  readonly changes: number
  readonly plan: WordPlan
}

/** How many times `before` is `after`, at most as many as a bound can grow. */
function ratio(before: number, after: number): number {
  if (before <= after) return 1
  return Math.min(driftMax, before / after)
}

/** With this drift, the least maximum of a block is above every saturation. */
const driftMax = 256
