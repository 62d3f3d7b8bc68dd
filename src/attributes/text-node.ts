import { type FilterNode, matchesNone } from './filter-node.ts'
import type { TextField, TextTest } from './text-field.ts'
import { OneOfTexts, SameText } from './text-tests.ts'

/** Matches where a text passes. */
export class TextNode implements FilterNode {
  readonly #field: () => TextField | undefined
  readonly #test: TextTest
  readonly matchCost = 60

  /** @param field fields come and go with their slots */
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
    else if (within !== undefined && field.dictionary.end <= acceptedMax) {
      yield* field.fillAccepted(words, within, acceptedBy(test, field))
    } else if (test instanceof OneOfTexts && test.texts.count < field.dictionary.count) {
      yield* fillValues(field, test.texts, words)
    } else yield* fillPassing(field, test, words)
  }
}

/** By ordinal, whether a text passes. */
function acceptedBy(test: TextTest, { dictionary }: TextField): Uint8Array {
  const accepted = new Uint8Array(dictionary.end)
  for (let ordinal = 0; ordinal < accepted.length; ordinal += 1) {
    if (dictionary.isUsed(ordinal) && test.accepts(dictionary, ordinal)) accepted[ordinal] = 1
  }
  return accepted
}

function countOf(field: TextField, bytes: Uint8Array, hash: number): number {
  const ordinal = field.dictionary.find(bytes, hash)
  return ordinal === -1 ? 0 : field.countOf(ordinal)
}

function fillValue(field: TextField, bytes: Uint8Array, hash: number, words: Uint32Array): void {
  const ordinal = field.dictionary.find(bytes, hash)
  if (ordinal !== -1) field.orSlots(ordinal, words)
}

/** Ordinals of slots that nobody touches keep their meaning between the steps. */
function* fillValues(
  field: TextField,
  texts: OneOfTexts['texts'],
  words: Uint32Array,
): Generator<void, void> {
  const { dictionary } = field
  const ordinals: number[] = []
  let matching = 0
  for (let wanted = 0; wanted < texts.end; wanted += 1) {
    const ordinal = dictionary.find(texts.read(wanted), texts.hashOf(wanted))
    if (ordinal !== -1) {
      ordinals.push(ordinal)
      matching += field.countOf(ordinal)
    }
    if (wanted % valuesPerStep === valuesPerStep - 1) yield
  }
  if (dictionary.end <= acceptedMax && field.isBetterTested(matching)) {
    const accepted = new Uint8Array(dictionary.end)
    for (const ordinal of ordinals) accepted[ordinal] = 1
    yield* field.fillAccepted(words, undefined, accepted)
  } else yield* fillOrdinals(field, ordinals, words)
}

function* fillOrdinals(
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

/** Ordinals of slots that nobody touches keep their meaning between the steps. */
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

/** Slots whose bits are set between two pauses: well under a millisecond. Looking at a value takes as long as some of them. */
const workPerStep = 100_000
const workPerValue = 64
/** Texts that are looked up between two pauses. */
const valuesPerStep = 1024
/** Values that are tested at once: well under a millisecond. */
const acceptedMax = 4096
/** Values that are looked up for an estimate. */
const estimatedMax = 64
