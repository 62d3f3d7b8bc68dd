import type { Document, DocumentInterface } from '@langchain/core/documents'
import type { EmbeddingsInterface } from '@langchain/core/embeddings'
import { maximalMarginalRelevance } from '@langchain/core/utils/math'
import { type MaxMarginalRelevanceSearchOptions, VectorStore } from '@langchain/core/vectorstores'
import {
  DatabaseError,
  type Filter,
  type Hit,
  type Include,
  type Metric,
  type Query,
  uuidOf,
  type VectorClient,
  type Words,
} from 'vicinal-client'
import { documentOf, idsOf, pointsOf } from './documents.ts'

export interface StoreOptions {
  readonly client: VectorClient
  /** Name or alias of the collection; by default that of the client. The first write creates it. */
  readonly collection?: string | undefined
  /** The metric of searches; `Cosine` by default. */
  readonly metric?: Metric | undefined
  /** What the collection is searched by, as words; the first write declares it. */
  readonly words?: Words | undefined
  /** How texts find documents: by their vector, by their words, or by both; `vector` by default. */
  readonly retrieval?: 'vector' | 'words' | 'hybrid' | undefined
  /** What the vector counts in `hybrid`, from 0 to 1; 0.5 by default. */
  readonly balance?: number | undefined
  /** What else searches for texts ask for: boosts, diversity, groups, reranking and more, as in the client. */
  readonly search?: SearchOptions | undefined
}

export type SearchOptions = Pick<
  Query,
  | 'boost'
  | 'like'
  | 'unlike'
  | 'diversity'
  | 'groupBy'
  | 'rerank'
  | 'onError'
  | 'statistics'
  | 'ef'
  | 'exact'
  | 'maxDistance'
>

/** Which documents to delete: those that have one of the ids and match the filter, or all documents. */
export interface DeleteSelection {
  readonly ids?: readonly string[] | undefined
  readonly filter?: Filter | undefined
  readonly deleteAll?: boolean | undefined
}

/**
 * A vector store with its documents in a collection of Vicinal, found by the vectors of their texts. Metadata are
 * attributes, which can filter searches. Fails with a `DatabaseError` of the client, which has a `reason`.
 *
 * @example
 * const store = new VicinalVectorStore(embeddings, { client, collection: 'animals' })
 * await store.addDocuments([new Document({ pageContent: 'a fox', metadata: { legs: 4 } })])
 * const found = await store.similaritySearch('foxes', 4, { legs: { $gte: 4 } })
 */
export class VicinalVectorStore extends VectorStore {
  declare FilterType: Filter
  readonly #client: VectorClient
  readonly #collection: string | undefined
  readonly #metric: Metric
  readonly #words: Words | undefined
  readonly #retrieval: 'vector' | 'words' | 'hybrid'
  readonly #balance: number | undefined
  readonly #options: SearchOptions
  #isReady: boolean

  constructor(embeddings: EmbeddingsInterface, options: StoreOptions) {
    super(embeddings, options)
    const { client, collection, metric = 'Cosine', words, retrieval = 'vector', balance, search } = options
    this.#options = search ?? {}
    this.#words = words
    this.#retrieval = retrieval
    this.#balance = balance
    this.#client = collection === undefined ? client : client.collection(collection)
    this.#collection = collection
    this.#metric = metric
    this.#isReady = collection === undefined
  }

  /** Creates a store with these texts. `metadatas` has one object for each text, or is one object for all. */
  static override async fromTexts(
    texts: string[],
    metadatas: object[] | object,
    embeddings: EmbeddingsInterface,
    options: StoreOptions,
  ): Promise<VicinalVectorStore> {
    const documents = texts.map((pageContent, index) => ({
      pageContent,
      metadata: (Array.isArray(metadatas) ? metadatas[index] : metadatas) ?? {},
    }))
    return VicinalVectorStore.fromDocuments(documents, embeddings, options)
  }

  /** Creates a store, and adds these documents to those already in the collection. */
  static override async fromDocuments(
    documents: DocumentInterface[],
    embeddings: EmbeddingsInterface,
    options: StoreOptions,
  ): Promise<VicinalVectorStore> {
    const store = new VicinalVectorStore(embeddings, options)
    await store.addDocuments(documents)
    return store
  }

  /** Creates a store over an existing collection. @throws DatabaseError `collection_not_found` */
  static async fromExistingIndex(
    embeddings: EmbeddingsInterface,
    options: StoreOptions,
  ): Promise<VicinalVectorStore> {
    if (options.collection !== undefined) await options.client.collections.get(options.collection)
    return new VicinalVectorStore(embeddings, options)
  }

  override _vectorstoreType(): string {
    return 'vicinal'
  }

  /** The client, for features that LangChain's interface does not have. */
  get client(): VectorClient {
    return this.#client
  }

  /** Stores documents and returns their ids. A document whose id exists replaces the stored one. */
  override async addDocuments(
    documents: DocumentInterface[],
    options: { readonly ids?: readonly string[] } = {},
  ): Promise<string[]> {
    const vectors = await this.embeddings.embedDocuments(documents.map(({ pageContent }) => pageContent))
    return this.addVectors(vectors, documents, options)
  }

  /** Stores documents with their vectors and returns their ids. */
  override async addVectors(
    vectors: number[][],
    documents: DocumentInterface[],
    { ids: given }: { readonly ids?: readonly string[] } = {},
  ): Promise<string[]> {
    const ids = idsOf(documents, given)
    const points = pointsOf(vectors, documents, ids)
    await this.#createCollection()
    for await (const _stored of this.#client.insertAll(points)) {
      // Nothing to do: the ids are known.
    }
    return ids
  }

  /** Deletes documents by id, by filter, or all documents. Missing documents are not an error. */
  override async delete({ ids, filter, deleteAll = false }: DeleteSelection): Promise<void> {
    if (ids === undefined && filter === undefined && !deleteAll) {
      throw new DatabaseError('invalid_argument', 'delete needs ids, a filter, or deleteAll')
    }
    const chosen = { ...checked(filter) }
    const selection = ids === undefined ? chosen : { $and: [{ $id: { $in: ids.map(uuidOf) } }, chosen] }
    let more = true
    while (more) {
      ;({ more } = await this.#client.deleteMatching({ filter: selection, everything: deleteAll }))
    }
  }

  /** Returns the `k` nearest matching documents with their similarities: larger is nearer. */
  override async similaritySearchVectorWithScore(
    query: number[],
    k: number,
    filter?: Filter,
  ): Promise<[Document, number][]> {
    const hits = await this.#search(query, k, filter, { distance: true, payload: true, attributes: true })
    return hits.map((hit) => [documentOf(hit), similarityOf(hit.distance ?? 0, this.#metric)])
  }

  /**
   * Returns the `k` best matching documents for a text, with their similarities: larger is nearer. Where words, boosts or
   * a reranker count, these are scores from 0 to 1.
   */
  override async similaritySearchWithScore(
    query: string,
    k = 4,
    filter?: Filter,
  ): Promise<[Document, number][]> {
    const { boost, rerank, like, unlike } = this.#options
    const byWords = this.#retrieval !== 'vector'
    const byVector = this.#retrieval !== 'words'
    const isScored = byWords || (boost ?? rerank) !== undefined
    const { hits } = await this.#client.searchHits({
      ...this.#options,
      ...(byVector && { vector: await this.embeddings.embedQuery(query) }),
      ...((byVector || (like ?? unlike) !== undefined) && { metric: this.#metric }),
      ...(byWords && { words: query }),
      ...(byWords && byVector && { balance: this.#balance }),
      limit: k,
      filter: checked(filter),
      include: { distance: !isScored, scores: isScored, payload: true, attributes: true },
    })
    return hits.map((hit) => [
      documentOf(hit),
      isScored ? (hit.score ?? 0) : similarityOf(hit.distance ?? 0, this.#metric),
    ])
  }

  /** Returns the `k` best matching documents for a text. */
  override async similaritySearch(query: string, k = 4, filter?: Filter): Promise<Document[]> {
    return (await this.similaritySearchWithScore(query, k, filter)).map(([document]) => document)
  }

  /** Returns documents that are near a text and differ from each other: `k` of the `fetchK` nearest matching ones. */
  override async maxMarginalRelevanceSearch(
    query: string,
    { k, fetchK = 20, lambda = 0.5, filter }: MaxMarginalRelevanceSearchOptions<Filter>,
  ): Promise<Document[]> {
    const vector = await this.embeddings.embedQuery(query)
    const include = { payload: true, attributes: true, vector: true }
    const hits = await this.#search(vector, Math.max(k, fetchK), filter, include)
    const vectors = hits.map((hit) => Array.from(hit.vector!))
    return maximalMarginalRelevance(vector, vectors, lambda, k).map((index) => documentOf(hits[index]!))
  }

  async #search(
    vector: readonly number[],
    limit: number,
    filter: Filter | undefined,
    include: Include,
  ): Promise<readonly Hit[]> {
    const query = { vector, limit, metric: this.#metric, filter: checked(filter), include }
    return (await this.#client.searchHits(query)).hits
  }

  /** Only a write creates the collection: a search under a misspelled name must fail. */
  async #createCollection(): Promise<void> {
    if (this.#isReady) return
    const name = this.#collection!
    try {
      await this.#client.collections.get(name)
    } catch (error) {
      if (!(error instanceof DatabaseError) || error.reason !== 'collection_not_found') throw error
      await this.#client.collections.put(name, this.#words && { words: this.#words })
      this.#isReady = true
      return
    }
    if (this.#words !== undefined) await this.#client.collections.put(name, { words: this.#words })
    this.#isReady = true
  }
}

/** Refuses functions, which LangChain's in-memory store accepts: JSON would leave them out, and select everything. */
function checked(filter: Filter | undefined): Filter | undefined {
  if (typeof filter !== 'function') return filter
  throw new DatabaseError(
    'invalid_argument',
    'filter is a function; it must be an object like { legs: { $lt: 4 } }',
  )
}

/** A similarity: the cosine itself; for other metrics 1 for equal vectors, towards 0 for distant ones. */
function similarityOf(distance: number, metric: Metric): number {
  return metric === 'Cosine' ? 1 - distance : 1 / (1 + distance)
}
