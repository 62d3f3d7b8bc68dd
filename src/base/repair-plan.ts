import { PartitionSet, partitionCount } from './partitions.ts'

/**
 * How a cluster whose nodes have a part of the points each goes on when its log is lost. Each node says what it holds; for every
 * partition the furthest of those that hold it count, and the others fetch it from these:
 *
 *               partition 7    partition 8    partition 9
 *   node a      ≤ 900          ≤ 900                         7 is the same on both, and both keep it;
 *   node b      ≤ 900                         ≤ 898          8 is further on c: a fetches it from there
 *   node c                     ≤ 905          ≤ 905          and so does b with 9
 *
 * What is compared is not positions, but the points: a node that is behind with other partitions need not be with this one. The
 * names are those of the JSON.
 */

/** What a node holds: `GET /cluster/repair`. */
export interface HeldPart {
  readonly node: string
  readonly zone: string
  readonly address: string
  /** Of its directory. */
  readonly database_id: string
  /** Names the log that it has applied. */
  readonly log: string
  /** Up to here it has applied all of the log, as far as it knows. */
  readonly position: number
  /** Of the last record that any of its collections has applied. */
  readonly reach: number
  /** The partitions that it has: 32 bytes, base64. */
  readonly held: string
  /** As it knew it last; absent where all nodes have all points, or the node has not read it since its start. */
  readonly topology?: HeldTopology
  /** By name. */
  readonly collections: Readonly<Record<string, HeldCollection>>
}

export interface HeldTopology {
  readonly generation: number
  readonly ring: HeldRing
}

/** As ring.ts of the cluster has it. */
export interface HeldRing {
  readonly replicas: number
  readonly nodes: readonly string[]
  readonly firsts: readonly number[]
}

export interface HeldCollection {
  /** Of the last record of the log that it has applied. */
  readonly position: number
  /** By partition, a digest of its points: all of the same length, base64. */
  readonly digest: string
  /** A hash of the last keyed request that it knows; null where there is none. */
  readonly last_key: string | null
}

/** What the nodes do: the body of `POST /cluster/repair`. */
export interface RepairPlan {
  /** The node that the new log begins with: it has applied the most of the former one. */
  readonly leader: string
  /** No node has given out a position beyond it. */
  readonly position: number
  readonly nodes: Readonly<Record<string, PlannedNode>>
  /** Of the topology that the nodes know; 0 where none does. */
  readonly generation: number
  /** Absent where no node knows it. */
  readonly ring?: HeldRing
  /** Nodes that should have each point where there is no ring. */
  readonly replicas: number
  /** Copies of partitions that are behind others, and are fetched anew. */
  readonly behind: number
  /** Partitions of which two nodes have something each that the other lacks: the one further in the log counts. */
  readonly divided: readonly number[]
}

export interface PlannedNode {
  readonly zone: string
  readonly address: string
  readonly database_id: string
  /** The partitions that it has as far as any node, base64. */
  readonly keeps: string
  /** By collection, the last keyed request that it knows. */
  readonly last_keys: Readonly<Record<string, string | null>>
}

/** Whether nodes have a part of the points each, as far as these know. */
export function isInParts(parts: readonly HeldPart[]): boolean {
  return parts.some(({ topology, held }) => topology !== undefined || !partitionsIn(held).isAll)
}

/** @returns the plan, and the partitions that none of the nodes has: with any, it cannot be carried out */
export function repairPlanOf(
  parts: readonly HeldPart[],
  from?: string,
): { readonly plan: RepairPlan; readonly missing: readonly number[] } {
  const sorted = parts.toSorted((a, b) => b.position - a.position || b.reach - a.reach)
  const leader = sorted.find(({ node }) => node === from) ?? sorted[0]!
  // One that has applied an earlier log holds nothing that the others have not.
  const nodes = sorted.filter(({ log }) => log === leader.log).map((part) => new Holder(part))
  const keeps = new Map(nodes.map(({ part }) => [part.node, new PartitionSet()]))
  const [missing, divided]: [number[], number[]] = [[], []]
  let behind = 0
  for (let partition = 0; partition < partitionCount; partition += 1) {
    const holders = nodes.filter(({ held }) => held.has(partition))
    const furthest = furthestOf(holders, partition, Object.keys(leader.collections))
    if (holders.length === 0) missing.push(partition)
    else if (furthest.length === 0) divided.push(partition)
    const keepers = furthest.length === 0 ? holders.slice(0, 1) : furthest
    for (const { part } of keepers) keeps.get(part.node)!.add(partition)
    behind += holders.length - keepers.length
  }
  const planned = nodes.map(({ part }) => [part.node, plannedOf(part, keeps.get(part.node)!)] as const)
  const known = nodes
    .flatMap(({ part: { topology } }) => topology ?? [])
    .toSorted((a, b) => b.generation - a.generation)[0]
  const plan = {
    leader: leader.node,
    position: Math.max(...parts.map(({ position, reach }) => Math.max(position, reach))),
    nodes: Object.fromEntries(planned),
    generation: known?.generation ?? 0,
    ...(known && { ring: known.ring }),
    replicas: mostHolders(nodes),
    ...{ behind, divided },
  }
  return { plan, missing }
}

/** 32 bytes in base64. */
export function partitionsIn(base64: string): PartitionSet {
  return new PartitionSet(new Uint8Array(Buffer.from(base64, 'base64')))
}

/** A node, with what it says in bytes. */
class Holder {
  readonly part: HeldPart
  readonly held: PartitionSet
  readonly #digests: ReadonlyMap<string, Buffer>

  constructor(part: HeldPart) {
    this.part = part
    this.held = partitionsIn(part.held)
    this.#digests = new Map(
      Object.entries(part.collections).map(([name, { digest }]) => [name, Buffer.from(digest, 'base64')]),
    )
  }

  /** How far it has applied a collection; -1 where it has none of that name. */
  positionIn(collection: string): number {
    return this.part.collections[collection]?.position ?? -1
  }

  digestOf(collection: string, partition: number): Buffer {
    const digest = this.#digests.get(collection)
    if (digest === undefined) return noDigest
    const bytes = digest.length / partitionCount
    const own = digest.subarray(partition * bytes, (partition + 1) * bytes)
    // As one that has no such collection, and no points in it.
    return own.every((byte) => byte === 0) ? noDigest : own
  }
}

/** Those whose points of a partition are the furthest in every collection: of the same log, the one after more of it has all. */
function furthestOf(
  holders: readonly Holder[],
  partition: number,
  collections: readonly string[],
): readonly Holder[] {
  let furthest = holders
  for (const collection of collections) {
    const [best] = holders.toSorted((a, b) => b.positionIn(collection) - a.positionIn(collection))
    if (best === undefined) return []
    const digest = best.digestOf(collection, partition)
    furthest = furthest.filter((each) => each.digestOf(collection, partition).equals(digest))
  }
  return furthest
}

function plannedOf({ zone, address, database_id, collections }: HeldPart, keeps: PartitionSet): PlannedNode {
  const lastKeys = Object.entries(collections).map(([name, { last_key }]) => [name, last_key] as const)
  return {
    ...{ zone, address, database_id, keeps: Buffer.from(keeps.bytes).toString('base64') },
    last_keys: Object.fromEntries(lastKeys),
  }
}

function mostHolders(nodes: readonly Holder[]): number {
  const counts = Array.from(
    { length: partitionCount },
    (_, partition) => nodes.filter(({ held }) => held.has(partition)).length,
  )
  return Math.max(1, ...counts)
}

const noDigest = Buffer.alloc(0)
