import type { Bm25Parameters } from './bm25.ts'
import { ByteReader, ByteWriter } from './byte-writer.ts'
import type { DictionaryCursor } from './dictionary.ts'
import type { Part } from './part.ts'
import { FrequencyCodes, type PartContent, PartWriter } from './part-content.ts'
import type { PostingsReader } from './postings.ts'

/** Marks a removed document. */
const noDocument = 0xffffffff

/** A fraction of a millisecond. */
const documentsPerStep = 4096
const postingsPerStep = 2048

/** A part while it is merged. */
interface Source {
  readonly part: Part
  /** The new number of each document. */
  readonly numbers: Uint32Array
  /** The new code of each code. */
  readonly codes: Uint32Array
  readonly cursor: DictionaryCursor
  readonly reader: PostingsReader
  isOver: boolean
}

/**
 * Joins parts into one, in steps, without the documents that are removed when it begins. Parts and result are
 * independent.
 */
export function* mergeParts(
  parts: readonly Part[],
  parameters: Bm25Parameters,
): Generator<void, PartContent> {
  const paths = parameters.weights.length
  const codes = new FrequencyCodes(paths)
  // Lists are then mostly in order already.
  const inOrder = [...parts].sort((a, b) => a.sequences[0]! - b.sequences[0]!)
  const sources = inOrder.map(
    (part): Source => ({
      part,
      numbers: new Uint32Array(part.documents).fill(noDocument),
      codes: Uint32Array.from({ length: part.codes.length / paths }, (_, code) =>
        codes.codeOf([...part.codes.subarray(code * paths, (code + 1) * paths)]),
      ),
      cursor: part.dictionary.cursor(),
      reader: part.reader(),
      isOver: false,
    }),
  )
  const documents = numberDocuments(sources)
  yield
  const { table, newCodes } = codes.ordered()
  for (const source of sources)
    for (const [code, joined] of source.codes.entries()) source.codes[code] = newCodes[joined]!
  const columns = {
    slots: new Uint32Array(documents),
    sequences: new Float64Array(documents),
    languages: new Uint8Array(documents),
    lengths: Array.from({ length: paths }, () => new Uint32Array(documents)),
  }
  for (const { part, numbers } of sources) {
    for (const [document, number] of numbers.entries()) {
      if (number === noDocument) continue
      columns.slots[number] = part.slots[document]!
      columns.sequences[number] = part.sequences[document]!
      columns.languages[number] = part.languages[document]!
      for (const [path, lengths] of columns.lengths.entries())
        lengths[number] = part.lengths[path]![document]!
      if (document % documentsPerStep === 0) yield
    }
  }
  const writer = new PartWriter(columns, table, parameters)
  const totals = new Uint32Array(codes.count)
  for (let code = 0; code < codes.count; code += 1) totals[newCodes[code]!] = codes.total(code)
  const list = new MergedList(writer, totals)
  let postings = 0
  for (const source of sources) source.isOver = !source.cursor.next()
  for (let term = leastTerm(sources); term !== undefined; term = leastTerm(sources)) {
    for (const source of sources) {
      if (source.isOver || source.cursor.term !== term) continue
      list.add(source)
      source.isOver = !source.cursor.next()
    }
    postings += list.write(term)
    if (postings < postingsPerStep) continue
    postings = 0
    yield
  }
  return writer.finish()
}

/** Numbers the live documents of all sources in the order of their sequence numbers. Returns how many there are. */
function numberDocuments(sources: readonly Source[]): number {
  const next = sources.map(() => 0)
  let number = 0
  while (true) {
    let [least, second, from] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY, -1]
    for (const [index, { part }] of sources.entries()) {
      while (next[index]! < part.documents && !part.isLive(next[index]!)) next[index]! += 1
      const sequence = part.sequences[next[index]!] ?? Number.POSITIVE_INFINITY
      if (sequence < least) [least, second, from] = [sequence, least, index]
      else second = Math.min(second, sequence)
    }
    if (from === -1) return number
    // Parts of successive points have long runs.
    const { part, numbers } = sources[from]!
    let document = next[from]!
    for (; document < part.documents && part.sequences[document]! <= second; document += 1) {
      if (!part.isLive(document)) continue
      numbers[document] = number
      number += 1
    }
    next[from] = document
  }
}

function leastTerm(sources: readonly Source[]): string | undefined {
  let least: string | undefined
  for (const { isOver, cursor } of sources) {
    if (!isOver && (least === undefined || cursor.term < least)) least = cursor.term
  }
  return least
}

/** The postings of one term from several parts. */
class MergedList {
  readonly #writer: PartWriter
  /** How many positions a posting with a code has. */
  readonly #totals: Uint32Array
  #count = 0
  #occurrences = 0
  #documents: Uint32Array = new Uint32Array(1024)
  #codes: Uint32Array = new Uint32Array(1024)
  /** The positions of the postings. */
  #positions: ByteWriter = new ByteWriter()
  #isSorted = true

  constructor(writer: PartWriter, totals: Uint32Array) {
    this.#writer = writer
    this.#totals = totals
  }

  add({ part, numbers, codes, cursor, reader }: Source): void {
    const { list, documents, positions } = cursor.entry
    reader.read(list, documents)
    while (this.#count + documents > this.#documents.length) {
      this.#documents = grown(this.#documents)
      this.#codes = grown(this.#codes)
    }
    const walk = new ByteReader(part.positions, positions)
    // Positions that follow one another are copied together.
    let from = positions
    for (let index = 0; index < documents; index += 1) {
      const number = numbers[reader.documents[index]!]!
      const code = codes[reader.codes[index]!]!
      const total = this.#totals[code]!
      if (number === noDocument) {
        this.#positions.copy(part.positions, from, walk.at)
        walk.skip(total)
        from = walk.at
        continue
      }
      walk.skip(total)
      if (this.#count > 0 && number < this.#documents[this.#count - 1]!) this.#isSorted = false
      this.#documents[this.#count] = number
      this.#codes[this.#count] = code
      this.#count += 1
      this.#occurrences += total
    }
    this.#positions.copy(part.positions, from, walk.at)
  }

  /** Writes what was added, if it is anything, and empties the list. Returns how many postings that were. */
  write(term: string): number {
    const count = this.#count
    if (count === 0) return 1
    if (this.#isSorted) this.#writer.positions.append(this.#positions.written)
    else this.#sort()
    this.#writer.term(term, this.#documents, this.#codes, count, this.#occurrences)
    this.#count = 0
    this.#occurrences = 0
    this.#positions.length = 0
    this.#isSorted = true
    return count
  }

  /** Sorts the postings, and writes their positions in that order. */
  #sort(): void {
    const count = this.#count
    const documents = this.#documents.slice(0, count)
    const codes = this.#codes.slice(0, count)
    const starts = new Uint32Array(count + 1)
    const bytes = this.#positions.written
    const walk = new ByteReader(bytes, 0)
    for (let index = 0; index < count; index += 1) {
      walk.skip(this.#totals[codes[index]!]!)
      starts[index + 1] = walk.at
    }
    const order = new Uint32Array(count)
      .map((_, index) => index)
      .sort((a, b) => documents[a]! - documents[b]!)
    for (const [index, from] of order.entries()) {
      this.#documents[index] = documents[from]!
      this.#codes[index] = codes[from]!
      this.#writer.positions.copy(bytes, starts[from]!, starts[from + 1]!)
    }
  }
}

function grown(numbers: Uint32Array): Uint32Array {
  const larger = new Uint32Array(2 * numbers.length)
  larger.set(numbers)
  return larger
}
