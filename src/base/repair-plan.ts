import { PartitionSet, partitionCount } from './partitions.ts'

/**
 * The plan by which a cluster whose nodes have a part of the points each continues after its log is lost. Each node
 * reports the partitions it holds. For every partition, the nodes with its newest points keep it, and the others fetch
 * it from them:
 *
 *               partition 7    partition 8    partition 9
 *   node a      ≤ 900          ≤ 900                         7 is the same on a and b: both keep it.
 *   node b      ≤ 900                         ≤ 898          8 is newer on c: a fetches it from c.
 *   node c                     ≤ 905          ≤ 905          9 is newer on c: b fetches it from c.
 *
 * The plan compares points, not positions: a node that is behind with other partitions need not be behind with this
 * one. The names are those of the JSON.
 */

/** The data that a node holds: the answer to `GET /cluster/repair`. */
export interface HeldPart {
  readonly node: string
  readonly zone: string
  readonly address: string
  /** Id of its data directory. */
  readonly database_id: string
  /** Name of the log that it has applied. */
  readonly log: string
  /** The position up to which, as far as it knows, it has applied all of the log. */
  readonly position: number
  /** The position of the last record that any of its collections has applied. */
  readonly reach: number
  /** The partitions that it holds: 32 bytes, base64. */
  readonly held: string
  /** The last topology that it knew; absent if all nodes have all points, or it has not read one since its start. */
  readonly topology?: HeldTopology
  /** Its collections by name. */
  readonly collections: Readonly<Record<string, HeldCollection>>
}

export interface HeldTopology {
  readonly generation: number
  readonly ring: HeldRing
}

/** The ring of src/cluster/ring.ts. */
export interface HeldRing {
  readonly replicas: number
  readonly nodes: readonly string[]
  readonly firsts: readonly number[]
}

export interface HeldCollection {
  /** The position of the last record of the log that the collection has applied. */
  readonly position: number
  /** A digest of the points of each partition, all of the same length: base64. */
  readonly digest: string
  /** A hash of the last keyed request that the collection knows; null if there is none. */
  readonly last_key: string | null
}

/** The body of `POST /cluster/repair`. */
export interface RepairPlan {
  /**
   * The node that the new log begins with: the one that has applied the most of the lost log, unless the caller chose.
   */
  readonly leader: string
  /** No node has sent a later position to a client. */
  readonly position: number
  readonly nodes: Readonly<Record<string, PlannedNode>>
  /** Generation of the newest topology that a node knows; 0 if no node knows one. */
  readonly generation: number
  /** Ring of the same topology; absent if no node knows one. */
  readonly ring?: HeldRing
  /** Number of nodes that should have each point if there is no ring. */
  readonly replicas: number
  /** Copies of partitions that are behind others and will be fetched again. */
  readonly behind: number
  /** Partitions in which two nodes each lack points of the other. The node further in the log keeps them. */
  readonly divided: readonly number[]
}

export interface PlannedNode {
  readonly zone: string
  readonly address: string
  readonly database_id: string
  /** The partitions that no node has newer: base64. */
  readonly keeps: string
  /** The last keyed request that it knows, by collection. */
  readonly last_keys: Readonly<Record<string, string | null>>
}

/** Whether nodes have a part of the points each, as far as these nodes know. */
export function isInParts(parts: readonly HeldPart[]): boolean {
  return parts.some(({ topology, held }) => topology !== undefined || !partitionsIn(held).isAll)
}

/**
 * Plans a repair.
 *
 * @param from the leader; absent: the node that has applied the most of the log
 * @returns the plan, and the partitions that no node has: unless there are none, the plan cannot be carried out
 */
export function repairPlanOf(
  parts: readonly HeldPart[],
  from?: string,
): { readonly plan: RepairPlan; readonly missing: readonly number[] } {
  const sorted = parts.toSorted((a, b) => b.position - a.position || b.reach - a.reach)
  const leader = sorted.find(({ node }) => node === from) ?? sorted[0]!
  // A node that has applied an earlier log has no points that the others lack.
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

/** Reads a set of partitions from its 32 bytes in base64. */
export function partitionsIn(base64: string): PartitionSet {
  return new PartitionSet(new Uint8Array(Buffer.from(base64, 'base64')))
}

/** A node's report with its base64 decoded. */
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

  /** The position up to which it has applied a collection; -1 if it has none of that name. */
  positionIn(collection: string): number {
    return this.part.collections[collection]?.position ?? -1
  }

  digestOf(collection: string, partition: number): Buffer {
    const digest = this.#digests.get(collection)
    if (digest === undefined) return noDigest
    const bytes = digest.length / partitionCount
    const own = digest.subarray(partition * bytes, (partition + 1) * bytes)
    // No points: the same as a node without this collection.
    return own.every((byte) => byte === 0) ? noDigest : own
  }
}

/**
 * Returns the holders that have the newest points of a partition in every collection: the same points as the holder
 * that has applied the most of the log to that collection.
 */
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
