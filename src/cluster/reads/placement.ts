import { DatabaseError } from '../../base/errors.ts'
import { PartitionSet } from '../../base/partitions.ts'
import type { Collection } from '../../collections/collection.ts'

/** A node that is asked, and the partitions that it answers for: no other part of the cover has them. */
export interface CoverPart {
  readonly node: string
  readonly partitions: PartitionSet
}

/** The nodes that answer a read together. */
export interface Cover {
  readonly parts: readonly CoverPart[]
  /** Partitions without a live owner. */
  readonly missing: PartitionSet
}

/** Where the points are, for reads. */
export interface Placement {
  /**
   * Returns the fewest live nodes that hold some partitions together. This node is one of them if it holds any.
   *
   * @param wanted the partitions
   * @param avoid nodes that are not asked
   */
  cover(wanted: PartitionSet, avoid: ReadonlySet<string>): Cover
  /** By name, whether each node that holds some partition can be asked. */
  readonly nodes: ReadonlyMap<string, boolean>
  /** The live nodes that hold a partition, this node first. */
  owners(partition: number): readonly string[]
}

/** By partition, the nodes that own it. */
export type Owners = readonly (readonly string[])[]

export interface OwnedPlacementOptions {
  readonly self: string
  /** The owners in the topology: a new object after each change. */
  readonly owners: () => Owners
  /** The partitions that this node holds itself, whatever the topology says: a new object after each change. */
  readonly held: () => PartitionSet
  /** Whether another node can be asked now. */
  readonly isLive: (node: string) => boolean
}

/** Where the points are: at the owners in the topology, and at this node. */
export class OwnedPlacement implements Placement {
  readonly #options: OwnedPlacementOptions
  /** Counts the covers, so that covers of the same size take turns. */
  #covers = 0
  #known: Known | undefined

  constructor(options: OwnedPlacementOptions) {
    this.#options = options
  }

  cover(wanted: PartitionSet, avoid: ReadonlySet<string>): Cover {
    const { self, isLive } = this.#options
    const { groups, nodes, covers } = this.#now
    this.#covers += 1
    const live = nodes.filter((node) => !avoid.has(node) && (node === self || isLive(node)))
    const turn = this.#covers % Math.max(1, live.length)
    const find = (): Cover =>
      coverOf({
        groups,
        wanted,
        turn,
        self: live.includes(self) ? self : undefined,
        isLive: (node) => node !== self && live.includes(node),
      })
    if (!wanted.isAll) return find()
    // Nearly every read needs all partitions, and takes longer to find its cover than to send a question.
    const key = JSON.stringify([turn, live])
    const known = covers.get(key)
    if (known !== undefined) return known
    const cover = find()
    if (covers.size >= coversMax) covers.clear()
    covers.set(key, cover)
    return cover
  }

  get nodes(): ReadonlyMap<string, boolean> {
    const { self, isLive } = this.#options
    return new Map(this.#now.nodes.toSorted().map((node) => [node, node === self || isLive(node)]))
  }

  owners(partition: number): readonly string[] {
    const { self, isLive } = this.#options
    const there = this.#now.owners[partition]!.filter((node) => node === self || isLive(node))
    return there.toSorted((one, other) => Number(other === self) - Number(one === self))
  }

  get #now(): Known {
    const { self } = this.#options
    const [said, held] = [this.#options.owners(), this.#options.held()]
    if (this.#known?.said === said && this.#known.held === held) return this.#known
    const owners = said.map((nodes, partition) => {
      const others = nodes.filter((node) => node !== self)
      return held.has(partition) ? [...others, self] : others
    })
    const nodes = [...new Set(owners.flat())]
    const groups = ownerGroups(owners)
    this.#known = { said, held, owners, nodes, groups, covers: new Map() }
    return this.#known
  }
}

interface Known {
  readonly said: Owners
  readonly held: PartitionSet
  readonly owners: Owners
  readonly nodes: readonly string[]
  readonly groups: readonly OwnerGroup[]
  /** Of all partitions, by the nodes that can be asked and whose turn it is. */
  readonly covers: Map<string, Cover>
}

/** Partitions with the same owners. */
interface OwnerGroup {
  /** Sorted. */
  readonly owners: readonly string[]
  readonly partitions: PartitionSet
}

interface CoverQuestion {
  /** All partitions, by their owners; see `ownerGroups`. */
  readonly groups: readonly OwnerGroup[]
  /** The partitions to cover. */
  readonly wanted: PartitionSet
  /** Whether a node can be asked. */
  readonly isLive: (node: string) => boolean
  /**
   * The node that asks. It is part of the cover if it has any of the partitions, since that takes no hop. Absent: not
   * itself.
   */
  readonly self?: string | undefined
  /** Chooses among covers of the same size, to spread the load over the nodes. */
  readonly turn?: number | undefined
}

/**
 * Groups the partitions by their owners. No other step of a cover looks at single partitions: owners change rarely,
 * and each read asks for a cover.
 *
 * @param owners by partition, the nodes that have it
 */
export function ownerGroups(owners: readonly (readonly string[])[]): readonly OwnerGroup[] {
  const groups = new Map<string, OwnerGroup>()
  for (const [partition, nodes] of owners.entries()) {
    addTo(groups, nodes.toSorted(), PartitionSet.of([partition]))
  }
  return [...groups.values()]
}

/**
 * Returns the fewest nodes that have the wanted partitions together. That is a set cover: partitions with the same
 * live owners are one element of it. Unless partitions are moving, there are no more elements than nodes, so a search
 * with bounds finds the smallest cover in well under a millisecond. After `stepsMax` steps it keeps the best cover
 * found so far.
 */
export function coverOf(question: CoverQuestion): Cover {
  const { self, turn = 0 } = question
  const { groups, missing } = liveGroups(question)
  const nodes = [...new Set(groups.flatMap(({ owners }) => owners))].sort()
  const start = nodes.length === 0 ? 0 : turn % nodes.length
  // Of equally good nodes, earlier ones are chosen first.
  const ranked = [...nodes.slice(start), ...nodes.slice(0, start)]
  const chosen = self !== undefined && nodes.includes(self) ? [self] : []
  const left = groups.filter(({ owners }) => !owners.some((owner) => chosen.includes(owner)))
  const nodesOf = [...chosen, ...fewest(left, ranked)]
  return { parts: partsOf(groups, nodesOf), missing }
}

/** The wanted partitions grouped by their live owners, and those without a live owner. */
function liveGroups({ groups, wanted, isLive, self }: CoverQuestion): {
  readonly groups: readonly OwnerGroup[]
  readonly missing: PartitionSet
} {
  const live = new Map<string, OwnerGroup>()
  const missing = new PartitionSet()
  for (const { owners, partitions } of groups) {
    const there = partitions.common(wanted)
    if (there.size === 0) continue
    const left = owners.filter((node) => node === self || isLive(node))
    if (left.length === 0) missing.addAll(there)
    else addTo(live, left, there)
  }
  return { groups: [...live.values()], missing }
}

function addTo(groups: Map<string, OwnerGroup>, owners: readonly string[], partitions: PartitionSet): void {
  const key = JSON.stringify(owners)
  const group = groups.get(key)
  if (group === undefined) groups.set(key, { owners, partitions })
  else group.partitions.addAll(partitions)
}

/** The fewest nodes such that each group has an owner among them. */
function fewest(groups: readonly OwnerGroup[], ranked: readonly string[]): readonly string[] {
  let best: readonly string[] = ranked
  let steps = 0
  const search = (left: readonly OwnerGroup[], chosen: readonly string[]): void => {
    if (left.length === 0) {
      if (chosen.length < best.length) best = chosen
      return
    }
    const reach = reachOf(left)
    const most = Math.max(...reach.values())
    if (chosen.length + Math.ceil(left.length / most) >= best.length || steps >= stepsMax) return
    steps += 1
    // One of its owners must be chosen: the group with the fewest owners has the fewest branches.
    const hardest = left.reduce((one, other) => (other.owners.length < one.owners.length ? other : one))
    const choices = hardest.owners.toSorted(
      (one, other) => reach.get(other)! - reach.get(one)! || ranked.indexOf(one) - ranked.indexOf(other),
    )
    for (const node of choices) {
      search(
        left.filter(({ owners }) => !owners.includes(node)),
        [...chosen, node],
      )
    }
  }
  search(groups, [])
  return groups.length === 0 ? [] : best
}

/** By node, how many groups it owns. */
function reachOf(groups: readonly OwnerGroup[]): ReadonlyMap<string, number> {
  const reach = new Map<string, number>()
  for (const { owners } of groups) {
    for (const owner of owners) reach.set(owner, (reach.get(owner) ?? 0) + 1)
  }
  return reach
}

/** Assigns each group to the first of these nodes that owns it. */
function partsOf(groups: readonly OwnerGroup[], nodes: readonly string[]): readonly CoverPart[] {
  const parts = new Map(nodes.map((node) => [node, new PartitionSet()]))
  for (const { owners, partitions } of groups) {
    const node = nodes.find((each) => owners.includes(each))!
    parts.get(node)!.addAll(partitions)
  }
  return [...parts].map(([node, partitions]) => ({ node, partitions }))
}

const stepsMax = 20_000
const coversMax = 256

/**
 * Checks that a node holds all partitions that it is asked about. Otherwise its answer would be incomplete.
 *
 * @throws DatabaseError `not_ready` that names a missing partition
 */
export function checkHolds(held: PartitionSet, asked: PartitionSet): void {
  for (const partition of asked) {
    if (held.has(partition)) continue
    throw new DatabaseError('not_ready', `this node does not hold partition ${partition}: try again later`)
  }
}

/**
 * Checks that the points of a collection are those of the position that its node has applied. After a restart the
 * collection can be ahead of it.
 *
 * @throws DatabaseError `not_ready`
 */
export function checkNotAhead({ replica }: Pick<Collection, 'replica'>, position: number): void {
  if (replica.position <= position) return
  throw new DatabaseError(
    'not_ready',
    `this node is reading the log again up to position ${replica.position}: try again later`,
  )
}
