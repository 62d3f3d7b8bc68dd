import { type Bm25Parameters, normsOf } from './bm25.ts'
import { ByteWriter } from './byte-writer.ts'
import { DictionaryWriter } from './dictionary.ts'
import { type PartContent, weightedFrequencies, weightedLengths } from './part-content.ts'
import { PostingsWriter } from './postings-writer.ts'

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
      postings: this.#postings.written,
      positions: this.positions.written,
      norms: this.#norms,
      weights: this.#parameters.weights,
    }
  }
}
