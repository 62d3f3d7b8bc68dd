import { IdLists } from '../base/id-lists.ts'
import { idBytes, idToBytes } from '../base/ids.ts'
import type { Metric } from '../base/point.ts'
import type { HitDetails, Profile, SearchResults } from '../base/search-results.ts'
import { Turn } from '../base/turns.ts'
import type { FoundByPeer } from './search-codec.ts'

/** What one node has found. */
export interface NodeResults {
  readonly found: FoundByPeer
  /** What the node had applied at the start of its search, and what was visible at its end: positions of the log. */
  readonly before: number
  readonly after: number
}

export interface MergedQuery {
  readonly metric: Metric
  readonly limit: number
  /** The point whose neighbours are searched, which is not one of its own results. */
  readonly without?: string | undefined
}

/**
 * Merges the results of several nodes: by distance, equal distances by sequence, each point once. Nodes have points
 * in common, and each has searched all points that it holds.
 *
 * At different log positions, nodes can have different vectors of one point. The nearest one counts, even if it is the
 * older one: it has kept another point out of the list of its node.
 *
 * @param inUnits converts the key of a result to the units of its metric
 */
export async function mergeResults(
  queries: readonly MergedQuery[],
  nodes: readonly NodeResults[],
  inUnits: (metric: Metric, key: number) => number,
): Promise<SearchResults> {
  const [first] = nodes
  const isOneState = nodes.every(({ before, after }) => before === first!.before && after === first!.before)
  const draft = new Draft(nodes, isOneState)
  const turn = new Turn()
  for (const [list, query] of queries.entries()) {
    draft.merge(list, query, inUnits)
    if (turn.isOver) await turn.next()
  }
  return draft.results()
}

/** The merged results so far. */
class Draft {
  readonly #found: readonly FoundByPeer[]
  readonly #isOneState: boolean
  readonly #bytes: Buffer
  readonly #distances: Float64Array
  readonly #ends: number[] = []
  readonly #details: (readonly HitDetails[] | undefined)[] = []
  #count = 0

  constructor(nodes: readonly NodeResults[], isOneState: boolean) {
    this.#found = nodes.map(({ found }) => found)
    this.#isOneState = isOneState
    const total = this.#found.reduce((sum, { ids }) => sum + ids.total, 0)
    this.#bytes = Buffer.allocUnsafe(total * idBytes)
    this.#distances = new Float64Array(total)
  }

  merge(
    list: number,
    { metric, limit, without }: MergedQuery,
    inUnits: (metric: Metric, key: number) => number,
  ): void {
    const found = this.#found
    const at = found.map(({ ids }) => ids.startOf(list))
    const own = without === undefined ? undefined : idToBytes(without)
    const seen = new Set<number | string>()
    const hasDetails = found.some(({ details }) => details[list] !== undefined)
    const details: HitDetails[] | undefined = hasDetails ? [] : undefined
    const end = this.#count + limit
    while (this.#count < end) {
      const node = this.#nearest(list, at)
      if (node === -1) break
      const { ids, ranks, details: lists } = found[node]!
      const number = at[node]!
      at[node]! += 1
      const id = ids.bytes.subarray(number * idBytes, (number + 1) * idBytes)
      // Nodes with the same vector of a point have the same sequence, which is cheaper to look up.
      const point = this.#isOneState ? ranks.sequences[number]! : textOf(id)
      if (seen.has(point)) continue
      seen.add(point)
      if (own !== undefined && Buffer.compare(own, id) === 0) continue
      this.#bytes.set(id, this.#count * idBytes)
      this.#distances[this.#count] = inUnits(metric, ranks.keys[number]!)
      details?.push(lists[list]![number - ids.startOf(list)]!)
      this.#count += 1
    }
    this.#ends.push(this.#count)
    this.#details.push(details)
  }

  results(): SearchResults {
    return {
      ids: new IdLists(this.#bytes, this.#ends),
      distances: this.#distances.subarray(0, this.#count),
      details: this.#details,
      profiles: this.#ends.map((_, list) => mergedProfile(this.#found.map(({ profiles }) => profiles[list]))),
      plans: this.#ends.map((_, list) => this.#found.map(({ plans }) => plans[list]).find(isThere)),
    }
  }

  /** The node with the next result of a list; -1 when there is none. */
  #nearest(list: number, at: readonly number[]): number {
    let best = -1
    let [bestKey, bestSequence] = [0, 0]
    for (const [node, { ids, ranks }] of this.#found.entries()) {
      const number = at[node]!
      if (number === ids.endOf(list)) continue
      const key = ranks.keys[number]!
      const sequence = ranks.sequences[number]!
      if (best !== -1 && (key > bestKey || (key === bestKey && sequence >= bestSequence))) continue
      best = node
      bestKey = key
      bestSequence = sequence
    }
    return best
  }
}

/** The work of all nodes: counts are sums, times are those of the slowest node. */
function mergedProfile(all: readonly (Profile | undefined)[]): Profile | undefined {
  const profiles = all.filter(isThere)
  const [first] = profiles
  if (first === undefined) return undefined
  const sum = (name: 'points' | 'matching' | 'compared' | 'measured'): number =>
    profiles.reduce((total, each) => total + each[name], 0)
  const most = (name: 'efMultiplier' | 'filterUs' | 'queueUs' | 'searchUs'): number =>
    Math.max(...profiles.map((each) => each[name]))
  const searched = profiles.filter(({ plan }) => plan !== 'empty')
  const reasons = new Set((searched.length === 0 ? profiles : searched).map(({ reason }) => reason))
  const recalls = searched.map(({ recallEstimate }) => recallEstimate).filter(isThere)
  return {
    plan: searched.find(({ plan }) => plan === 'graph')?.plan ?? searched[0]?.plan ?? first.plan,
    reason: `${profiles.length} nodes: ${[...reasons].join('; ')}`,
    points: sum('points'),
    matching: sum('matching'),
    compared: sum('compared'),
    measured: sum('measured'),
    ef: first.ef,
    efMultiplier: most('efMultiplier'),
    filterUs: most('filterUs'),
    queueUs: most('queueUs'),
    searchUs: most('searchUs'),
    recallEstimate: recalls.length === 0 ? undefined : Math.min(...recalls),
  }
}

function isThere<Value>(value: Value | undefined): value is Value {
  return value !== undefined
}

function textOf(id: Uint8Array): string {
  return Buffer.from(id.buffer, id.byteOffset, idBytes).toString('latin1')
}
