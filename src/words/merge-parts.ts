import type { Bm25Parameters } from './bm25.ts'
import type { DictionaryCursor } from './dictionary.ts'
import type { Part } from './part.ts'
import { FrequencyCodes, type PartContent, PartWriter } from './part-content.ts'
import { endOfPositions } from './pending-part.ts'
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
  const list = new MergedList(writer)
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
    let [least, from] = [Number.POSITIVE_INFINITY, -1]
    for (const [index, { part }] of sources.entries()) {
      while (next[index]! < part.documents && !part.isLive(next[index]!)) next[index]! += 1
      const sequence = part.sequences[next[index]!] ?? Number.POSITIVE_INFINITY
      if (sequence < least) [least, from] = [sequence, index]
    }
    if (from === -1) return number
    sources[from]!.numbers[next[from]!] = number
    next[from]! += 1
    number += 1
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
  #count = 0
  #occurrences = 0
  #documents: Uint32Array = new Uint32Array(1024)
  #codes: Uint32Array = new Uint32Array(1024)
  /** The positions of each posting. */
  #positions: Uint8Array[] = []
  #isSorted = true

  constructor(writer: PartWriter) {
    this.#writer = writer
  }

  add({ part, numbers, codes, cursor, reader }: Source): void {
    const { list, documents, positions } = cursor.entry
    reader.read(list, documents)
    let at = positions
    for (let index = 0; index < documents; index += 1) {
      const code = reader.codes[index]!
      const total = part.total(code)
      const end = endOfPositions(part.positions, at, total)
      const number = numbers[reader.documents[index]!]!
      if (number !== noDocument) this.#append(number, codes[code]!, part.positions.subarray(at, end), total)
      at = end
    }
  }

  #append(document: number, code: number, positions: Uint8Array, total: number): void {
    const at = this.#count++
    if (at === this.#documents.length) {
      this.#documents = grown(this.#documents)
      this.#codes = grown(this.#codes)
    }
    if (at > 0 && document < this.#documents[at - 1]!) this.#isSorted = false
    this.#documents[at] = document
    this.#codes[at] = code
    this.#positions[at] = positions
    this.#occurrences += total
  }

  /** Writes what was added, if it is anything, and empties the list. Returns how many postings that were. */
  write(term: string): number {
    const count = this.#count
    if (count === 0) return 1
    if (!this.#isSorted) this.#sort()
    for (let index = 0; index < count; index += 1) this.#writer.positions.append(this.#positions[index]!)
    this.#writer.term(term, this.#documents, this.#codes, count, this.#occurrences)
    this.#count = 0
    this.#occurrences = 0
    this.#isSorted = true
    return count
  }

  #sort(): void {
    const documents = this.#documents.slice(0, this.#count)
    const codes = this.#codes.slice(0, this.#count)
    const positions = this.#positions.slice(0, this.#count)
    const order = new Uint32Array(this.#count)
      .map((_, index) => index)
      .sort((a, b) => documents[a]! - documents[b]!)
    for (const [index, from] of order.entries()) {
      this.#documents[index] = documents[from]!
      this.#codes[index] = codes[from]!
      this.#positions[index] = positions[from]!
    }
  }
}

function grown(numbers: Uint32Array): Uint32Array {
  const larger = new Uint32Array(2 * numbers.length)
  larger.set(numbers)
  return larger
}
