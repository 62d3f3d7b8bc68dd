import { getTopKMMREmbeddings } from '@llamaindex/core/embeddings'
import type { BaseNode } from '@llamaindex/core/schema'
import {
  BaseVectorStore,
  type VectorStoreBaseParams,
  type VectorStoreQuery,
  type VectorStoreQueryResult,
} from '@llamaindex/core/vector-store'
import {
  DatabaseError,
  type Hit,
  type Metric,
  type Query,
  type VectorClient,
  type Words,
} from 'vicinal-client'
import { filterOf } from './filters.ts'
import { nodeOf, pointsOf } from './nodes.ts'

export interface StoreOptions extends VectorStoreBaseParams {
  readonly client: VectorClient
  /** Name or alias of the collection; by default that of the client. The first write creates it. */
  readonly collection?: string | undefined
  /** The metric of queries; `Cosine` by default. */
  readonly metric?: Metric | undefined
  /** What the collection is searched by, as words; the first write declares it. */
  readonly words?: Words | undefined
}

/** What else a query asks for: boosts, diversity, groups, reranking and more, as in the client. */
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

/**
 * A vector store with its nodes in a collection of Vicinal. Metadata are attributes, which can filter queries. Fails
 * with a `DatabaseError` of the client, which has a `reason`.
 *
 * @example
 * const store = new VicinalVectorStore({ client, collection: 'animals', embedModel })
 * await store.add([new TextNode({ text: 'a fox', embedding, metadata: { legs: 4 } })])
 */
export class VicinalVectorStore extends BaseVectorStore<VectorClient> {
  readonly storesText: boolean = true
  readonly #client: VectorClient
  readonly #collection: string | undefined
  readonly #metric: Metric
  readonly #words: Words | undefined
  #isReady: boolean

  constructor({ client, collection, metric = 'Cosine', words, ...params }: StoreOptions) {
    super(params)
    this.#client = collection === undefined ? client : client.collection(collection)
    this.#collection = collection
    this.#metric = metric
    this.#words = words
    this.#isReady = collection === undefined
  }

  /** The client, for features that LlamaIndex's interface does not have. */
  override client(): VectorClient {
    return this.#client
  }

  /** Stores nodes with their vectors, and returns their ids. A node whose id exists replaces the stored one. */
  override async add(nodes: BaseNode[]): Promise<string[]> {
    const points = pointsOf(nodes)
    await this.#createCollection()
    for await (const _stored of this.#client.insertAll(points)) {
      // Nothing to do: the ids are known.
    }
    return nodes.map((node) => node.id_)
  }

  /** Deletes the nodes of a document. A missing document is not an error. */
  override async delete(refDocId: string): Promise<void> {
    let more = true
    while (more) {
      ;({ more } = await this.#client.deleteMatching({ filter: { ref_doc_id: { $eq: refDocId } } }))
    }
  }

  /**
   * Returns the matching nodes nearest to a vector; in the mode `mmr`, nodes that also differ from each other; by the
   * words of `queryStr` in the mode `sparse`; by both in the mode `hybrid`, where `alpha` is what the vector counts.
   *
   * @param options shape the answer; with `boost` or `rerank`, similarities are scores from 0 to 1
   */
  override async query(
    query: VectorStoreQuery,
    options: SearchOptions = {},
  ): Promise<VectorStoreQueryResult> {
    const { queryEmbedding, similarityTopK, mode } = query
    if (wordModes.includes(mode)) return await this.#byWords(query, options)
    if (queryEmbedding === undefined) {
      throw missing('queryEmbedding')
    }
    const isDiverse = wantsDiversity(mode)
    const isScored = (options.boost ?? options.rerank) !== undefined
    const { hits } = await this.#client.searchHits({
      ...options,
      vector: queryEmbedding,
      metric: this.#metric,
      limit: similarityTopK * (isDiverse ? mmrMultiplier : 1),
      filter: filterOf(query),
      include: { distance: true, payload: true, attributes: true, vector: isDiverse, scores: isScored },
    })
    const nodes = hits.map(nodeOf)
    if (isDiverse) return diverseOf(query, queryEmbedding, nodes)
    return resultOf(
      nodes,
      hits.map(({ distance = 0, score }) => score ?? similarityOf(distance, this.#metric)),
    )
  }

  async #byWords(query: VectorStoreQuery, options: SearchOptions): Promise<VectorStoreQueryResult> {
    const { queryStr, queryEmbedding, similarityTopK, mode, alpha } = query
    if (queryStr === undefined) throw missing('queryStr')
    const isHybrid = mode === 'hybrid'
    if (isHybrid && queryEmbedding === undefined) throw missing('queryEmbedding')
    const isNear = isHybrid || (options.like ?? options.unlike) !== undefined
    const { hits } = await this.#client.searchHits({
      ...options,
      words: queryStr,
      ...(isHybrid && { vector: queryEmbedding, balance: alpha }),
      ...(isNear && { metric: this.#metric }),
      limit: similarityTopK,
      filter: filterOf(query),
      include: { scores: true, payload: true, attributes: true },
    })
    return resultOf(
      hits.map((hit: Hit) => nodeOf(hit)),
      hits.map(({ score = 0 }) => score),
    )
  }

  /** Only a write creates the collection: a query under a misspelled name must fail. */
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

/** Prefetch factor of MMR: how many candidates are fetched for each wanted node; the same as in the Python package. */
const mmrMultiplier = 4

const wordModes: readonly (string | undefined)[] = ['hybrid', 'sparse']

function missing(field: string): DatabaseError {
  return new DatabaseError('invalid_argument', `the query has no ${field}`)
}

function wantsDiversity(mode: VectorStoreQuery['mode'] | undefined): boolean {
  // Callers in JavaScript may omit the mode.
  const name: string = mode ?? 'default'
  if (name === 'default' || name === 'mmr') return name === 'mmr'
  throw new DatabaseError(
    'invalid_argument',
    `Vicinal has no search in the mode ${name}: use default, mmr, ${wordModes.join(', ')}`,
  )
}

function diverseOf(
  { similarityTopK, mmrThreshold }: VectorStoreQuery,
  vector: number[],
  nodes: readonly BaseNode[],
): VectorStoreQueryResult {
  const vectors = nodes.map((node) => node.getEmbedding())
  const [scores, chosen] = getTopKMMREmbeddings(
    vector,
    vectors,
    null,
    similarityTopK,
    null,
    null,
    mmrThreshold ?? null,
  )
  return resultOf(
    chosen.map((index: number) => nodes[index]!),
    scores,
  )
}

function resultOf(nodes: BaseNode[], similarities: number[]): VectorStoreQueryResult {
  return { nodes, similarities, ids: nodes.map((node) => node.id_) }
}

/** A similarity: the cosine itself; for other metrics 1 for equal vectors, towards 0 for distant ones. */
function similarityOf(distance: number, metric: Metric): number {
  return metric === 'Cosine' ? 1 - distance : 1 / (1 + distance)
}
