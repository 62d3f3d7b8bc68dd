import { partitionCount } from '../../base/partitions.ts'

/** What the place of a node in the ring depends on. */
export interface RingNode {
  readonly name: string
  /** Nodes of one zone can fail together. */
  readonly zone: string
}

/**
 * Which nodes should own which partitions. Nodes form a ring, and a partition belongs to a node and to the nodes that
 * follow it:
 *
 *   ring:      a ── b ── c ── d ── e ── f ── (a)
 *   2 owners:  a    b    c    d    e    f      the first owner of a partition
 *              b    c    d    e    f    a      and the second
 *
 * So every `replicas`-th node of the ring is enough to have all partitions, and a search asks few nodes. Zones
 * alternate along the ring, so that the owners of a partition do not fail together.
 */
export interface Ring {
  /** Owners of a partition; fewer while there are fewer nodes. */
  readonly replicas: number
  /** Names, in the order of the ring. */
  readonly nodes: readonly string[]
  /** By partition, the index of its first owner in `nodes`. */
  readonly firsts: readonly number[]
}

/**
 * Makes the ring of these nodes. The same input always makes the same ring.
 *
 * @param before the ring so far: nodes keep their order, unless a new one needs another for its zone. Each partition
 *   keeps its first owner, as far as the balance between the nodes allows. So a node that joins or leaves otherwise moves
 *   less than twice what it should own, or owned
 */
export function ringOf(members: readonly RingNode[], replicas: number, before?: Ring): Ring {
  const zones = zonesOf(members)
  const added = [...zones.keys()].filter((name) => !before?.nodes.includes(name)).sort(compare)
  const order = [...(before?.nodes.filter((name) => zones.has(name)) ?? []), ...added]
  // Not when nodes only leave: one that fails should not make the others move what they have.
  const isNew = added.length > 0 || before?.replicas !== replicas
  const nodes = isNew ? withZonesApart(order, members, replicas) : order
  const stay = new Map(nodes.map((name, index) => [name, index]))
  const firsts = Array.from({ length: partitionCount }, (_, partition) => {
    if (nodes.length === 0) return 0
    if (before === undefined) return Math.floor((partition * nodes.length) / partitionCount)
    return firstThatStays(before, before.firsts[partition]!, stay)
  })
  return { replicas, nodes, firsts: balanced(firsts, nodes.length) }
}

/** By partition, the nodes that should own it. */
export function ownersIn({ replicas, nodes, firsts }: Ring): readonly (readonly string[])[] {
  const count = Math.min(replicas, nodes.length)
  const arcs = nodes.map((_, first) =>
    Array.from({ length: count }, (_, behind) => nodes[(first + behind) % nodes.length]!),
  )
  return firsts.map((first) => arcs[first] ?? [])
}

/** Spreads the nodes of each zone evenly along the ring. */
function interleaved(members: readonly RingNode[]): readonly string[] {
  const zones = Map.groupBy(
    members.toSorted((one, other) => compare(one.name, other.name)),
    ({ zone }) => zone,
  )
  const placed = [...zones].flatMap(([zone, nodes]) =>
    nodes.map(({ name }, index) => ({ name, zone, at: (index + 0.5) / nodes.length })),
  )
  placed.sort((one, other) => one.at - other.at || compare(one.zone, other.zone))
  return placed.map(({ name }) => name)
}

/**
 * Gives one node after the other a better place, the last one first, which is new; or all nodes, where that is not enough,
 * such as after all nodes of one zone have joined, and then those of the next.
 */
function withZonesApart(
  nodes: readonly string[],
  members: readonly RingNode[],
  replicas: number,
): readonly string[] {
  const zones = zonesOf(members)
  if (sharedZones(nodes, zones, replicas) === 0) return nodes
  const moved = nodes.toReversed().flatMap((name) => {
    const others = nodes.filter((each) => each !== name)
    return nodes.map((_, behind) => others.toSpliced(others.length - behind, 0, name))
  })
  const choices = [nodes, ...moved, interleaved(members)]
  const costs = choices.map((each) => sharedZones(each, zones, replicas))
  const best = choices[costs.indexOf(Math.min(...costs))]!
  return best === nodes ? nodes : withZonesApart(best, members, replicas)
}

function zonesOf(members: readonly RingNode[]): ReadonlyMap<string, string> {
  return new Map(members.map(({ name, zone }) => [name, zone]))
}

/** Counts the owners that share their zone with another owner of the same partitions. */
function sharedZones(nodes: readonly string[], zones: ReadonlyMap<string, string>, replicas: number): number {
  const count = Math.min(replicas, nodes.length)
  let shared = 0
  for (let first = 0; first < nodes.length; first += 1) {
    const seen = new Set<string>()
    for (let behind = 0; behind < count; behind += 1) {
      seen.add(zones.get(nodes[(first + behind) % nodes.length]!)!)
    }
    shared += count - seen.size
  }
  return shared
}

/** The first node from an index on that is still in the ring: it inherits the partitions of the former owner. */
function firstThatStays({ nodes }: Ring, from: number, stay: ReadonlyMap<string, number>): number {
  for (let behind = 0; behind < nodes.length; behind += 1) {
    const index = stay.get(nodes[(from + behind) % nodes.length]!)
    if (index !== undefined) return index
  }
  return 0
}

/**
 * Moves partitions from the nodes that are first owners of most to those of fewest, until they differ by at most one.
 */
function balanced(firsts: readonly number[], nodes: number): readonly number[] {
  if (nodes === 0) return firsts
  const result = [...firsts]
  const counts = new Array<number>(nodes).fill(0)
  for (const first of result) counts[first]! += 1
  for (;;) {
    const fullest = counts.indexOf(Math.max(...counts))
    const emptiest = counts.indexOf(Math.min(...counts))
    if (counts[fullest]! - counts[emptiest]! <= 1) return result
    result[result.lastIndexOf(fullest)] = emptiest
    counts[fullest]! -= 1
    counts[emptiest]! += 1
  }
}

/** By code units, so that it does not depend on a locale. */
function compare(one: string, other: string): number {
  if (one === other) return 0
  return one < other ? -1 : 1
}
