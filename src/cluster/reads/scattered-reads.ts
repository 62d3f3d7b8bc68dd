import { DatabaseError } from '../../base/errors.ts'
import type { Filter } from '../../base/filter.ts'
import { joinResults, type SearchResults } from '../../base/id-lists.ts'
import { matchesKeyFilter } from '../../base/key-filter.ts'
import { PartitionSet, partitionOf } from '../../base/partitions.ts'
import type { Point, SearchQuery, VectorQuery } from '../../base/point.ts'
import type { ChangeByFilter, ListPage, ListQuery, ReadCall, StatsOfNodes } from '../../points/database.ts'
import { changesPerRecord } from '../../write/requests.ts'
import type { Peers } from '../requests.ts'
import {
  mergeFacets,
  mergePages,
  mergePlans,
  mergeResults,
  type NodeFacets,
  type NodePlan,
  type NodeResults,
  type OrderedPage,
} from './merged-answers.ts'
import { type FacetsQuery, NodeReads, type ReadCollection, type ReadingNode } from './node-reads.ts'
import { type ReportingNode, statsOnNodes } from './node-stats.ts'
import { PeerReads } from './peer-reads.ts'
import type { CoverPart, Placement } from './placement.ts'
import { tooManyValues } from './read-codec.ts'
import { isRetryable, type Question, type Scatter } from './scatter.ts'
import { ScatteredWords } from './scattered-words.ts'

/** A node that reads together with others. */
interface AskingNode extends ReadingNode, ReportingNode {
  /** Resolves when the node has applied everything that any node had applied before the call. */
  latest(signal: AbortSignal | undefined): Promise<unknown>
}

/** What a node needs to ask other nodes. */
export interface ScatteredReadsOptions {
  readonly self: string
  readonly node: AskingNode
  readonly peers: Peers
  readonly scatter: Scatter
  readonly placement: Placement
  /** The name of the collection, or an alias. */
  readonly collection: string
  /** The collection on this node. */
  readonly local: ReadCollection
  /** The log position that every answer must include. */
  readonly position: number
  /** The time limit of requests for statistics. */
  readonly statsMs?: number | undefined
  /** Called with the log position that another node had applied when it answered. */
  readonly onPosition: (position: number) => void
}

/**
 * Reads a collection of which this node holds only some points. It asks the fewest nodes that hold all points
 * together, itself among them, and merges their answers.
 */
export class ScatteredReads {
  readonly #options: ScatteredReadsOptions

  constructor(options: ScatteredReadsOptions) {
    this.#options = options
  }

  async search(queries: readonly SearchQuery[], call: ReadCall = {}): Promise<SearchResults> {
    if (queries.every(({ words }) => words === undefined)) return await this.#nearest(queries, call)
    const lists: SearchResults[] = []
    const words = new ScatteredWords(this, this.#options.local)
    for (const query of queries) {
      lists.push(
        query.words === undefined ? await this.#nearest([query], call) : await words.search(query, call),
      )
    }
    return joinResults(lists)
  }

  async #nearest(queries: readonly SearchQuery[], call: ReadCall): Promise<SearchResults> {
    const asked = await this.withVectors(queries, call)
    const ask: Ask<NodeResults> = (reads, part) => reads.search(asked, part)
    const nodes = await this.gatherAll(call, ask)
    const merged = queries.map(({ limit, vector }) => ({
      limit,
      without: typeof vector === 'string' ? vector : undefined,
    }))
    return await mergeResults(merged, nodes)
  }

  async get(id: string, call: ReadCall = {}): Promise<Point | undefined> {
    const partitions = PartitionSet.of([partitionOf(id)])
    const [point] = await this.#gather({ partitions, call }, (reads, part) => reads.get(id, part))
    return point
  }

  /** Returns a page. If a node that is behind may lack its first points, the nodes are asked again. */
  async list(query: ListQuery, call: ReadCall = {}): Promise<ListPage> {
    let { position } = this.#options
    for (let attempt = 1; ; attempt += 1) {
      const ask: Ask<OrderedPage> = (reads, part) => reads.list(query, part)
      const pages = await this.gatherAll(call, ask, position)
      const page = mergePages(pages, query)
      const isUseful = page.points.length > 0 || page.nextCursor === undefined
      if (isUseful || attempt === listsMax) return page
      position = Math.max(position, ...pages.map(({ visible }) => visible))
    }
  }

  async count(filter: Filter | undefined, signal?: AbortSignal): Promise<number> {
    const counts = await this.gatherAll({ signal }, (reads, part) => reads.count(filter, part))
    return counts.reduce((sum, count) => sum + count, 0)
  }

  /**
   * Asks for more and more values, until the most frequent ones are known.
   *
   * @throws DatabaseError `invalid_argument` when each node would have to name too many
   */
  async facets(query: FacetsQuery, call: ReadCall = {}): Promise<NodeFacets> {
    for (let limit = Math.max(valuesMin, 4 * query.limit); ; limit = Math.min(8 * limit, valuesMax)) {
      const nodes = await this.gatherAll(call, (reads, part) => reads.facets({ ...query, limit }, part))
      const merged = await mergeFacets(nodes, query.paths, query.limit, limit)
      if (merged !== undefined) return merged
      if (limit === valuesMax) throw tooManyValues(query.paths)
    }
  }

  /**
   * Statistics of the collection on all nodes that hold some of it. Nodes that do not answer soon are listed without
   * statistics.
   */
  async stats(signal?: AbortSignal): Promise<StatsOfNodes> {
    const { collection: name, position } = this.#options
    const question = { name, position, hasFigures: true }
    const { points, ...others } = await statsOnNodes(this.#options, question, signal)
    return { points: points.get(name) ?? 0, ...others }
  }

  async planByFilter(request: ChangeByFilter, signal?: AbortSignal): Promise<NodePlan> {
    const everything = { partitions: PartitionSet.all(), call: { signal } }
    const answers = await this.#gather(everything, (reads, part) => reads.plan(request, part))
    return await mergePlans(answers, Math.min(request.limit ?? changesPerRecord, changesPerRecord))
  }

  /** Replaces the ids of points to search near with their vectors: other nodes may not hold these points. */
  async withVectors(queries: readonly SearchQuery[], call: ReadCall): Promise<VectorQuery[]> {
    return await Promise.all(
      queries.map(async (query) => {
        const { vector, keyFilter } = query
        if (typeof vector !== 'string') return { ...query, vector }
        const point = await this.get(vector, call)
        const isSeen = keyFilter === undefined || matchesKeyFilter(keyFilter, point?.payload.attributes)
        if (point === undefined || !isSeen)
          throw new DatabaseError('not_found', `point ${vector} to search near not found`)
        // The point itself is found too, and left out.
        const limit = query.limit + 1
        return { ...query, vector: point.vector, limit, ef: Math.max(query.ef, limit) }
      }),
    )
  }

  /** Asks about all partitions. */
  async gatherAll<Answer>(call: ReadCall, ask: Ask<Answer>, position?: number): Promise<readonly Answer[]> {
    return await this.#gather({ partitions: PartitionSet.all(), call }, ask, position)
  }

  /** @param position the log position that every answer must include */
  async #gather<Answer>(
    { call, ...question }: Omit<Question<Answer>, 'ask' | 'signal'> & { readonly call: ReadCall },
    ask: Ask<Answer>,
    position = this.#options.position,
  ): Promise<readonly Answer[]> {
    const { self, node, scatter } = this.#options
    const ofPeers = new Set<unknown>()
    const { signal, room } = call
    const askPart = async (part: CoverPart, stop: AbortSignal): Promise<Answer> => {
      try {
        const callOfPart = { signal: stop, room }
        return await ask(await this.#readsOf(part, position, stop), callOfPart)
      } catch (error) {
        if (part.node !== self) ofPeers.add(error)
        throw error
      }
    }
    try {
      return await scatter.gather({ ...question, signal, ask: askPart })
    } catch (error) {
      // A refusal does not say its position, and the other node may be ahead: it may have dropped the collection.
      // Later answers have to include that.
      const isRefusal = ofPeers.has(error) && !isRetryable(error)
      if (isRefusal && !signal?.aborted) await node.latest(signal)
      throw error
    }
  }

  async #readsOf(
    { node, partitions }: CoverPart,
    position: number,
    signal: AbortSignal,
  ): Promise<NodeReads | PeerReads> {
    const { self, local, peers, collection, onPosition } = this.#options
    if (node === self) {
      // This node has reached the caller's position, but perhaps not a later one.
      if (position > this.#options.position) await this.#options.node.admit({ position }, signal)
      return new NodeReads(this.#options.node, local, partitions)
    }
    return new PeerReads({ peers, node, onPosition }, { collection, position, partitions })
  }
}

export type Ask<Answer> = (reads: NodeReads | PeerReads, call: ReadCall) => Promise<Answer>

const valuesMin = 100
/** The most values of a path that a node names. Sorting them takes some milliseconds. */
const valuesMax = 8_192
/** How often the same page is asked for: a second time suffices, unless its points are removed meanwhile. */
const listsMax = 3
