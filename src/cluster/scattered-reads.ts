import { DatabaseError } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import { PartitionSet, partitionOf } from '../base/partitions.ts'
import type { Point, SearchQuery, VectorQuery } from '../base/point.ts'
import type { SearchResults } from '../base/search-results.ts'
import type { ChangeByFilter, ListPage, ListQuery } from '../engine/database.ts'
import { inUnits } from '../engine/found-ids.ts'
import { changesPerRecord } from '../engine/logged-request.ts'
import { mergeFacets, type NodeFacets } from './merge-facets.ts'
import { mergePages, mergePlans, type NodePlan } from './merge-lists.ts'
import { mergeResults } from './merge-search.ts'
import { type FacetsQuery, NodeReads, type ReadCollection, type ReadingNode } from './node-reads.ts'
import { PeerReads } from './peer-reads.ts'
import type { Peers } from './peers.ts'
import type { CoverPart } from './placement.ts'
import type { Scatter } from './scatter.ts'

/** What a node asks other nodes with. */
export interface ScatteredReadsOptions {
  readonly self: string
  readonly node: ReadingNode
  readonly peers: Peers
  readonly scatter: Scatter
  /** Or an alias. */
  readonly collection: string
  /** The same, on this node. */
  readonly local: ReadCollection
  /** Every answer has to be at least as new. */
  readonly position: number
  /** Told how far other nodes had applied the log when they answered. */
  readonly onPosition: (position: number) => void
}

/**
 * Reads of a collection of which this node has only some points: it asks the fewest nodes that have all of them, itself
 * among them, and merges what they answer.
 */
export class ScatteredReads {
  readonly #options: ScatteredReadsOptions

  constructor(options: ScatteredReadsOptions) {
    this.#options = options
  }

  async search(queries: readonly SearchQuery[], signal?: AbortSignal): Promise<SearchResults> {
    const asked = await this.#ranked(queries, signal)
    const size = Math.ceil(Math.log2(queries.length + 1))
    const nodes = await this.#gather(`search ${size}`, PartitionSet.all(), signal, (reads, stop) =>
      reads.search(asked, stop),
    )
    const merged = queries.map(({ metric, limit, vector }) => ({
      ...{ metric, limit },
      without: typeof vector === 'string' ? vector : undefined,
    }))
    return await mergeResults(merged, nodes, inUnits)
  }

  async get(id: string, signal?: AbortSignal): Promise<Point | undefined> {
    const [point] = await this.#gather('get', PartitionSet.of([partitionOf(id)]), signal, (reads) =>
      reads.get(id),
    )
    return point
  }

  async list(query: ListQuery, signal?: AbortSignal): Promise<ListPage> {
    const pages = await this.#gather('list', PartitionSet.all(), signal, (reads, stop) =>
      reads.list(query, stop),
    )
    return mergePages(pages, query.limit)
  }

  async count(filter: Filter | undefined, signal?: AbortSignal): Promise<number> {
    const counts = await this.#gather('count', PartitionSet.all(), signal, (reads, stop) =>
      reads.count(filter, stop),
    )
    return counts.reduce((sum, count) => sum + count, 0)
  }

  /** Asks for more and more values, until the most frequent ones are known. */
  async facets(query: FacetsQuery, signal?: AbortSignal): Promise<NodeFacets> {
    for (let limit = Math.max(valuesMin, 4 * query.limit); ; limit *= 8) {
      const nodes = await this.#gather('facets', PartitionSet.all(), signal, (reads, stop) =>
        reads.facets({ ...query, limit }, stop),
      )
      const merged = mergeFacets(nodes, query.paths, query.limit, limit)
      if (merged !== undefined) return merged
    }
  }

  async planByFilter(request: ChangeByFilter, signal?: AbortSignal): Promise<NodePlan> {
    const plans = await this.#gather('plan', PartitionSet.all(), signal, (reads) => reads.plan(request))
    return mergePlans(plans, Math.min(request.limit ?? changesPerRecord, changesPerRecord))
  }

  /** With the vectors of the points that are searched near, which others need not have. */
  async #ranked(queries: readonly SearchQuery[], signal: AbortSignal | undefined): Promise<VectorQuery[]> {
    return await Promise.all(
      queries.map(async (query) => {
        const { vector } = query
        if (typeof vector !== 'string') return { ...query, vector, ranked: true }
        const point = await this.get(vector, signal)
        if (point === undefined)
          throw new DatabaseError('not_found', `point ${vector} to search near not found`)
        // The point itself is found too, and left out.
        const limit = query.limit + 1
        return { ...query, vector: point.vector, limit, ef: Math.max(query.ef, limit), ranked: true }
      }),
    )
  }

  async #gather<Answer>(
    kind: string,
    partitions: PartitionSet,
    signal: AbortSignal | undefined,
    ask: (reads: NodeReads | PeerReads, signal: AbortSignal) => Promise<Answer>,
  ): Promise<Answer[]> {
    const answers = await this.#options.scatter.gather({
      ...{ kind, partitions, signal },
      ask: async (part, stop) => await ask(this.#readsOf(part, stop), stop),
    })
    return answers.map(({ answer }) => answer)
  }

  #readsOf({ node, partitions }: CoverPart, signal: AbortSignal): NodeReads | PeerReads {
    const { self, local, peers, collection, position, onPosition } = this.#options
    if (node === self) return new NodeReads(this.#options.node, local, partitions)
    return new PeerReads({ peers, node, onPosition }, { collection, position, partitions }, signal)
  }
}

const valuesMin = 100
