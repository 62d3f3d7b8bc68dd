import { instantiateWords, type WordsExports } from '../kernels/wasm-module.ts'
import {
  BUFFER_BYTES,
  MAXIMUM_STEPS,
  QUERY_BYTES,
  QUERY_CANDIDATES,
  QUERY_COUNT,
  QUERY_DOCUMENTS,
  QUERY_FILTER,
  QUERY_FLOOR,
  QUERY_FREQUENCIES,
  QUERY_K,
  QUERY_LENGTHS,
  QUERY_LIVE,
  QUERY_NORM_BASE,
  QUERY_NORM_SLOPE,
  QUERY_ORDER,
  QUERY_POOL,
  QUERY_SCORES,
  QUERY_SLOTS,
  QUERY_TERM_COUNT,
  QUERY_TERMS,
  TERM_BUFFER,
  TERM_BYTES,
  TERM_COUNT,
  TERM_LIST,
  TERM_STEP,
  TERM_WEIGHT,
  WINDOW,
} from '../kernels/words-format.ts'
import { queryTermsMax } from './analyzer.ts'
import type { Norms } from './bm25.ts'
import type { PartAddresses } from './part.ts'

/** A query on one part. */
export interface PartQuery {
  readonly addresses: PartAddresses
  readonly documents: number
  readonly norms: Norms
  /** How much higher a saturation can be with these norms than with those of the part's maxima. */
  readonly drift: number
  readonly terms: readonly PartTerm[]
}

interface PartTerm {
  /** The address of its postings. */
  readonly list: number
  readonly documents: number
  /** What a saturation of 1 adds to the score, a whole number up to rounding. */
  readonly weight: number
}

/** The best documents of a part: the highest score first, and of equal scores the first document. */
interface PartHits {
  readonly scores: Uint32Array
  readonly documents: Uint32Array
}

/** Documents that are scored in one call of the kernel. */
const listMax = WINDOW

/** The most hits of a query. */
export const hitsMax = 16_384

/** The bytes of the scratch that a searcher needs. */
export const searcherBytes: number =
  256 +
  4 * WINDOW +
  8 * WINDOW +
  4 * queryTermsMax +
  8 * hitsMax +
  8 * listMax +
  queryTermsMax * (TERM_BYTES + BUFFER_BYTES)

/** Runs queries in the kernel, with scratch in the memory of the parts. */
export class WordSearcher {
  readonly #memory: WebAssembly.Memory
  readonly #kernel: WordsExports
  readonly #query: number
  readonly #terms: number
  readonly #buffers: number
  readonly #pool: number
  readonly #list: number
  readonly #out: number
  readonly #scores: number
  readonly #candidates: number
  readonly #order: number

  /** @param scratch the address of `searcherBytes`, a multiple of 64 */
  constructor(memory: WebAssembly.Memory, scratch: number) {
    this.#memory = memory
    this.#kernel = instantiateWords(memory)
    this.#query = scratch
    this.#scores = scratch + Math.ceil(QUERY_BYTES / 64) * 64
    this.#candidates = this.#scores + 4 * WINDOW
    this.#order = this.#candidates + 8 * WINDOW
    this.#pool = this.#order + 4 * queryTermsMax
    this.#list = this.#pool + 8 * hitsMax
    this.#out = this.#list + 4 * listMax
    this.#terms = this.#out + 4 * listMax
    this.#buffers = this.#terms + queryTermsMax * TERM_BYTES
  }

  /**
   * Returns the best k documents of a part with a score above `floor`.
   *
   * @param filter the address of a bitmap by slot; 0 without a filter
   */
  search(query: PartQuery, k: number, floor: number, filter: number): PartHits {
    const view = this.#write(query, k, floor, filter)
    this.#kernel.searchWords(this.#query)
    return this.#hits(view)
  }

  /** As `search`, among the given documents, which ascend. */
  searchAmong(query: PartQuery, k: number, floor: number, documents: Uint32Array): PartHits {
    const view = this.#write(query, k, floor, 0)
    for (let from = 0; from < documents.length; from += listMax) {
      const size = this.#writeList(documents, from)
      this.#kernel.searchDocuments(this.#query, this.#list, size, this.#out)
      if (view.getUint32(this.#query + QUERY_COUNT, true) < k) continue
      const least = view.getUint32(this.#pool + 4, true)
      view.setUint32(this.#query + QUERY_FLOOR, Math.max(floor, least), true)
    }
    return this.#hits(view)
  }

  /** Returns the scores of the given documents, which ascend. */
  scores(query: PartQuery, documents: Uint32Array): Uint32Array {
    this.#write(query, 1, 0, 0)
    return this.#map(documents, (size) => this.#kernel.scoreWords(this.#query, this.#list, size, this.#out))
  }

  /** Returns the code plus one of the query's first term in each of the given documents, which ascend; 0 without it. */
  codes(query: PartQuery, documents: Uint32Array): Uint32Array {
    this.#write(query, 1, 0, 0)
    return this.#map(documents, (size) => this.#kernel.findWords(this.#query, this.#list, size, this.#out))
  }

  #map(documents: Uint32Array, run: (size: number) => void): Uint32Array {
    const results = new Uint32Array(documents.length)
    for (let from = 0; from < documents.length; from += listMax) {
      const size = this.#writeList(documents, from)
      run(size)
      results.set(new Uint32Array(this.#memory.buffer, this.#out, size), from)
    }
    return results
  }

  #writeList(documents: Uint32Array, from: number): number {
    const part = documents.subarray(from, from + listMax)
    new Uint32Array(this.#memory.buffer, this.#list, part.length).set(part)
    return part.length
  }

  #write(query: PartQuery, k: number, floor: number, filter: number): DataView {
    if (query.terms.length > queryTermsMax) throw new RangeError(`a query has at most ${queryTermsMax} terms`)
    if (k > hitsMax) throw new RangeError(`a query has at most ${hitsMax} hits`)
    const view = new DataView(this.#memory.buffer)
    const word = (offset: number, value: number): void => view.setUint32(this.#query + offset, value, true)
    word(QUERY_DOCUMENTS, query.documents)
    word(QUERY_LENGTHS, query.addresses.lengths)
    word(QUERY_LIVE, query.addresses.live)
    word(QUERY_SLOTS, query.addresses.slots)
    word(QUERY_FILTER, filter)
    word(QUERY_FREQUENCIES, query.addresses.frequencies)
    word(QUERY_TERM_COUNT, query.terms.length)
    word(QUERY_TERMS, this.#terms)
    word(QUERY_POOL, this.#pool)
    word(QUERY_K, k)
    word(QUERY_COUNT, 0)
    word(QUERY_FLOOR, floor)
    word(QUERY_SCORES, this.#scores)
    word(QUERY_CANDIDATES, this.#candidates)
    word(QUERY_ORDER, this.#order)
    view.setFloat64(this.#query + QUERY_NORM_BASE, query.norms.base, true)
    view.setFloat64(this.#query + QUERY_NORM_SLOPE, query.norms.slope, true)
    for (const [index, term] of query.terms.entries()) {
      const at = this.#terms + index * TERM_BYTES
      view.setUint32(at + TERM_LIST, term.list, true)
      view.setUint32(at + TERM_COUNT, term.documents, true)
      view.setFloat64(at + TERM_WEIGHT, term.weight, true)
      view.setFloat64(at + TERM_STEP, (term.weight * query.drift) / MAXIMUM_STEPS, true)
      view.setUint32(at + TERM_BUFFER, this.#buffers + index * BUFFER_BYTES, true)
    }
    return view
  }

  /** Takes the hits from the pool. Their keys sort as they shall, the last first. */
  #hits(view: DataView): PartHits {
    const count = view.getUint32(this.#query + QUERY_COUNT, true)
    const halves = new Uint32Array(
      new BigUint64Array(this.#memory.buffer, this.#pool, count).slice().sort().buffer,
    )
    const [scores, documents] = [new Uint32Array(count), new Uint32Array(count)]
    for (let index = 0, at = 2 * count - 2; index < count; index += 1, at -= 2) {
      scores[index] = halves[at + 1]!
      documents[index] = ~halves[at]!
    }
    return { scores, documents }
  }
}
