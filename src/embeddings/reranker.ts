import { cancellation, DatabaseError } from '../base/errors.ts'
import { EndpointFault, type EndpointOptions, isIndex, ModelEndpoint, parse } from './endpoint.ts'

/** The api's view of the reranking endpoint. */
export interface Reranking {
  /**
   * Returns how well each document answers a query, in the order of the documents; larger is better.
   *
   * @throws DatabaseError `rerank_unavailable` if the endpoint fails or its answer is unusable; `overloaded` for more
   *   requests than may run; the cancellation of `signal`
   */
  rerank(query: string, documents: readonly string[], signal?: AbortSignal): Promise<readonly number[]>
}

/**
 * An endpoint that ranks documents for a query: `POST /rerank` as Cohere defined it, and Jina, Voyage and vLLM have it.
 *
 *   {model, query, documents: [text, ...]} ─> {results: [{index, relevance_score}, ...]}
 */
export class Reranker implements Reranking {
  readonly model: string
  readonly #endpoint: ModelEndpoint
  readonly #maxRequests: number
  readonly #closing = new AbortController()
  #running = 0

  /** @param maxRequests the most requests at the same time; further searches are refused */
  constructor(options: EndpointOptions & { readonly maxRequests: number }) {
    this.model = options.model
    this.#maxRequests = options.maxRequests
    this.#endpoint = new ModelEndpoint(
      {
        path: 'rerank',
        name: 'the reranking endpoint',
        product: 'reranking by',
        settings: 'RERANK',
        unavailable: 'rerank_unavailable',
      },
      options,
    )
  }

  async rerank(
    query: string,
    documents: readonly string[],
    signal?: AbortSignal,
  ): Promise<readonly number[]> {
    if (this.#running >= this.#maxRequests) {
      const busy = `${this.#running} searches are being reranked, the maximum is ${this.#maxRequests}`
      throw new DatabaseError('overloaded', `${busy}: try again later`)
    }
    const read = (text: string): Generator<void, number[]> => readScores(text, documents.length)
    const stop = this.#closing.signal
    this.#running += 1
    try {
      return await this.#endpoint.post(
        { query, documents, top_n: documents.length },
        read,
        signal === undefined ? stop : AbortSignal.any([signal, stop]),
      )
    } catch (error) {
      if (signal?.aborted) throw cancellation(signal)
      throw error instanceof EndpointFault ? error.toDatabaseError() : error
    } finally {
      this.#running -= 1
    }
  }

  /** Aborts the requests. */
  close(): void {
    this.#closing.abort(new DatabaseError('shutting_down', 'the server is shutting down'))
  }
}

/**
 * @param count number of documents that were sent
 * @throws Error that names the fault of the answer
 */
function* readScores(text: string, count: number): Generator<void, number[]> {
  const { results } = parse(text) as { results?: unknown }
  if (!Array.isArray(results)) throw new Error('it has no list `results`')
  if (results.length !== count) throw new Error(`it has ${results.length} results for ${count} documents`)
  yield
  const scores = new Array<number | undefined>(count)
  for (const [position, item] of results.entries()) {
    const { index, relevance_score: score } = (item ?? {}) as { index?: unknown; relevance_score?: unknown }
    if (!isIndex(index, count) || scores[index] !== undefined) {
      throw new Error(`results[${position}] has the index ${JSON.stringify(index)}`)
    }
    if (typeof score !== 'number' || !Number.isFinite(score)) {
      throw new Error(`results[${position}].relevance_score is not a number`)
    }
    scores[index] = score
  }
  return scores as number[]
}
