import { DatabaseError } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import { PartitionSet, partitionOf } from '../base/partitions.ts'
import type { Point, SearchQuery, VectorQuery } from '../base/point.ts'
import type { SearchResults } from '../base/search-results.ts'
import type {
  ChangeByFilter,
  ListPage,
  ListQuery,
  PartialReads,
  ReadCall,
  StatsOfNodes,
} from '../points/database.ts'
import type { SampledIds } from '../points/point-sample.ts'
import { inUnits } from '../search/search-answers.ts'
import { changesPerRecord } from '../write/logged-request.ts'
import type { Gathered } from './gathered.ts'
import { mergeFacets, type NodeFacets } from './merge-facets.ts'
import { mergePages, mergePlans, type NodePlan } from './merge-lists.ts'
import { mergeResults, type NodeResults } from './merge-search.ts'
import {
  type FacetsQuery,
  NodeReads,
  type ReadCollection,
  type ReadingNode,
  type SampleQuery,
} from './node-reads.ts'
import { PeerReads } from './peer-reads.ts'
import { askStats, statsMs as defaultStatsMs } from './peer-stats.ts'
import type { Peers } from './peers.ts'
import type { CoverPart } from './placement.ts'
import { type OrderedPage, tooManyValues } from './read-codec.ts'
import { isRetryable, type Question, type Scatter } from './scatter.ts'

/** A node that reads together with others. */
interface AskingNode extends ReadingNode {
  /** Resolves when the node is as up to date as asked for. */
  admit(read: { readonly position: number }, signal: AbortSignal): Promise<unknown>
  /** Resolves when the node has applied everything that any node had applied before the call. */
  latest(signal: AbortSignal | undefined): Promise<unknown>
}

/** What a node needs to ask other nodes. */
export interface ScatteredReadsOptions {
  readonly self: string
  readonly node: AskingNode
  readonly peers: Peers
  readonly scatter: Scatter
  /** The name of the collection, or an alias. */
  readonly collection: string
  /** The collection on this node. */
  readonly local: ReadCollection
  /** The log position that every answer must include. */
  readonly position: number
  /** If given, searches, lists, counts and facets may lack partitions that no node answers for. */
  readonly partial?: PartialReads | undefined
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
    const asked = await this.#ranked(queries, call)
    const size = Math.ceil(Math.log2(queries.length + 1))
    const ask: Ask<NodeResults> = (reads, part) => reads.search(asked, part)
    const { answers: nodes, missing } = await this.#gatherAll(`search ${size}`, call, ask)
    this.#note(missing)
    const merged = queries.map(({ metric, limit, vector }) => ({
      ...{ metric, limit },
      without: typeof vector === 'string' ? vector : undefined,
    }))
    return await mergeResults(merged, nodes, inUnits)
  }

  async get(id: string, call: ReadCall = {}): Promise<Point | undefined> {
    const partitions = PartitionSet.of([partitionOf(id)])
    const { answers } = await this.#gather({ kind: 'get', partitions, call }, (reads, part) =>
      reads.get(id, part),
    )
    return answers[0]
  }

  /** Returns a page. If a node that is behind may lack its first points, the nodes are asked again. */
  async list(query: ListQuery, call: ReadCall = {}): Promise<ListPage> {
    let { position } = this.#options
    for (let attempt = 1; ; attempt += 1) {
      const ask: Ask<OrderedPage> = (reads, part) => reads.list(query, part)
      const { answers: pages, missing } = await this.#gatherAll('list', call, ask, position)
      const page = mergePages(pages, query)
      const isUseful = page.points.length > 0 || page.nextCursor === undefined
      if (isUseful || attempt === listsMax) {
        this.#note(missing)
        return page
      }
      position = Math.max(position, ...pages.map(({ visible }) => visible))
    }
  }

  async count(filter: Filter | undefined, signal?: AbortSignal): Promise<number> {
    const { answers: counts, missing } = await this.#gatherAll('count', { signal }, (reads, part) =>
      reads.count(filter, part),
    )
    this.#note(missing)
    return counts.reduce((sum, count) => sum + count, 0)
  }

  /**
   * Asks for more and more values, until the most frequent ones are known.
   *
   * @throws DatabaseError `invalid_argument` when each node would have to name too many
   */
  async facets(query: FacetsQuery, call: ReadCall = {}): Promise<NodeFacets> {
    for (let limit = Math.max(valuesMin, 4 * query.limit); ; limit = Math.min(8 * limit, valuesMax)) {
      const { answers: nodes, missing } = await this.#gatherAll('facets', call, (reads, part) =>
        reads.facets({ ...query, limit }, part),
      )
      const merged = await mergeFacets(nodes, query.paths, query.limit, limit)
      if (merged === undefined) {
        if (limit === valuesMax) throw tooManyValues(query.paths)
        continue
      }
      this.#note(missing)
      return merged
    }
  }

  /**
   * Statistics of the collection on all nodes that hold some of it. Nodes that do not answer soon are listed without
   * statistics.
   */
  async stats(signal?: AbortSignal): Promise<StatsOfNodes> {
    const { self, local, peers, scatter, collection, statsMs = defaultStatsMs } = this.#options
    let missing = 0
    const onMissing = (partitions: number): void => {
      missing = partitions
    }
    const partial = { endMs: performance.now() + statsMs, onMissing }
    const counted = new ScatteredReads({ ...this.#options, partial }).count(undefined, signal)
    const asked = [...scatter.nodes].map(async ([node, isLive]) => {
      if (node === self) return { node, stats: local.stats }
      const ask = { signal, timeoutMs: statsMs }
      return { node, stats: isLive ? await askStats(peers, node, collection, ask) : undefined }
    })
    const [points, nodes] = await Promise.all([counted, Promise.all(asked)])
    return { points, missing, nodes }
  }

  /** Returns the samples of nodes that hold all points together, no point twice. */
  async sample(query: SampleQuery, signal?: AbortSignal): Promise<readonly SampledIds[]> {
    const { answers, missing } = await this.#gatherAll('sample', { signal }, (reads, part) =>
      reads.sample(query, part),
    )
    this.#note(missing)
    return answers
  }

  /** The same reads, for an answer that has begun: it has already said what it may lack. */
  begun(): ScatteredReads {
    const { partial } = this.#options
    return new ScatteredReads({
      ...this.#options,
      partial: partial && { endMs: undefined, onMissing: () => {} },
    })
  }

  async planByFilter(request: ChangeByFilter, signal?: AbortSignal): Promise<NodePlan> {
    const everything = { kind: 'plan', partitions: PartitionSet.all(), call: { signal } }
    const { answers } = await this.#gather(everything, (reads, part) => reads.plan(request, part))
    return await mergePlans(answers, Math.min(request.limit ?? changesPerRecord, changesPerRecord))
  }

  /** Replaces the ids of points to search near with their vectors: other nodes may not hold these points. */
  async #ranked(queries: readonly SearchQuery[], call: ReadCall): Promise<VectorQuery[]> {
    return await Promise.all(
      queries.map(async (query) => {
        const { vector } = query
        if (typeof vector !== 'string') return { ...query, vector, ranked: true }
        const point = await this.get(vector, call)
        if (point === undefined)
          throw new DatabaseError('not_found', `point ${vector} to search near not found`)
        // The point itself is found too, and left out.
        const limit = query.limit + 1
        return { ...query, vector: point.vector, limit, ef: Math.max(query.ef, limit), ranked: true }
      }),
    )
  }

  /** Asks about all partitions. If the caller allows it, partitions that no node answers for are left out. */
  async #gatherAll<Answer>(
    kind: string,
    call: ReadCall,
    ask: Ask<Answer>,
    position?: number,
  ): Promise<Gathered<Answer>> {
    const endMs = this.#options.partial?.endMs
    const waitMs =
      endMs === undefined ? undefined : Math.min(waitMsMax, Math.max(0, endMs - performance.now()))
    const partial = this.#options.partial && { waitMs }
    return await this.#gather({ kind, partitions: PartitionSet.all(), call, partial }, ask, position)
  }

  /** @param position the log position that every answer must include */
  async #gather<Answer>(
    { call, ...question }: Omit<Question<Answer>, 'ask' | 'signal'> & { readonly call: ReadCall },
    ask: Ask<Answer>,
    position = this.#options.position,
  ): Promise<Gathered<Answer>> {
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

  #note({ size }: PartitionSet): void {
    if (size > 0) this.#options.partial!.onMissing(size)
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

type Ask<Answer> = (reads: NodeReads | PeerReads, call: ReadCall) => Promise<Answer>

const valuesMin = 100
/** The most values of a path that a node names. Sorting them takes some milliseconds. */
const valuesMax = 8_192
/** How often the same page is asked for: a second time suffices, unless its points are removed meanwhile. */
const listsMax = 3
/** The maximum of timers: 24 days. */
const waitMsMax = 2 ** 31 - 1
