import { partitionCount } from '../base/partitions.ts'
import { ownersIn, type Ring, type RingNode, ringOf } from './ring.ts'

/**
 * Which nodes have which partitions, and which should. The two differ while partitions move:
 *
 *   the ring changes ─> a node gets a partition from one that has it ─> it is an owner ─> one that should not be goes
 *
 * Values of this kind follow each other by the functions here only, so that at every moment each partition has all owners
 * that it had, or all that it should have.
 */
export interface Ownership {
  /** What should be. */
  readonly ring: Ring
  /** By partition, the nodes that have all of its points, in the order of their names. */
  readonly owners: readonly (readonly string[])[]
}

/** A partition that a node should get. */
export interface Move {
  readonly partition: number
  readonly to: string
  /** Nodes that have it. */
  readonly from: readonly string[]
}

/** Of a cluster without points: nothing has to move. */
export function foundedOwnership(nodes: readonly RingNode[], replicas: number): Ownership {
  const ring = ringOf(nodes, replicas)
  return { ring, owners: ownersIn(ring).map(sorted) }
}

/** After nodes came or were told to go, or the number of replicas changed; what nodes have stays the same. */
export function withRing(ownership: Ownership, nodes: readonly RingNode[], replicas: number): Ownership {
  return { ...ownership, ring: ringOf(nodes, replicas, ownership.ring) }
}

/** What has to be moved, partition by partition. */
export function movesOf({ ring, owners }: Ownership): readonly Move[] {
  return ownersIn(ring).flatMap((wanted, partition) => {
    const from = owners[partition]!
    return wanted.filter((node) => !from.includes(node)).map((to) => ({ partition, to, from }))
  })
}

/** Copies of partitions that nodes have, and should not: how many. */
export function surplusOf({ ring, owners }: Ownership): number {
  const surplus = ownersIn(ring).map((wanted, partition) =>
    wanted.length === 0 ? 0 : owners[partition]!.filter((node) => !wanted.includes(node)).length,
  )
  return surplus.reduce((sum, each) => sum + each, 0)
}

/** How many partitions a node has, and how many it should have. */
export function shareOf(
  { ring, owners }: Ownership,
  node: string,
): { readonly owned: number; readonly wanted: number } {
  const countIn = (lists: readonly (readonly string[])[]): number =>
    lists.filter((each) => each.includes(node)).length
  return { owned: countIn(owners), wanted: countIn(ownersIn(ring)) }
}

/**
 * A node has got all points of a partition.
 *
 * @throws RangeError when it should not have them
 */
export function withOwner(ownership: Ownership, partition: number, node: string): Ownership {
  const before = ownersOf(ownership, partition)
  if (before.includes(node)) return ownership
  if (!wantedOf(ownership, partition).includes(node)) {
    throw new RangeError(`${node} is not to have partition ${partition}`)
  }
  return withOwnersOf(ownership, partition, [...before, node])
}

/**
 * A node gives a partition up. Undefined as long as it must not: those that should have the partition do not all have it.
 *
 * @throws RangeError when it should keep it
 */
export function withoutOwner(ownership: Ownership, partition: number, node: string): Ownership | undefined {
  const before = ownersOf(ownership, partition)
  const wanted = wantedOf(ownership, partition)
  if (wanted.includes(node)) throw new RangeError(`${node} has to keep partition ${partition}`)
  if (!before.includes(node)) return ownership
  if (wanted.length === 0 || !wanted.every((each) => before.includes(each))) return undefined
  return withOwnersOf(
    ownership,
    partition,
    before.filter((each) => each !== node),
  )
}

/**
 * A node is gone for good, with what it had.
 *
 * @returns with the partitions that nobody has any more
 */
export function withoutNode(
  ownership: Ownership,
  node: string,
): { readonly ownership: Ownership; readonly lost: readonly number[] } {
  const owners = ownership.owners.map((each) => each.filter((owner) => owner !== node))
  const lost = owners.flatMap((each, partition) => (each.length === 0 ? [partition] : []))
  return { ownership: { ...ownership, owners }, lost }
}

/** @throws RangeError when a document of the cluster is not an ownership */
export function checkOwnership({ ring, owners }: Ownership): void {
  const isRing = ring.firsts.every((first) => first >= 0 && first < Math.max(1, ring.nodes.length))
  if (owners.length !== partitionCount || ring.firsts.length !== partitionCount || !isRing) {
    throw new RangeError('the owners of partitions in the topology are damaged')
  }
}

function ownersOf({ owners }: Ownership, partition: number): readonly string[] {
  return owners[partition]!
}

function wantedOf({ ring }: Ownership, partition: number): readonly string[] {
  return ownersIn(ring)[partition]!
}

function withOwnersOf(ownership: Ownership, partition: number, owners: readonly string[]): Ownership {
  return { ...ownership, owners: ownership.owners.with(partition, sorted(owners)) }
}

function sorted(names: readonly string[]): readonly string[] {
  return names.toSorted()
}
