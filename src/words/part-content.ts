import { type Bm25Parameters, type Norms, normsOf } from './bm25.ts'
import { ByteWriter } from './byte-writer.ts'
import { DictionaryWriter, type Groups } from './dictionary.ts'
import { PostingsWriter } from './postings.ts'

/**
 * A part of an index of words: some documents, frozen. Documents have the numbers 0, 1, 2.. in the order of their
 * sequence numbers. A part has:
 *
 * ```
 * by document   slot, sequence number, language, length of each path
 * by code       how often a term occurs in each path: postings store the code, and most codes are small
 * dictionary    terms in order (dictionary.ts), with the place of
 *   postings      documents and codes (postings.ts)
 *   positions     for each posting and path, the first position and the gaps between the others
 * ```
 */
export interface PartContent {
  readonly slots: Uint32Array
  readonly sequences: Float64Array
  readonly languages: Uint8Array
  /** One array a path, by document. */
  readonly lengths: readonly Uint32Array[]
  /** The frequencies of code c in path p are at c x paths + p. */
  readonly codes: Uint32Array
  readonly dictionary: Uint8Array
  readonly terms: number
  /** Of the dictionary; undefined if it was read from a file. */
  readonly groups?: Groups | undefined
  readonly postings: Uint8Array
  readonly positions: Uint8Array
  /** The maxima of blocks are for these norms and weights. */
  readonly norms: Norms
  readonly weights: readonly number[]
}

/** Codes for the frequencies of a term in the paths of a document. */
export class FrequencyCodes {
  readonly #paths: number
  readonly #codes = new Map<string, number>()
  readonly #frequencies: number[][] = []
  readonly #totals: number[] = []

  constructor(paths: number) {
    this.#paths = paths
  }

  get count(): number {
    return this.#frequencies.length
  }

  codeOf(frequencies: readonly number[]): number {
    const key = frequencies.join()
    let code = this.#codes.get(key)
    if (code === undefined) {
      code = this.#frequencies.length
      this.#codes.set(key, code)
      this.#frequencies.push([...frequencies])
      this.#totals.push(frequencies.reduce((sum, each) => sum + each, 0))
    }
    return code
  }

  /** How often a term with a code occurs in all paths. */
  total(code: number): number {
    return this.#totals[code]!
  }

  /**
   * Numbers the codes again, so that frequencies that are small, and so more frequent, have small codes. Returns the
   * table of the new codes, and the new code of each.
   */
  ordered(): { readonly table: Uint32Array; readonly newCodes: Uint32Array } {
    const order = this.#frequencies
      .map((_, code) => code)
      .sort((a, b) => this.total(a) - this.total(b) || a - b)
    const newCodes = new Uint32Array(order.length)
    const table = new Uint32Array(order.length * this.#paths)
    for (const [newCode, code] of order.entries()) {
      newCodes[code] = newCode
      table.set(this.#frequencies[code]!, newCode * this.#paths)
    }
    return { table, newCodes }
  }
}

/** Returns the weighted sum of the frequencies of each code. */
export function weightedFrequencies(codes: Uint32Array, weights: readonly number[]): Float64Array {
  const paths = weights.length
  const weighted = new Float64Array(codes.length / paths)
  for (let code = 0; code < weighted.length; code += 1) {
    for (let path = 0; path < paths; path += 1)
      weighted[code]! += weights[path]! * codes[code * paths + path]!
  }
  return weighted
}

/** Returns the weighted sum of the lengths of each document. */
export function weightedLengths(lengths: readonly Uint32Array[], weights: readonly number[]): Float32Array {
  const weighted = new Float64Array(lengths[0]!.length)
  for (const [path, column] of lengths.entries()) {
    const weight = weights[path]!
    for (let document = 0; document < column.length; document += 1)
      weighted[document]! += weight * column[document]!
  }
  return new Float32Array(weighted)
}

/** The columns of a new part, by document. */
export type PartColumns = Pick<PartContent, 'slots' | 'sequences' | 'languages' | 'lengths'>

/** Writes a part, term by term in order. */
export class PartWriter {
  readonly #columns: PartColumns
  readonly #codes: Uint32Array
  readonly #parameters: Bm25Parameters
  readonly #norms: PartContent['norms']
  readonly #dictionary = new DictionaryWriter()
  readonly #postings: ByteWriter = new ByteWriter()
  readonly #lists: PostingsWriter
  /** The positions of the term to come. */
  readonly positions: ByteWriter = new ByteWriter()
  #positionsFrom = 0

  /** @param codes the table of codes, as in a part */
  constructor(columns: PartColumns, codes: Uint32Array, parameters: Bm25Parameters) {
    const { weights } = parameters
    this.#columns = columns
    this.#codes = codes
    this.#parameters = parameters
    this.#norms = normsOf(parameters, {
      documents: columns.slots.length,
      lengths: columns.lengths.map((column) => column.reduce((sum, each) => sum + each, 0)),
    })
    const lengths = weightedLengths(columns.lengths, weights)
    this.#lists = new PostingsWriter(
      this.#postings,
      weightedFrequencies(codes, weights),
      lengths,
      this.#norms,
    )
  }

  /** Writes a term with the first `count` of the postings; their positions have been written to `positions`. */
  term(term: string, documents: Uint32Array, codes: Uint32Array, count: number, occurrences: number): void {
    const from = this.#postings.length
    this.#lists.write(documents, codes, count)
    this.#dictionary.add(
      term,
      count,
      occurrences,
      { from, to: this.#postings.length },
      { from: this.#positionsFrom, to: this.positions.length },
    )
    this.#positionsFrom = this.positions.length
  }

  finish(): PartContent {
    return {
      ...this.#columns,
      codes: this.#codes,
      dictionary: this.#dictionary.written,
      terms: this.#dictionary.count,
      groups: this.#dictionary.groups,
      postings: this.#postings.written,
      positions: this.positions.written,
      norms: this.#norms,
      weights: this.#parameters.weights,
    }
  }
}
