import { partitionCount } from '../base/partitions.ts'
import { ownersIn, type Ring, type RingNode, ringOf } from './ring.ts'

/**
 * Which nodes have which partitions, and which nodes should have them. The two differ while partitions move:
 *
 *   the ring changes ─> a node copies a partition from an owner ─> it becomes an owner ─> a surplus owner leaves
 *
 * Only the functions here derive one value of this kind from another. So at every moment each partition has either
 * all owners that it had, or all owners that it should have.
 */
export interface Ownership {
  /** The owners that partitions should have. */
  readonly ring: Ring
  /** By partition, the nodes that have all of its points, sorted by name. */
  readonly owners: readonly (readonly string[])[]
}

/** A partition that a node should receive. */
export interface Move {
  readonly partition: number
  readonly to: string
  /** Nodes that have it. */
  readonly from: readonly string[]
}

/** The ownership of a new cluster: nothing has to move. */
export function foundedOwnership(nodes: readonly RingNode[], replicas: number): Ownership {
  const ring = ringOf(nodes, replicas)
  return { ring, owners: ownersIn(ring).map(sorted) }
}

/**
 * Sets the ring after nodes joined or are to leave, or after the number of replicas changed. The owners stay the
 * same.
 */
export function withRing(ownership: Ownership, nodes: readonly RingNode[], replicas: number): Ownership {
  return { ...ownership, ring: ringOf(nodes, replicas, ownership.ring) }
}

/** The moves that are left, partition by partition. */
export function movesOf({ ring, owners }: Ownership): readonly Move[] {
  return ownersIn(ring).flatMap((wanted, partition) => {
    const from = owners[partition]!
    return wanted.filter((node) => !from.includes(node)).map((to) => ({ partition, to, from }))
  })
}

/** Counts the copies of partitions that nodes have but should not have. */
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
 * Adds a node that now has all points of a partition as an owner.
 *
 * @throws RangeError when it should not have them
 */
export function withOwner(ownership: Ownership, partition: number, node: string): Ownership {
  const before = ownersOf(ownership, partition)
  if (before.includes(node)) return ownership
  if (!wantedOf(ownership, partition).includes(node)) {
    throw new RangeError(`${node} should not have partition ${partition}`)
  }
  return withOwnersOf(ownership, partition, [...before, node])
}

/**
 * Removes a node as an owner of a partition. Undefined while it must stay one: not all nodes that should have the
 * partition have it yet.
 *
 * @throws RangeError when it should keep the partition
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
 * Removes a node that is gone for good, with everything it had.
 *
 * @returns also the partitions that no node has any more
 */
export function withoutNode(
  ownership: Ownership,
  node: string,
): { readonly ownership: Ownership; readonly lost: readonly number[] } {
  const owners = ownership.owners.map((each) => each.filter((owner) => owner !== node))
  const lost = owners.flatMap((each, partition) => (each.length === 0 ? [partition] : []))
  return { ownership: { ...ownership, owners }, lost }
}

/** @throws RangeError when the document does not hold a valid ownership */
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
