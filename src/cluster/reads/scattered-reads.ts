import { wordsText } from '../../base/collection.ts'
import { DatabaseError } from '../../base/errors.ts'
import type { Filter } from '../../base/filter.ts'
import { joinResults, type SearchResults } from '../../base/id-lists.ts'
import { matchesKeyFilter } from '../../base/key-filter.ts'
import { PartitionSet, partitionOf } from '../../base/partitions.ts'
import { fromBytes, toBytes } from '../../base/plain-values.ts'
import {
  detailBytes,
  type HitDetails,
  type Point,
  type Profile,
  type SearchQuery,
  type VectorQuery,
  valueBytes,
  type WordCounts,
} from '../../base/point.ts'
import { inTurns } from '../../base/turns.ts'
import type { Collection } from '../../collections/collection.ts'
import { within } from '../../collections/reads.ts'
import type { ChangeByFilter, Database, ListPage, ListQuery, ReadCall } from '../../points/database.ts'
import type { NodeLegs } from '../../search/word-search.ts'
import { changesPerRecord } from '../../write/requests.ts'
import type { ClusterNode } from '../cluster-node.ts'
import { decodeQuestion, encodeQuestion, type PeerHandler, type PeerOperation } from '../requests.ts'
import {
  mergeFacets,
  mergePages,
  mergePlans,
  mergeResults,
  type NodeFacets,
  type NodePlan,
  type OrderedPage,
} from './merged-answers.ts'
import { type CoverPart, checkHolds } from './placement.ts'
import { type AskingNode, isRetryable } from './scatter.ts'
import { ScatteredWords } from './scattered-words.ts'

interface ScatteredReadsOptions extends AskingNode {
  /** The name of the collection, or an alias. */
  readonly collection: string
  /** The collection on this node. */
  readonly local: Collection
  /** The log position that every answer must include. */
  readonly position: number
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
    const nodes = await this.gather('search', await this.withVectors(queries, call), call)
    const merged = queries.map(({ limit, vector }) => ({
      limit,
      without: typeof vector === 'string' ? vector : undefined,
    }))
    return await mergeResults(merged, nodes)
  }

  async get(id: string, call: ReadCall = {}): Promise<Point | undefined> {
    const partitions = PartitionSet.of([partitionOf(id)])
    const [point] = await this.gather('get', id, call, { partitions })
    return point
  }

  /** Returns a page. If a node that is behind may lack its first points, the nodes are asked again. */
  async list(query: ListQuery, call: ReadCall = {}): Promise<ListPage> {
    let { position } = this.#options
    for (let attempt = 1; ; attempt += 1) {
      const pages = await this.gather('list', query, call, { position })
      const page = await mergePages(pages, query)
      const isUseful = page.points.length > 0 || page.nextCursor === undefined
      if (isUseful || attempt === listsMax) return page
      position = Math.max(position, ...pages.map(({ visible }) => visible))
    }
  }

  async count(filter: Filter | undefined, signal?: AbortSignal): Promise<number> {
    const counts = await this.gather('count', filter, { signal })
    return counts.reduce((sum, count) => sum + count, 0)
  }

  /**
   * Asks for more and more values, until the most frequent ones are known.
   *
   * @throws DatabaseError `invalid_argument` when each node would have to name too many
   */
  async facets(query: Parameters<Database['facets']>[0], call: ReadCall = {}): Promise<NodeFacets> {
    for (let limit = Math.max(valuesMin, 4 * query.limit); ; limit = Math.min(8 * limit, valuesMax)) {
      const nodes = await this.gather('facets', { ...query, limit }, call)
      const merged = await mergeFacets(nodes, query.paths, query.limit, limit)
      if (merged !== undefined) return merged
      if (limit === valuesMax) throw tooManyValues(query.paths)
    }
  }

  async planByFilter(request: ChangeByFilter, signal?: AbortSignal): Promise<NodePlan> {
    const plans = await this.gather('plan', request, { signal })
    return await mergePlans(plans, Math.min(request.limit ?? changesPerRecord, changesPerRecord))
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

  /**
   * Asks nodes that have some partitions together.
   *
   * @param partitions absent: all
   * @param position the log position that every answer must include
   */
  async gather<Kind extends ReadKind>(
    kind: Kind,
    query: ReadQuery<Kind>,
    { signal, room }: ReadCall,
    {
      partitions = PartitionSet.all(),
      position = this.#options.position,
    }: { readonly partitions?: PartitionSet; readonly position?: number } = {},
  ): Promise<readonly ReadAnswer<Kind>[]> {
    const { self, node, local, peers, scatter, collection, onPosition } = this.#options
    const ofPeers = new Set<unknown>()
    const ask = async (part: CoverPart, stop: AbortSignal): Promise<ReadAnswer<Kind>> => {
      const call = { signal: stop, room }
      const { partitions } = part
      if (part.node === self) {
        // This node has reached the caller's position, but perhaps not a later one.
        if (position > this.#options.position) await node.admit({ position }, stop)
        return await new NodeReads(node, local, partitions).answer(kind, query, call)
      }
      try {
        const question: ReadQuestion<Kind> = { collection, position, partitions: partitions.bytes, query }
        const bytes = await peers.ask(part.node, kind, await encodeQuestion(question), call)
        room?.add(bytes.length)
        const count = (element: HitDetails): void => room?.add(detailBytes(element))
        const { visible, answer } = (await inTurns(fromBytes(bytes, count))) as NodeAnswer<Kind>
        onPosition(visible)
        return answer
      } catch (error) {
        ofPeers.add(error)
        throw error
      }
    }
    try {
      return await scatter.gather({ partitions, signal, ask })
    } catch (error) {
      // A refusal does not say its position, and the other node may be ahead: it may have dropped the collection.
      // Later answers have to include that.
      const isRefusal = ofPeers.has(error) && !isRetryable(error)
      if (isRefusal && !signal?.aborted) await node.latest(signal)
      throw error
    }
  }
}

/** A read that a node asks another one for. */
interface ReadQuestion<Kind extends ReadKind> {
  /** The name of the collection, or an alias. */
  readonly collection: string
  /** The log position that the answer must include. */
  readonly position: number
  /** The partitions that the node answers for. */
  readonly partitions: Uint8Array
  readonly query: ReadQuery<Kind>
}

interface NodeAnswer<Kind extends ReadKind> {
  /** The highest log position of which the answer may include some effects. */
  readonly visible: number
  readonly answer: ReadAnswer<Kind>
}

/** Answers the questions of other nodes. */
export function readHandlers(node: ClusterNode): [PeerOperation, PeerHandler][] {
  const handlerOf =
    <Kind extends ReadKind>(kind: Kind): PeerHandler =>
    async (body, call) => {
      const { collection, position, partitions, query } = await decodeQuestion<ReadQuestion<Kind>>(body)
      await node.admit({ position }, call.signal)
      using lease = await node.set.lease(collection)
      const reads = new NodeReads(node, lease.database, new PartitionSet(partitions))
      const answer = await reads.answer(kind, query, call)
      const bytes = await inTurns(toBytes({ visible: node.visible, answer } satisfies NodeAnswer<Kind>))
      call.room?.add(bytes.length)
      return bytes
    }
  return readKinds.map((kind) => [kind, handlerOf(kind)])
}

const valuesMin = 100
/** The most values of a path that a node names. Sorting them takes some milliseconds. */
const valuesMax = 8_192
/** How often the same page is asked for: a second time suffices, unless its points are removed meanwhile. */
const listsMax = 3

/** What nodes ask each other about some partitions of a collection: methods of `NodeReads`. */
const readKinds = ['search', 'get', 'list', 'count', 'facets', 'plan', 'words', 'legs'] as const

type ReadKind = (typeof readKinds)[number]

type ReadQuery<Kind extends ReadKind> = Parameters<NodeReads[Kind]>[0]

export type ReadAnswer<Kind extends ReadKind> = Awaited<ReturnType<NodeReads[Kind]>>

/** How often these terms occur. */
interface TermsAsked {
  readonly terms: readonly string[]
  /** That the counted points have to match. */
  readonly filter: Filter | undefined
  /** The words that the collection declares, as JSON. */
  readonly declared: string
}

/** What the legs of a search by words find. */
interface LegsAsked extends Pick<TermsAsked, 'declared'> {
  /** With the statistics of all nodes, and the size of each leg as its limit. */
  readonly query: VectorQuery
  /** The point that the vector is of. */
  readonly without: string | undefined
}

/**
 * Answers reads on one node for some partitions of a collection. A search covers all points that the node holds,
 * since they form one graph; points that several nodes return are merged. All other reads cover only the given
 * partitions.
 */
class NodeReads {
  readonly #node: ClusterNode
  readonly #collection: Collection
  readonly #partitions: PartitionSet

  /** @throws DatabaseError `not_ready` when the node does not hold all of the partitions */
  constructor(node: ClusterNode, collection: Collection, partitions: PartitionSet) {
    this.#node = node
    this.#collection = collection
    this.#partitions = partitions
    this.#checkHeld()
  }

  async answer<Kind extends ReadKind>(
    kind: Kind,
    query: ReadQuery<Kind>,
    call: ReadCall,
  ): Promise<ReadAnswer<Kind>> {
    if (this.#collection.isDueSoon) await this.#node.tick()
    const read = this[kind] as (query: unknown, call: ReadCall) => Promise<ReadAnswer<Kind>>
    const answer = await read.call(this, query, call).catch((error: unknown) => {
      this.#node.noteDamage(error)
      throw error
    })
    // A partition can have been dropped while the answer was made.
    this.#checkHeld()
    return answer
  }

  async search(queries: readonly VectorQuery[], call: ReadCall): Promise<SearchResults> {
    const results = await this.#collection.search(queries, call)
    return { ...results, profiles: await this.#profiles(queries, results.profiles, call.signal) }
  }

  /** Restricts the counts of profiles to the given partitions: nodes have points in common. */
  async #profiles(
    queries: readonly SearchQuery[],
    profiles: readonly (Profile | undefined)[],
    signal: AbortSignal | undefined,
  ): Promise<readonly (Profile | undefined)[]> {
    if (this.#partitions.isAll || !profiles.some((each) => each !== undefined)) return profiles
    const count = async (filter?: Filter): Promise<number> => await this.count(filter, { signal })
    const counted = profiles.map(
      async (profile, at) =>
        profile && { ...profile, points: await count(), matching: await count(queries[at]!.filter) },
    )
    return await Promise.all(counted)
  }

  async get(id: string, call: ReadCall): Promise<Point | undefined> {
    return await this.#collection.get(id, call)
  }

  async list(query: ListQuery, call: ReadCall): Promise<OrderedPage> {
    const knownBelow = this.#collection.replica.numberAfter(this.#node.position)
    const asked = { ...query, filter: this.#within(query.filter), ordered: true }
    const page = await this.#collection.list(asked, call)
    return { ...page, orders: page.orders!, knownBelow, visible: this.#node.visible }
  }

  async count(filter: Filter | undefined, { signal }: ReadCall): Promise<number> {
    return await this.#collection.count(this.#within(filter), signal)
  }

  /** @throws DatabaseError `invalid_argument` for more bytes than a message between nodes may have */
  async facets(query: Parameters<Database['facets']>[0], call: ReadCall): Promise<NodeFacets> {
    const facets = await this.#collection.facets({ ...query, filter: this.#within(query.filter) }, call)
    let bytes = 0
    for (const { value } of [...facets.values()].flat()) bytes += valueBytes(value)
    if (bytes > facetsBytesMax) throw tooManyValues(query.paths)
    return facets
  }

  /** Finds the points of a change by filter; the change itself keeps its own filter. */
  async plan(request: ChangeByFilter): Promise<NodePlan> {
    const filter = this.#within(request.filter) ?? request.filter
    return await this.#collection.planByFilter({ ...request, filter })
  }

  /** Counts the words of the given partitions. */
  async words({ terms, filter, declared }: TermsAsked, { signal }: ReadCall): Promise<WordCounts> {
    await this.#checkDeclared(declared)
    return await this.#collection.wordCounts(terms, this.#partitions, filter, signal)
  }

  /** Searches all points that the node holds, as `search` does. */
  async legs({ query, without, declared }: LegsAsked, { signal }: ReadCall): Promise<NodeLegs> {
    await this.#checkDeclared(declared)
    const legs = await this.#collection.wordLegs(query, without, signal)
    const [profile] = await this.#profiles([query], [legs.profile], signal)
    return { ...legs, profile }
  }

  /** @throws DatabaseError `not_ready` if the words of this node are not those of the asking one */
  async #checkDeclared(declared: string): Promise<void> {
    const { words } = this.#collection.livePoints
    await words.ready()
    if (wordsText(words.index().settings) === declared) return
    throw new DatabaseError(
      'not_ready',
      'the nodes are indexing words that were declared anew: try again when all have done so',
    )
  }

  /** @throws DatabaseError `not_ready` */
  #checkHeld(): void {
    checkHolds(this.#node.held, this.#partitions)
  }

  /**
   * Restricts a filter to the given partitions. The node can have points of other partitions, even of some that it
   * does not hold: they are still being copied, or not removed yet.
   */
  #within(filter: Filter | undefined): Filter | undefined {
    return this.#partitions.isAll ? filter : within(this.#partitions, filter)
  }
}

/** The error when nodes would have to tell each other too much to rank the values of paths. */
function tooManyValues(paths: readonly string[]): DatabaseError {
  return new DatabaseError(
    'invalid_argument',
    `paths: ${paths.join(', ')} has too many different values of about the same frequency for a cluster whose nodes have a part of the points each: select fewer points with a filter`,
  )
}

/** Texts count twice: at most a quarter of the largest message between nodes. */
const facetsBytesMax = 16 * 1024 * 1024
