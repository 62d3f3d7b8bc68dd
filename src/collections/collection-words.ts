import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { hasBit } from '../attributes/slot-words.ts'
import { scalarsAt } from '../base/attributes.ts'
import { contentPath, type WordSettings } from '../base/collection.ts'
import { DatabaseError, invalid } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import type { PartitionSet } from '../base/partitions.ts'
import type { Highlight, Payload, WordCounts, WordQuery, WordStatistics } from '../base/point.ts'
import { inTurns, Turn } from '../base/turns.ts'
import type { MemoryUser } from '../index/vector-index.ts'
import { hasUnspaced } from '../words/tokenizer.ts'
import { WordFiles } from '../words/word-files.ts'
import { type PreparedPoint, type WordHit, WordIndex } from '../words/word-index.ts'
import { PhraseTooLong, type SlotBitmap, type Wanted } from '../words/word-matches.ts'
import { hitsMax } from '../words/word-searcher.ts'

/** What the words of a collection need from its points. */
export interface IndexedPoints {
  /** Number of visible points. */
  readonly count: number
  /** Every slot with a point is below it. */
  readonly slotCount: number
  isVisible(slot: number): boolean
  versionOf(slot: number): number
  /** The slot must have a point. */
  partitionOf(slot: number): number
  /** Reads the payload of a visible point; a committed change of it takes effect first. */
  payload(slot: number): Payload | undefined
}

interface CollectionWordsOptions {
  readonly points: IndexedPoints
  readonly settings: WordSettings | undefined
  /** Id of the history that versions count. */
  readonly databaseId: string
  /** The directory of the graphs; undefined to save nothing. */
  readonly directory: string | undefined
  /** A collection with fewer points is not saved. */
  readonly pointsMin?: number | undefined
  /** Called when other words are searched than before. */
  readonly onNew: () => void
  readonly logger: Logger
}

/**
 * The words of a collection, if it declares any: kept with the points in the turn in which they change, built in the
 * background for the points that are there before, loaded at the start, and saved when the collection closes.
 *
 *   declare ──> building (changes are kept, searches wait or are refused) ──> complete ──> files
 *      ^                                                                         │
 *      └───────────────── declared anew: the former index answers meanwhile ─────┘
 *
 * Main thread only.
 */
export class CollectionWords implements MemoryUser {
  readonly #options: CollectionWordsOptions
  /** What searches use. */
  #current: Words | undefined
  /** What is being built; it becomes the current one. */
  #next: Words | undefined
  /** Ends when nothing is built. */
  #building: Promise<void> = Promise.resolve()
  /** Merges and saves, one after another. */
  #background: Promise<void> = Promise.resolve()
  #isMerging = false
  #hasEnded = false
  /** Why the words cannot be searched. */
  #fault: string | undefined

  constructor(options: CollectionWordsOptions) {
    this.#options = options
    if (options.settings !== undefined) this.#next = new Words(options.settings)
  }

  get settings(): WordSettings | undefined {
    return (this.#next ?? this.#current)?.settings
  }

  get claimedBytes(): number {
    return (this.#current?.index.memoryBytes ?? 0) + (this.#next?.index.memoryBytes ?? 0)
  }

  /** Searches by words since the collection was opened, and how long they have taken together. */
  readonly searches = { count: 0, seconds: 0 }

  searched(seconds: number): void {
    this.searches.count += 1
    this.searches.seconds += seconds
  }

  /** How many points are indexed. */
  get points(): number {
    return (this.#current ?? this.#next)?.index.statistics.documents ?? 0
  }

  /** How many points wait to be indexed; 0 if the words are complete. */
  get waiting(): number {
    const { points } = this.#options
    if (this.#next === undefined) return 0
    return Math.max(1, points.count - this.#next.index.statistics.documents)
  }

  /** Sets the point of a slot. */
  set(slot: number, payload: Payload, version: number): void {
    this.#change((words) => words.put(slot, payload, version))
    if (this.#current?.index.isMergeable(false)) this.#mergeSoon(false)
  }

  /**
   * Analyzes a payload with long texts before it is set, in turns. Returns undefined for any other, which takes well
   * under a millisecond.
   */
  prepare(payload: Payload): Promise<void> | undefined {
    const all = [this.#current, this.#next].filter((words) => words?.isLong(payload) === true)
    return all.length === 0 ? undefined : this.#prepareFor(all as Words[], payload)
  }

  async #prepareFor(all: readonly Words[], payload: Payload): Promise<void> {
    for (const words of all) await inTurns(words.prepare(payload))
  }

  /** Removes the point of a slot. Idempotent. */
  delete(slot: number): void {
    this.#change(({ index }) => index.remove(slot))
  }

  /** The points are already stored, so a failure must not reach whoever changes them. */
  #change(change: (words: Words) => void): void {
    try {
      if (this.#current !== undefined) change(this.#current)
      if (this.#next !== undefined) change(this.#next)
    } catch (error) {
      this.#fail(error)
    }
  }

  #fail(error: unknown): void {
    this.#current = undefined
    this.#next = undefined
    this.#fault = (error as Error).message
    this.#options.logger.error({ err: error }, 'the words of a collection are unusable until the next start')
  }

  /** Declares other words, or none. The points are indexed in the background. */
  declare(settings: WordSettings | undefined): void {
    if (JSON.stringify(settings) === JSON.stringify(this.settings)) return
    this.#fault = undefined
    if (settings === undefined) {
      this.#current = undefined
      this.#next = undefined
      this.#options.onNew()
      this.#background = this.#background.then(() => this.#removeFiles())
      return
    }
    this.#next = new Words(settings)
    this.#build()
  }

  /**
   * Reads the files, after the points have been loaded. What they lack is indexed in the background. Damaged files, and
   * those of other words, are removed.
   */
  async load(): Promise<void> {
    const words = this.#next
    // A kill after they were given up can have left files.
    if (words === undefined) return await this.#removeFiles()
    const { points, logger } = this.#options
    try {
      const saved = await this.#filesOf(words)?.load()
      const isCurrent = (slot: number, version: number): boolean =>
        points.isVisible(slot) && points.versionOf(slot) === version
      if (saved !== undefined) await inTurns(words.index.restore(saved, isCurrent))
    } catch (error) {
      const fault = (error as Error).message
      logger.warn({ fault }, 'the files of words are unusable; indexing the points again')
      this.#next = new Words(words.settings)
      await this.#removeFiles()
    }
    this.#build()
  }

  #filesOf(words: Words): WordFiles | undefined {
    const { directory, databaseId } = this.#options
    if (directory === undefined) return undefined
    const { language, paths } = words.settings
    words.files ??= new WordFiles(join(directory, 'words'), {
      language,
      paths: [...paths.map(({ path, weight }) => `${weight} ${path}`), databaseId],
    })
    return words.files
  }

  async #removeFiles(): Promise<void> {
    const { directory, logger } = this.#options
    if (directory === undefined) return
    await rm(join(directory, 'words'), { recursive: true, force: true }).catch((err) =>
      // They are a cache, and of other words: no start uses them.
      logger.warn({ err }, 'the files of words could not be removed'),
    )
  }

  #build(): void {
    const words = this.#next!
    this.#building = this.#buildAll(words).catch((error: unknown) => {
      if (this.#next === words) this.#fail(error)
    })
  }

  async #buildAll(words: Words): Promise<void> {
    const { points } = this.#options
    const turn = new Turn()
    let added = 0
    for (; words.built < points.slotCount; words.built += 1) {
      if (turn.isOver) await turn.next()
      if (this.#next !== words || this.#hasEnded) return
      const slot = words.built
      if (!points.isVisible(slot) || words.index.has(slot)) continue
      const payload = points.payload(slot)
      // Reading can make a change of the point take effect, which has then indexed it.
      if (payload === undefined || words.index.has(slot)) continue
      if (words.isLong(payload)) {
        await inTurns(words.prepare(payload))
        // Whatever changed meanwhile has been indexed.
        if (this.#next !== words || !points.isVisible(slot) || words.index.has(slot)) continue
      }
      words.put(slot, payload, points.versionOf(slot))
      added += 1
      if (added % freezesPer === 0 && words.index.isMergeable(false)) await this.#merge(words.index, false)
    }
    if (this.#next !== words || this.#hasEnded) return
    this.#current = words
    this.#next = undefined
    this.#options.onNew()
    if (added === 0) return
    this.#mergeSoon(true)
    this.#saveSoon()
  }

  #mergeSoon(isSearched: boolean): void {
    if (this.#isMerging) return
    this.#isMerging = true
    this.#background = this.#background.then(async () => {
      try {
        if (this.#current !== undefined) await this.#merge(this.#current.index, isSearched)
      } catch (error) {
        this.#fail(error)
      } finally {
        this.#isMerging = false
      }
    })
  }

  /** Merges parts in turns. A stop does not wait for it. */
  async #merge(index: WordIndex, isSearched: boolean): Promise<void> {
    await inTurns(this.#untilEnded(index.mergeInSteps(isSearched)))
  }

  *#untilEnded(steps: Iterable<void>): Generator<void, void> {
    for (const _ of steps) {
      if (this.#hasEnded) return
      yield
    }
  }

  #saveSoon(): void {
    this.#background = this.#background.then(() => this.#save())
  }

  async #save(): Promise<void> {
    const words = this.#current
    const { pointsMin = usualPointsMin, logger } = this.#options
    if (words === undefined || words.index.statistics.documents < pointsMin) return
    try {
      words.index.freeze()
      await this.#filesOf(words)?.save(words.index)
    } catch (err) {
      logger.warn({ err }, 'the words could not be saved for the next start')
    }
  }

  /** Stops the work in the background, and saves the words for the next start. */
  async close(): Promise<void> {
    await this.discard()
    await this.#save()
  }

  /** Like `close`, but saves nothing. */
  async discard(): Promise<void> {
    this.#hasEnded = true
    await this.#building
    await this.#background
  }

  /**
   * Returns the words to search. Waits while few points are being indexed.
   *
   * @throws DatabaseError `invalid_argument` if the collection has none, `not_ready` while many points are being indexed
   */
  async ready(): Promise<void> {
    if (this.#current === undefined && this.#next !== undefined && this.waiting <= waitedForMax)
      await this.#building
    this.index()
  }

  /** As `ready`, without waiting. */
  index(): SearchableWords {
    if (this.#current !== undefined) {
      if (this.#current.index.isMergeable(true)) this.#mergeSoon(true)
      return this.#current
    }
    if (this.#fault !== undefined) {
      throw new DatabaseError('not_ready', `the words of this collection are unusable: ${this.#fault}`)
    }
    if (this.#next === undefined) throw invalid(noWords)
    const { documents } = this.#next.index.statistics
    throw new DatabaseError(
      'not_ready',
      `the words of this collection are being indexed: ${documents} of ${this.#options.points.count} points are done`,
    )
  }

  /** Analyzes the text of a filter in steps, so that `matching` does not have to. */
  *prepareMatching(text: string): Generator<void, void> {
    if (this.#current !== undefined) yield* this.#current.index.wantedTerms(text)
  }

  /** Returns the slots of the points that have wanted words, for filters. */
  matching(kind: 'match' | 'phrase', text: string, path: string): SlotBitmap {
    return this.#wanted(kind, text, path, (index, wanted) => index.matching(wanted))
  }

  /** Returns at least as many as match. */
  matchingMax(kind: 'match' | 'phrase', text: string, path: string): number {
    return this.#wanted(kind, text, path, (index, wanted) => index.matchingMax(wanted))
  }

  #wanted<Result>(
    kind: 'match' | 'phrase',
    text: string,
    path: string,
    find: (index: WordIndex, wanted: Wanted) => Result,
  ): Result {
    const { settings, index } = this.index() as Words
    const number = settings.paths.findIndex((each) => each.path === path)
    if (number === -1) {
      const declared = settings.paths.map((each) => each.path).join(', ')
      throw invalid(`filter.${path}.$${kind} needs words at ${path}: the collection has them at ${declared}`)
    }
    try {
      return find(index, { kind, text, path: number })
    } catch (error) {
      if (error instanceof PhraseTooLong) throw invalid(`filter.${path}.$${kind} ${error.message}`)
      throw error
    }
  }

  search({ text, weights, statistics }: WordQuery, k: number, filter?: SlotBitmap): readonly WordHit[] {
    return this.index().index.search(text, Math.min(k, hitsMax), filter, weights, statistics)
  }

  scores({ text, weights, statistics }: WordQuery, slots: Uint32Array): Float64Array {
    return this.index().index.scores(text, slots, weights, statistics)
  }

  /** Counts the points of some partitions, as of the last step. */
  counts(terms: readonly string[], partitions: PartitionSet): Generator<void, WordCounts> {
    const { points } = this.#options
    const key = Buffer.from(partitions.bytes).toString('latin1')
    return this.index().index.countWithin(terms, key, (slot) => partitions.has(points.partitionOf(slot)))
  }

  wanted(text: string, languages?: readonly number[]): WordStatistics['wanted'] {
    return this.index().index.wanted(text, languages)
  }

  /** Counts the points of a bitmap. @param key names what it is of: the same key, the same points */
  countsWithin(terms: readonly string[], key: string, { words }: SlotBitmap): Generator<void, WordCounts> {
    return this.index().index.countWithin(terms, key, (slot) => hasBit(words, slot))
  }

  /**
   * Returns a function that returns the parts of a point's texts in which the words of a query are, in steps.
   *
   * @param languages the number of points by language, in place of those of this node
   */
  highlighter(
    text: string,
    languages?: readonly number[],
  ): (payload: Payload) => Generator<void, readonly Highlight[]> {
    const { settings, index, textsOf } = this.index()
    const find = index.highlighter(text, languages)
    return function* (payload) {
      let left = highlightedMax
      const texts = textsOf(payload).map((ofPath) =>
        ofPath.map((each) => {
          const beginning = each.slice(0, wholeAt(each, left))
          left -= beginning.length
          return beginning
        }),
      )
      const found = yield* find(texts)
      return settings.paths.flatMap(({ path }, number) =>
        texts[number]!.flatMap((each, at) => fragmentsOf(each, found[number]![at]!))
          .slice(0, fragmentsMax)
          .map((parts) => ({ path, parts })),
      )
    }
  }

  /** Differs after each change of the points, and between two declarations. */
  get state(): { readonly of: object | undefined; readonly changes: number } {
    const index = this.#current?.index
    return { of: index, changes: index?.changes ?? 0 }
  }
}

/** The words that searches use. */
interface SearchableWords {
  readonly settings: WordSettings
  readonly index: WordIndex
  /** The texts of a point that are indexed, by path. */
  readonly textsOf: (payload: Payload) => readonly (readonly string[])[]
}

/** An index with what it is of. */
class Words implements SearchableWords {
  readonly settings: WordSettings
  readonly index: WordIndex
  /** Slots below are indexed. */
  built = 0
  files: WordFiles | undefined
  /** What `put` will need. */
  readonly #prepared = new WeakMap<Payload, PreparedPoint>()

  constructor(settings: WordSettings) {
    const { language, paths, k1, b } = settings
    this.settings = settings
    this.index = new WordIndex({
      language,
      weights: paths.map(({ weight }) => weight),
      ...(k1 === undefined ? {} : { k1 }),
      ...(b === undefined ? {} : { b }),
    })
  }

  put(slot: number, payload: Payload, version: number): void {
    const prepared = this.#prepared.get(payload)
    if (prepared === undefined) this.index.put(slot, version, this.textsOf(payload))
    else this.index.putPrepared(slot, version, prepared)
  }

  /** Whether indexing a payload takes milliseconds. */
  isLong(payload: Payload): boolean {
    const texts = this.textsOf(payload).flat()
    let length = texts.reduce((sum, text) => sum + text.length, 0)
    // Looking for scripts takes long itself, so it is for points that are not long anyway.
    for (let at = 0; length <= longTextMin && at < texts.length; at += 1) {
      // The words of scripts without spaces take ten times as long to find.
      if (hasUnspaced.test(texts[at]!)) length += 9 * texts[at]!.length
    }
    return length > longTextMin
  }

  *prepare(payload: Payload): Generator<void, void> {
    if (this.#prepared.has(payload)) return
    this.#prepared.set(payload, yield* this.index.prepare(this.textsOf(payload)))
  }

  readonly textsOf = (payload: Payload): readonly (readonly string[])[] => {
    return this.settings.paths.map(({ path }) => textsAt(payload, path))
  }
}

/** Returns pieces around what was found in a text, none over another: in each, every second part was found. */
function fragmentsOf(
  text: string,
  found: readonly { readonly start: number; readonly end: number }[],
): string[][] {
  const fragments: string[][] = []
  let at = 0
  for (let index = 0; index < found.length && fragments.length < fragmentsMax; ) {
    // Begins and ends between words where there is a space; many scripts have none.
    const before = Math.max(at, found[index]!.start - fragmentBefore)
    const gap = before === at ? 0 : text.slice(before - 1, found[index]!.start).search(/\s/)
    at = gap === -1 ? wholeAt(text, before) : before + gap
    const limit = at + fragmentLength
    const parts: string[] = []
    for (; index < found.length && (parts.length === 0 || found[index]!.end <= limit); index += 1) {
      parts.push(text.slice(at, found[index]!.start), text.slice(found[index]!.start, found[index]!.end))
      at = found[index]!.end
    }
    const last = wholeAt(text, Math.max(at, Math.min(limit, found[index]?.start ?? limit)))
    const rest = text.slice(at, last)
    parts.push(last < text.length ? (/^.*(?=\s)/s.exec(rest)?.[0] ?? rest) : rest)
    at += parts.at(-1)!.length
    fragments.push(parts)
  }
  return fragments
}

/** Returns a place in a text that is not within a surrogate pair: `at`, or before it. */
function wholeAt(text: string, at: number): number {
  return (text.codePointAt(at - 1) ?? 0) > 0xffff ? at - 1 : at
}

/** Returns the texts at a path: the content, or an attribute that is a text or has texts in lists. */
function textsAt({ content, contentType, attributes }: Payload, path: string): readonly string[] {
  // The content of an image is a reference or its bytes.
  if (path === contentPath) return contentType === 'Text' ? [content] : []
  return scalarsAt(attributes, path).filter((value) => typeof value === 'string')
}

const noWords =
  'this collection has no words: declare them with PUT /collections/NAME and a body like {"words":{"paths":{"content":1}}}'

/** A search waits while fewer points are indexed, which takes about a second. */
const waitedForMax = 20_000

/** Fragments are sought in this many characters of a point's texts. */
const highlightedMax = 100_000
/** By path. */
const fragmentsMax = 3
const fragmentLength = 200
const fragmentBefore = 60

/** Characters of all texts of a point: more are analyzed in turns. */
const longTextMin = 16_384

/** Parts are merged after this many points. */
const freezesPer = 4096

/** Indexing this many points takes about a third of a second. */
const usualPointsMin = 10_000
