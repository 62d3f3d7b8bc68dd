import { wordsText } from '../../base/collection.ts'
import { DatabaseError } from '../../base/errors.ts'
import type { Filter } from '../../base/filter.ts'
import type { SearchResults } from '../../base/id-lists.ts'
import type { PartitionSet } from '../../base/partitions.ts'
import {
  type Point,
  type Profile,
  type SearchQuery,
  type VectorQuery,
  valueBytes,
  type WordCounts,
} from '../../base/point.ts'
import type { Collection } from '../../collections/collection.ts'
import { within } from '../../collections/reads.ts'
import type { ChangeByFilter, Database, ListQuery, ReadCall } from '../../points/database.ts'
import type { NodeLegs } from '../../search/word-search.ts'
import type { ClusterNode } from '../cluster-node.ts'
import type { NodeFacets, NodePlan, OrderedPage } from './merged-answers.ts'
import { checkHolds } from './placement.ts'

/** What nodes ask each other about some partitions of a collection: methods of `NodeReads`. */
export const readKinds = ['search', 'get', 'list', 'count', 'facets', 'plan', 'words', 'legs'] as const

export type ReadKind = (typeof readKinds)[number]

export type ReadQuery<Kind extends ReadKind> = Parameters<NodeReads[Kind]>[0]

export type ReadAnswer<Kind extends ReadKind> = Awaited<ReturnType<NodeReads[Kind]>>

/** How often these terms occur. */
export interface TermsAsked {
  readonly terms: readonly string[]
  /** That the counted points have to match. */
  readonly filter: Filter | undefined
  /** The words that the collection declares, as JSON. */
  readonly declared: string
}

/** What the legs of a search by words find. */
export interface LegsAsked extends Pick<TermsAsked, 'declared'> {
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
export class NodeReads {
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
  async words({ terms, filter, declared }: TermsAsked): Promise<WordCounts> {
    await this.#checkDeclared(declared)
    return await this.#collection.wordCounts(terms, this.#partitions, filter)
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
export function tooManyValues(paths: readonly string[]): DatabaseError {
  return new DatabaseError(
    'invalid_argument',
    `paths: ${paths.join(', ')} has too many different values of about the same frequency for a cluster whose nodes have a part of the points each: select fewer points with a filter`,
  )
}

/** Texts count twice: at most a quarter of the largest message between nodes. */
const facetsBytesMax = 16 * 1024 * 1024
