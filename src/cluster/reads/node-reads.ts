import { DatabaseError } from '../../base/errors.ts'
import type { Filter } from '../../base/filter.ts'
import type { PartitionSet } from '../../base/partitions.ts'
import type { Point, Profile, SearchQuery, VectorQuery, WordCounts } from '../../base/point.ts'
import type { CollectionWords } from '../../collections/collection-words.ts'
import { within } from '../../collections/reads.ts'
import type { ChangeByFilter, Database, ListQuery, ReadCall } from '../../points/database.ts'
import type { PinnedPages } from '../../search/pinned-pages.ts'
import type { NodeLegs } from '../../search/word-search.ts'
import type { NodeFacets, NodePlan, NodeResults, OrderedPage } from './merged-answers.ts'
import { checkHolds } from './placement.ts'

/** What answering reads needs from the node. */
export interface ReadingNode {
  /** All log records up to here are applied. */
  readonly position: number
  /** The highest position of a record of which answers may include some effects. */
  readonly visible: number
  /** The partitions that it holds completely. */
  readonly held: PartitionSet
  /** Advances the cluster's clock because a point is due, unless that takes long. */
  tick(): Promise<void>
}

/** A collection of a node. */
export interface ReadCollection
  extends Pick<Database, 'search' | 'get' | 'list' | 'count' | 'facets' | 'stats'> {
  readonly isDueSoon: boolean
  readonly replica: { numberAfter(position: number): number }
  expiryOf(id: string): number | undefined
  planByFilter(request: ChangeByFilter): Promise<NodePlan>
  wordCounts(
    terms: readonly string[],
    partitions: PartitionSet,
    filter: Filter | undefined,
  ): Promise<WordCounts>
  wordLegs(query: SearchQuery, without: string | undefined, signal?: AbortSignal): Promise<NodeLegs>
  readonly pages: PinnedPages
  readonly livePoints: {
    readonly words: Pick<CollectionWords, 'index' | 'ready' | 'wanted' | 'highlighter' | 'searched'>
  }
}

/** How often these terms occur. */
export interface TermsAsked {
  readonly terms: readonly string[]
  /** That the counted points have to match. */
  readonly filter: Filter | undefined
  /** The words that the collection declares, as JSON. */
  readonly declared: string
}

export interface LegsAsked extends Pick<TermsAsked, 'declared'> {
  /** With the statistics of all nodes, and the size of each leg as its limit. */
  readonly query: VectorQuery
  /** The point that the vector is of. */
  readonly without: string | undefined
}

export type FacetsQuery = Parameters<Database['facets']>[0]

/**
 * Answers reads on one node for some partitions of a collection. A search covers all points that the node holds,
 * since they form one graph; points that several nodes return are merged. All other reads cover only the given
 * partitions.
 */
export class NodeReads {
  readonly #node: ReadingNode
  readonly #collection: ReadCollection
  readonly #partitions: PartitionSet

  /** @throws DatabaseError `not_ready` when the node does not hold all of the partitions */
  constructor(node: ReadingNode, collection: ReadCollection, partitions: PartitionSet) {
    this.#node = node
    this.#collection = collection
    this.#partitions = partitions
    this.#checkHeld()
  }

  /** @param queries with their vectors */
  async search(queries: readonly SearchQuery[], call: ReadCall): Promise<NodeResults> {
    await this.#moveClock()
    const before = this.#node.position
    const results = await this.#collection.search(queries, call)
    this.#checkHeld()
    const after = this.#node.visible
    const profiles = await this.#profiles(queries, results.profiles, call.signal)
    return { found: { ...results, profiles }, before, after }
  }

  /** Restricts the counts of profiles to the given partitions: nodes have points in common. */
  async #profiles(
    queries: readonly SearchQuery[],
    profiles: readonly (Profile | undefined)[],
    signal: AbortSignal | undefined,
  ): Promise<readonly (Profile | undefined)[]> {
    if (this.#partitions.isAll || !profiles.some((each) => each !== undefined)) return profiles
    const count = async (filter?: Filter): Promise<number> =>
      await this.#collection.count(this.#within(filter), signal)
    const counted = profiles.map(
      async (profile, at) =>
        profile && { ...profile, points: await count(), matching: await count(queries[at]!.filter) },
    )
    return await Promise.all(counted)
  }

  async get(id: string, call: ReadCall): Promise<Point | undefined> {
    await this.#moveClock()
    return this.#whole(await this.#collection.get(id, call))
  }

  async list(query: ListQuery, call: ReadCall): Promise<OrderedPage> {
    await this.#moveClock()
    const knownBelow = this.#collection.replica.numberAfter(this.#node.position)
    const page = await this.#collection.list(
      { ...query, filter: this.#within(query.filter), ordered: true },
      call,
    )
    this.#checkHeld()
    return { ...page, orders: page.orders!, knownBelow, visible: this.#node.visible }
  }

  async count(filter: Filter | undefined, { signal }: ReadCall): Promise<number> {
    await this.#moveClock()
    return this.#whole(await this.#collection.count(this.#within(filter), signal))
  }

  async facets(query: FacetsQuery, call: ReadCall): Promise<NodeFacets> {
    await this.#moveClock()
    return this.#whole(await this.#collection.facets({ ...query, filter: this.#within(query.filter) }, call))
  }

  /** Finds the points of a change by filter; the change itself keeps its own filter. */
  async plan(request: ChangeByFilter): Promise<NodePlan> {
    await this.#moveClock()
    return this.#whole(
      await this.#collection.planByFilter({
        ...request,
        filter: this.#within(request.filter) ?? request.filter,
      }),
    )
  }

  /** Counts the words of the given partitions. */
  async wordCounts({ terms, filter, declared }: TermsAsked, _call: ReadCall): Promise<WordCounts> {
    await this.#checkWords(declared)
    return this.#whole(await this.#collection.wordCounts(terms, this.#partitions, filter))
  }

  /** Searches all points that the node holds, as `search` does. */
  async wordLegs({ query, without, declared }: LegsAsked, { signal }: ReadCall): Promise<NodeLegs> {
    await this.#checkWords(declared)
    const legs = this.#whole(await this.#collection.wordLegs(query, without, signal))
    const [profile] = await this.#profiles([query], [legs.profile], signal)
    return { ...legs, profile }
  }

  async #checkWords(declared: string): Promise<void> {
    await this.#moveClock()
    const { words } = this.#collection.livePoints
    await words.ready()
    checkDeclared(words.index().settings, declared)
  }

  /** Returns an answer, unless a partition was dropped while it was made. */
  #whole<Answer>(answer: Answer): Answer {
    this.#checkHeld()
    return answer
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

  async #moveClock(): Promise<void> {
    if (this.#collection.isDueSoon) await this.#node.tick()
  }
}

/** @throws DatabaseError `not_ready` if the words of this node are not those of the asking one */
function checkDeclared(here: unknown, declared: string): void {
  if (JSON.stringify(here) === declared) return
  throw new DatabaseError(
    'not_ready',
    'the nodes are indexing words that were declared anew: try again when all have done so',
  )
}
