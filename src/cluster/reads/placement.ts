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

/** By partition, the nodes that own it. */
export type Owners = readonly (readonly string[])[]

export interface PlacementOptions {
  readonly self: string
  /** The owners in the topology: a new object after each change. */
  readonly owners: () => Owners
  /** The partitions that this node holds itself, whatever the topology says: a new object after each change. */
  readonly held: () => PartitionSet
  /** Whether another node can be asked now. */
  readonly isLive: (node: string) => boolean
  /** Whether something keeps another node from applying the log, so that it may let every question wait. Absent: never. */
  readonly hasFault?: ((node: string) => boolean) | undefined
}

/** Where the points are, for reads: at the owners in the topology, and at this node. */
export class Placement {
  readonly #options: PlacementOptions
  /** Counts the covers, so that covers of the same size take turns. */
  #covers = 0
  #known: Known | undefined

  constructor(options: PlacementOptions) {
    this.#options = options
  }

  /**
   * Returns few live nodes that hold some partitions together: the fewest, unless partitions are moving. This node is
   * one of them if it holds any, since that takes no hop. Nodes with a fault are left out if the others are enough.
   *
   * @param wanted the partitions
   * @param avoid nodes that are not asked
   */
  cover(wanted: PartitionSet, avoid: ReadonlySet<string> = nobody): Cover {
    const { self, hasFault } = this.#options
    const faulty = this.#now.nodes.filter((node) => node !== self && hasFault?.(node))
    const cover = this.#cover(wanted, faulty.length === 0 ? avoid : new Set([...avoid, ...faulty]))
    return cover.missing.size === 0 || faulty.length === 0 ? cover : this.#cover(wanted, avoid)
  }

  #cover(wanted: PartitionSet, avoid: ReadonlySet<string>): Cover {
    const { self } = this.#options
    const { groups, nodes, covers } = this.#now
    const live = nodes.filter((node) => !avoid.has(node) && this.#isLive(node))
    this.#covers += 1
    const turn = this.#covers
    if (!wanted.isAll) return coverOf(groups, wanted, live, turn, self)
    // Nearly every read needs all partitions, and takes longer to find its cover than to send a question.
    const key = JSON.stringify([turn % Math.max(1, live.length), live])
    const cover = covers.get(key) ?? coverOf(groups, wanted, live, turn, self)
    if (covers.size >= coversMax) covers.clear()
    covers.set(key, cover)
    return cover
  }

  /** By name, whether each node that holds some partition can be asked. */
  get nodes(): ReadonlyMap<string, boolean> {
    return new Map(this.#now.nodes.map((node) => [node, this.#isLive(node)]))
  }

  /** The live nodes that hold a partition, this node first. */
  owners(partition: number): readonly string[] {
    const { self } = this.#options
    const there = this.#now.owners[partition]!.filter((node) => this.#isLive(node))
    return there.toSorted((one, other) => Number(other === self) - Number(one === self))
  }

  #isLive(node: string): boolean {
    return node === this.#options.self || this.#options.isLive(node)
  }

  get #now(): Known {
    const { self } = this.#options
    const [said, held] = [this.#options.owners(), this.#options.held()]
    if (this.#known?.said === said && this.#known.held === held) return this.#known
    const owners = said.map((nodes, partition) => {
      const others = nodes.filter((node) => node !== self)
      return held.has(partition) ? [...others, self] : others
    })
    const groups = new Map<string, OwnerGroup>()
    for (const [partition, nodes] of owners.entries())
      addTo(groups, nodes.toSorted(), PartitionSet.of([partition]))
    const nodes = [...new Set(owners.flat())].sort()
    this.#known = { said, held, owners, nodes, groups: [...groups.values()], covers: new Map() }
    return this.#known
  }
}

/** What follows from owners and held partitions: they change rarely, and each read asks for a cover. */
interface Known {
  readonly said: Owners
  readonly held: PartitionSet
  readonly owners: Owners
  readonly nodes: readonly string[]
  /** All partitions. */
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

function addTo(groups: Map<string, OwnerGroup>, owners: readonly string[], partitions: PartitionSet): void {
  const key = JSON.stringify(owners)
  const group = groups.get(key) ?? { owners, partitions: new PartitionSet() }
  group.partitions.addAll(partitions)
  groups.set(key, group)
}

/**
 * Returns few of some nodes that have the wanted partitions together. That is a set cover: partitions with the same live
 * owners are one element of it.
 *
 * @param nodes those that can be asked, sorted
 * @param turn chooses among covers of the same size, to spread the load over the nodes
 * @param self the first part of the cover if it has any of the partitions
 */
function coverOf(
  groups: readonly OwnerGroup[],
  wanted: PartitionSet,
  nodes: readonly string[],
  turn: number,
  self: string,
): Cover {
  const live = new Map<string, OwnerGroup>()
  const missing = new PartitionSet()
  for (const { owners, partitions } of groups) {
    const there = partitions.common(wanted)
    if (there.size === 0) continue
    const left = owners.filter((node) => nodes.includes(node))
    if (left.length === 0) missing.addAll(there)
    else addTo(live, left, there)
  }
  const elements = [...live.values()]
  const owning = nodes.filter((node) => elements.some(({ owners }) => owners.includes(node)))
  const start = turn % Math.max(1, owning.length)
  // Of equally good nodes, earlier ones are chosen first.
  const ranked = [...owning.slice(start), ...owning.slice(0, start)]
  const others = elements.filter(({ owners }) => !owners.includes(self))
  const parts = new Map([self, ...fewNodes(others, ranked)].map((node) => [node, new PartitionSet()]))
  for (const { owners, partitions } of elements) {
    for (const [node, part] of parts) {
      if (!owners.includes(node)) continue
      part.addAll(partitions)
      break
    }
  }
  const asked = Array.from(parts, ([node, partitions]) => ({ node, partitions }))
  return { parts: asked.filter(({ partitions }) => partitions.size > 0), missing }
}

/**
 * Few nodes such that each group has an owner among them: again and again the owner that has most of what is left, of the
 * group that has the least choice. Along a ring these are the fewest.
 */
function fewNodes(groups: readonly OwnerGroup[], ranked: readonly string[]): readonly string[] {
  const chosen: string[] = []
  for (let left = groups; left.length > 0; ) {
    const reach = reachOf(left)
    const choiceOf = ({ owners }: OwnerGroup): number =>
      owners.reduce((sum, each) => sum + reach.get(each)!, 0)
    const hardest = left.reduce((one, other) => (choiceOf(other) < choiceOf(one) ? other : one))
    const best = ranked
      .filter((node) => hardest.owners.includes(node))
      .reduce((one, other) => (reach.get(other)! > reach.get(one)! ? other : one))
    chosen.push(best)
    left = left.filter(({ owners }) => !owners.includes(best))
  }
  return chosen
}

/** By node, how many groups it owns. */
function reachOf(groups: readonly OwnerGroup[]): ReadonlyMap<string, number> {
  const reach = new Map<string, number>()
  for (const { owners } of groups) {
    for (const owner of owners) reach.set(owner, (reach.get(owner) ?? 0) + 1)
  }
  return reach
}

const coversMax = 256
const nobody: ReadonlySet<string> = new Set()

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
