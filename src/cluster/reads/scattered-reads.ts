import { cancellation, DatabaseError } from '../../base/errors.ts'
import type { Filter } from '../../base/filter.ts'
import { joinResults } from '../../base/join-results.ts'
import { matchesKeyFilter } from '../../base/key-filter.ts'
import { PartitionSet, partitionOf } from '../../base/partitions.ts'
import type { Point, SearchQuery, SearchResults, VectorQuery } from '../../base/point.ts'
import type { CollectionSet } from '../../collections/collection-set.ts'
import { CountAnswerSchema, CountQuestionSchema } from '../../messages/generated/cluster_pb.js'
import { Encoded } from '../../messages/reader.ts'
import { encode } from '../../messages/writer.ts'
import type {
  ChangeByFilter,
  ListPage,
  ListQuery,
  PointsOnNodes,
  ReadCall,
  StatsOfNodes,
} from '../../points/database.ts'
import { changesPerRecord } from '../../write/requests.ts'
import type { PeerHandler, Peers } from '../requests.ts'
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
import { askStats, PeerReads, usualStatsMs } from './peer-reads.ts'
import { type CoverPart, checkHolds, type Placement } from './placement.ts'
import { tooManyValues } from './read-codec.ts'
import { isRetryable, type Question, type Scatter } from './scatter.ts'
import { ScatteredWords } from './scattered-words.ts'

/** A node that reads together with others. */
interface AskingNode extends ReadingNode, Pick<CountingNode, 'countLocal'> {
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
    const size = Math.ceil(Math.log2(queries.length + 1))
    const ask: Ask<NodeResults> = (reads, part) => reads.search(asked, part)
    const nodes = await this.gatherAll(`search ${size}`, call, ask)
    const merged = queries.map(({ limit, vector }) => ({
      limit,
      without: typeof vector === 'string' ? vector : undefined,
    }))
    return await mergeResults(merged, nodes)
  }

  async get(id: string, call: ReadCall = {}): Promise<Point | undefined> {
    const partitions = PartitionSet.of([partitionOf(id)])
    const [point] = await this.#gather({ kind: 'get', partitions, call }, (reads, part) =>
      reads.get(id, part),
    )
    return point
  }

  /** Returns a page. If a node that is behind may lack its first points, the nodes are asked again. */
  async list(query: ListQuery, call: ReadCall = {}): Promise<ListPage> {
    let { position } = this.#options
    for (let attempt = 1; ; attempt += 1) {
      const ask: Ask<OrderedPage> = (reads, part) => reads.list(query, part)
      const pages = await this.gatherAll('list', call, ask, position)
      const page = mergePages(pages, query)
      const isUseful = page.points.length > 0 || page.nextCursor === undefined
      if (isUseful || attempt === listsMax) return page
      position = Math.max(position, ...pages.map(({ visible }) => visible))
    }
  }

  async count(filter: Filter | undefined, signal?: AbortSignal): Promise<number> {
    const counts = await this.gatherAll('count', { signal }, (reads, part) => reads.count(filter, part))
    return counts.reduce((sum, count) => sum + count, 0)
  }

  /**
   * Asks for more and more values, until the most frequent ones are known.
   *
   * @throws DatabaseError `invalid_argument` when each node would have to name too many
   */
  async facets(query: FacetsQuery, call: ReadCall = {}): Promise<NodeFacets> {
    for (let limit = Math.max(valuesMin, 4 * query.limit); ; limit = Math.min(8 * limit, valuesMax)) {
      const nodes = await this.gatherAll('facets', call, (reads, part) =>
        reads.facets({ ...query, limit }, part),
      )
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
    const { self, node: counting, local, collection, position, statsMs = usualStatsMs } = this.#options
    const { peers, placement } = this.#options
    const asked = [...placement.nodes].map(async ([node, isLive]) => {
      if (node === self) return { node, stats: local.stats }
      const ask = { signal, timeoutMs: statsMs }
      return { node, stats: isLive ? await askStats(peers, node, collection, ask) : undefined }
    })
    const counted = countOnNodes({ ...this.#options, node: counting }, { name: collection, position }, signal)
    const [{ points, missing }, nodes] = await Promise.all([counted, Promise.all(asked)])
    return { points: points.get(collection) ?? 0, missing, nodes }
  }

  async planByFilter(request: ChangeByFilter, signal?: AbortSignal): Promise<NodePlan> {
    const everything = { kind: 'plan', partitions: PartitionSet.all(), call: { signal } }
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

  /** Asks about all partitions. @param kind of question: the same kind takes about the same time */
  async gatherAll<Answer>(
    kind: string,
    call: ReadCall,
    ask: Ask<Answer>,
    position?: number,
  ): Promise<readonly Answer[]> {
    return await this.#gather({ kind, partitions: PartitionSet.all(), call }, ask, position)
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

/** A node that counts its own points. */
export interface CountingNode {
  /** The highest position of a record of which answers may include some effects. */
  readonly visible: number
  /** The partitions that it holds completely. */
  readonly held: PartitionSet
  /** Resolves when the node is as up to date as asked for. */
  admit(read: { readonly position: number }, signal: AbortSignal): Promise<unknown>
  countLocal(...asked: Parameters<CollectionSet['pointsIn']>): ReturnType<CollectionSet['pointsIn']>
}

interface CountOptions {
  readonly self: string
  readonly node: CountingNode
  readonly peers: Peers
  readonly placement: Placement
  /** How long nodes are waited for. */
  readonly statsMs?: number | undefined
  /** Called with the highest log position that the answer of another node may include. */
  readonly onPosition: (position: number) => void
}

interface CountQuestion {
  /** The collection's own name, not an alias; undefined: all collections. */
  readonly name: string | undefined
  /** The log position that the answer must include. */
  readonly position: number
}

/**
 * Counts the points of collections, each point once, on the fewest nodes that hold all of them together. Nodes that
 * do not answer soon are left out.
 */
export async function countOnNodes(
  { self, node, peers, placement, statsMs = usualStatsMs, onPosition }: CountOptions,
  question: CountQuestion,
  signal: AbortSignal | undefined,
): Promise<PointsOnNodes & { readonly missing: number }> {
  const timeoutMs = statsMs
  const ask = async (asked: string, partitions: PartitionSet): Promise<ReadonlyMap<string, number>> => {
    if (asked === self) return await countHere(node, question.name, partitions)
    const { name: collection, position } = question
    const body = encode(CountQuestionSchema, { collection, position, partitions: partitions.bytes })
    const bytes = await peers.ask(asked, 'collectionPoints', body, { signal, timeoutMs })
    const answer = Encoded.of(CountAnswerSchema, bytes)
    onPosition(Number(answer.read().visible))
    return new Map(
      Array.from(answer.items('counts'), (item) => {
        const { collection, points } = item.read()
        return [collection, Number(points)] as const
      }),
    )
  }
  const cover = placement.cover(PartitionSet.all(), new Set())
  let missing = cover.missing.size
  const answers = await Promise.all(
    cover.parts.map(({ node: asked, partitions }) =>
      ask(asked, partitions).catch((error: unknown) => {
        if (signal?.aborted) throw cancellation(signal)
        if (!(error instanceof DatabaseError)) throw error
        missing += partitions.size
        return new Map<string, number>()
      }),
    ),
  )
  const points = new Map<string, number>()
  for (const [name, count] of answers.flatMap((each) => [...each])) {
    points.set(name, (points.get(name) ?? 0) + count)
  }
  return { points, missing }
}

/** Answers other nodes. */
export function collectionPointsHandler(node: CountingNode): PeerHandler {
  return async (body, { signal }) => {
    const { collection: name, position, partitions } = Encoded.of(CountQuestionSchema, body).read()
    await node.admit({ position: Number(position) }, signal)
    const points = await countHere(node, name, new PartitionSet(partitions))
    const counts = Array.from(points, ([collection, count]) => ({ collection, points: count }))
    return encode(CountAnswerSchema, { visible: node.visible, counts })
  }
}

/** @throws DatabaseError `not_ready` where the node does not hold all of the partitions */
async function countHere(
  node: CountingNode,
  name: string | undefined,
  partitions: PartitionSet,
): Promise<ReadonlyMap<string, number>> {
  checkHolds(node.held, partitions)
  const counts = await node.countLocal(partitions, name)
  // A partition can have been dropped meanwhile.
  checkHolds(node.held, partitions)
  return counts
}
