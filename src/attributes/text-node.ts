import { ByteDictionary, hashBytes } from './byte-dictionary.ts'
import { type FilterNode, matchesNone } from './filter-nodes.ts'
import type { MemoryCount } from './memory-count.ts'
import type { TextField, TextTest } from './text-field.ts'

/** Matches slots with a text that passes a test. */
export class TextNode implements FilterNode {
  readonly #field: () => TextField | undefined
  readonly #test: TextTest
  readonly matchCost = 60

  /** @param field looks up the field, which is created and removed with its slots */
  constructor(field: () => TextField | undefined, test: TextTest) {
    this.#field = field
    this.#test = test
  }

  matches(slot: number): boolean {
    return this.#field()?.some(slot, this.#test) ?? false
  }

  tester(): (slot: number) => boolean {
    const field = this.#field()
    const test = this.#test
    return field === undefined ? matchesNone : (slot) => field.some(slot, test)
  }

  estimate(): number {
    const field = this.#field()
    if (field === undefined) return 0
    if (this.#test instanceof SameText) return countOf(field, this.#test.bytes, this.#test.hash)
    if (!(this.#test instanceof OneOfTexts) || this.#test.texts.count > estimatedMax) return field.count
    const { texts } = this.#test
    let sum = 0
    for (let wanted = 0; wanted < texts.end; wanted += 1) {
      sum += countOf(field, texts.read(wanted), texts.hashOf(wanted))
    }
    return Math.min(sum, field.count)
  }

  fillCost(): number {
    if (this.#test instanceof SameText) return this.estimate()
    const values = this.#field()?.dictionary.count ?? 0
    const tested = this.#test instanceof OneOfTexts ? Math.min(this.#test.texts.count, values) : values
    return tested * this.matchCost + this.estimate()
  }

  *fill(words: Uint32Array, within?: Uint32Array): Generator<void, void> {
    const field = this.#field()
    if (field === undefined) return
    const test = this.#test
    if (test instanceof SameText) fillValue(field, test.bytes, test.hash, words)
    else if (test instanceof OneOfTexts && test.texts.count < field.dictionary.count) {
      yield* fillOrdinals(field, yield* ordinalsOf(field, test.texts), words, within)
    } else if (field.dictionary.end <= acceptedMax) {
      yield* fillOrdinals(field, passing(test, field), words, within)
    } else yield* fillPassing(field, test, words)
  }
}

/** Returns the ordinals of the texts that pass. */
function passing(test: TextTest, { dictionary }: TextField): number[] {
  const ordinals: number[] = []
  for (let ordinal = 0; ordinal < dictionary.end; ordinal += 1) {
    if (dictionary.isUsed(ordinal) && test.accepts(dictionary, ordinal)) ordinals.push(ordinal)
  }
  return ordinals
}

function countOf(field: TextField, bytes: Uint8Array, hash: number): number {
  const ordinal = field.dictionary.find(bytes, hash)
  return ordinal === -1 ? 0 : field.countOf(ordinal)
}

function fillValue(field: TextField, bytes: Uint8Array, hash: number, words: Uint32Array): void {
  const ordinal = field.dictionary.find(bytes, hash)
  if (ordinal !== -1) field.orSlots(ordinal, words)
}

function* ordinalsOf(field: TextField, texts: OneOfTexts['texts']): Generator<void, number[]> {
  const ordinals: number[] = []
  for (let wanted = 0; wanted < texts.end; wanted += 1) {
    const ordinal = field.dictionary.find(texts.read(wanted), texts.hashOf(wanted))
    if (ordinal !== -1) ordinals.push(ordinal)
    if (wanted % valuesPerStep === valuesPerStep - 1) yield
  }
  return ordinals
}

/**
 * Sets the bits of the slots that have one of some texts. Reads the slots of each text or the text of each slot,
 * whichever costs less. Between steps, the ordinals of untouched slots keep their meaning.
 */
function* fillOrdinals(
  field: TextField,
  ordinals: readonly number[],
  words: Uint32Array,
  within: Uint32Array | undefined,
): Generator<void, void> {
  if (field.dictionary.end <= acceptedMax && field.isBetterTested(matchingOf(field, ordinals))) {
    const accepted = new Uint8Array(field.dictionary.end)
    for (const ordinal of ordinals) accepted[ordinal] = 1
    yield* field.fillAccepted(words, within, accepted)
  } else yield* fillPostings(field, ordinals, words)
}

function matchingOf(field: TextField, ordinals: readonly number[]): number {
  return ordinals.reduce((sum, ordinal) => sum + field.countOf(ordinal), 0)
}

function* fillPostings(
  field: TextField,
  ordinals: readonly number[],
  words: Uint32Array,
): Generator<void, void> {
  let work = 0
  for (const ordinal of ordinals) {
    if (!field.dictionary.isUsed(ordinal)) continue
    work += workPerValue + field.countOf(ordinal)
    field.orSlots(ordinal, words)
    if (work < workPerStep) continue
    work = 0
    yield
  }
}

/** Tests text by text. Between steps, the ordinals of untouched slots keep their meaning. */
function* fillPassing(field: TextField, test: TextTest, words: Uint32Array): Generator<void, void> {
  const { dictionary } = field
  let work = 0
  for (let ordinal = 0; ordinal < dictionary.end; ordinal += 1) {
    work += workPerValue
    if (dictionary.isUsed(ordinal) && test.accepts(dictionary, ordinal)) {
      field.orSlots(ordinal, words)
      work += field.countOf(ordinal)
    }
    if (work < workPerStep) continue
    work = 0
    yield
  }
}

/** Number of slots whose bits are set between two pauses, which takes well under a millisecond. */
const workPerStep = 100_000
/** Testing a text takes as long as setting the bits of this many slots. */
const workPerValue = 64
/** Number of texts that are looked up between two pauses. */
const valuesPerStep = 1024
/** Maximum number of texts that are tested without a pause, which takes well under a millisecond. */
const acceptedMax = 4096
/** Maximum number of texts that are looked up for an estimate. */
const estimatedMax = 64

/** Accepts any of the given texts. */
export class OneOfTexts implements TextTest {
  readonly texts: ByteDictionary

  constructor(memory: MemoryCount) {
    this.texts = new ByteDictionary(memory)
  }

  accepts(dictionary: ByteDictionary, ordinal: number): boolean {
    return this.texts.find(dictionary.read(ordinal), dictionary.hashOf(ordinal)) !== -1
  }
}

/** Accepts one text. Faster than `OneOfTexts`. */
export class SameText implements TextTest {
  readonly bytes: Uint8Array
  readonly hash: number

  constructor(bytes: Uint8Array) {
    this.bytes = bytes
    this.hash = hashBytes(this.bytes)
  }

  accepts(dictionary: ByteDictionary, ordinal: number): boolean {
    return dictionary.hashOf(ordinal) === this.hash && dictionary.equals(ordinal, this.bytes)
  }
}

/** Accepts texts between optional bounds, compared by bytes. */
export class TextRange implements TextTest {
  readonly #gt: Buffer | undefined
  readonly #gte: Buffer | undefined
  readonly #lt: Buffer | undefined
  readonly #lte: Buffer | undefined

  constructor(bounds: {
    readonly gt?: string | undefined
    readonly gte?: string | undefined
    readonly lt?: string | undefined
    readonly lte?: string | undefined
  }) {
    this.#gt = bytesOf(bounds.gt)
    this.#gte = bytesOf(bounds.gte)
    this.#lt = bytesOf(bounds.lt)
    this.#lte = bytesOf(bounds.lte)
  }

  accepts(dictionary: ByteDictionary, ordinal: number): boolean {
    const bytes = dictionary.read(ordinal)
    if (this.#gt !== undefined && Buffer.compare(bytes, this.#gt) <= 0) return false
    if (this.#gte !== undefined && Buffer.compare(bytes, this.#gte) < 0) return false
    if (this.#lt !== undefined && Buffer.compare(bytes, this.#lt) >= 0) return false
    return this.#lte === undefined || Buffer.compare(bytes, this.#lte) <= 0
  }
}

export class TextPrefix implements TextTest {
  readonly #prefix: Buffer

  constructor(prefix: string) {
    this.#prefix = Buffer.from(prefix)
  }

  accepts(dictionary: ByteDictionary, ordinal: number): boolean {
    const bytes = dictionary.read(ordinal)
    return (
      bytes.length >= this.#prefix.length &&
      Buffer.compare(bytes.subarray(0, this.#prefix.length), this.#prefix) === 0
    )
  }
}

function bytesOf(text: string | undefined): Buffer | undefined {
  return text === undefined ? undefined : Buffer.from(text)
}
